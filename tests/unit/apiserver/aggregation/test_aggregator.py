"""Another API server behind ours, over real TLS: found, asked as somebody, listed, and missed when it is gone."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kit.certificates import Authority
from kit.tls_world import World, served
from pykubelet.apiserver.admission.client import service_endpoint
from pykubelet.apiserver.aggregation.aggregator import Aggregator
from pykubelet.apiserver.aggregation.registration import Registration
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.security.serving import front_proxy_context

GROUP = "metrics.k8s.io"
CORE = "/api/v1/namespaces/kube-system"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAME = f"v1beta1.{GROUP}"
PODS = {"name": "pods", "kind": "PodMetrics", "singularName": "pod", "namespaced": True, "verbs": ["get", "list"]}


class Elsewhere:
    """An API server that believes a front proxy, and nobody else."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        self.authority = Authority("others")
        self.asked: list[web.Request] = []
        self.code = 200
        self.many = 0
        """Resources that it says it has beside those of metrics."""
        issued = self.authority.issue("metrics", hosts=["metrics.kube-system.svc"])
        file = folder / "elsewhere.pem"
        file.write_bytes(issued.certificate + issued.key)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(file)
        self.tls.load_verify_locations(cadata=world.pki.front_proxy_authority().pem.decode())
        self.tls.verify_mode = ssl.CERT_REQUIRED

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        if request.path == f"/apis/{GROUP}/v1beta1":
            body = {
                "kind": "APIResourceList",
                "resources": [PODS, {"name": "pods/log", "kind": "Log", "verbs": ["get"]}],
            }
            if self.many:
                return await self.answer_in_pieces(request, body)
            return web.json_response(body, status=self.code)
        return web.json_response({"kind": "PodMetricsList", "items": [], "told": await request.text()})

    async def answer_in_pieces(self, request: web.Request, body: Any) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        more = [{**PODS, "name": f"pods{number}"} for number in range(self.many)]
        text = json.dumps({**body, "resources": [*body["resources"], *more]}).encode()
        for place in range(0, len(text), 32 << 10):
            await response.write(text[place : place + (32 << 10)])
        return response

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[int, None]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        async with served(app, self.tls) as port:
            yield port


class Aggregated:
    def __init__(self, world: World, elsewhere: Elsewhere) -> None:
        client = ControllerClient(world.server.backend)
        self.world, self.elsewhere = world, elsewhere
        self.fault = ""
        contexts = partial(front_proxy_context, world.pki)
        self.aggregator = Aggregator(client, contexts, lambda address, port: self.fault)
        self.registration = Registration(client)
        world.server.aggregate(self.aggregator)

    async def install(self, port: int, **more: Any) -> None:
        """As somebody who installs a server of metrics; without endpoints there is nobody behind its service."""
        ports = [{"name": "https", "port": 443}]
        await self.say("POST", f"{CORE}/services", {"metadata": {"name": "metrics"}, "spec": {"ports": ports}})
        service = {"name": "metrics", "namespace": "kube-system"}
        bundle = base64.b64encode(self.elsewhere.authority.pem).decode()
        spec = {"group": GROUP, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100}
        spec |= {"service": service, "caBundle": bundle, **more}
        await self.say("POST", SERVICES, {"metadata": {"name": NAME}, "spec": spec})
        if port:
            await self.endpoints(port)

    async def endpoints(self, port: int) -> None:
        metadata = {"name": "metrics", "labels": {"kubernetes.io/service-name": "metrics"}}
        ports = [{"name": "https", "port": port}]
        subset = {"addresses": [{"ip": "10.9.9.9"}], "ports": ports}
        await self.say("POST", f"{CORE}/endpoints", {"metadata": metadata, "subsets": [subset]})
        there = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.9.9.9"]}], "ports": ports}
        slices = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
        await self.say("POST", slices, {"metadata": metadata, **there})

    async def say(self, method: str, path: str, body: Any = None) -> Any:
        code, answer = await self.world.ask(method, path, body=body)
        assert code < 300, answer
        return answer

    async def available(self) -> tuple[str, str]:
        await self.aggregator.sync()
        found = await self.say("GET", f"{SERVICES}/{NAME}")
        condition = found["status"]["conditions"][0]
        return condition["status"], condition["reason"]


@pytest.fixture
async def aggregated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Aggregated, None]:
    async def here(lookup: Any, fault: Any, *place: Any) -> tuple[str, int]:
        """The address of the test's server may not be in endpoints: loopback."""
        _, port = await service_endpoint(lookup, fault, *place)
        return "127.0.0.1", port

    monkeypatch.setattr("pykubelet.apiserver.aggregation.aggregator.service_endpoint", here)
    async with World(tmp_path).running() as world:
        yield Aggregated(world, Elsewhere(world, tmp_path))


async def test_requests_are_passed_on_with_who_asks_and_nothing_else_of_him(aggregated: Aggregated) -> None:
    other = aggregated.elsewhere
    async with other.running() as port:
        await aggregated.install(port)
        assert await aggregated.available() == ("True", "Passed")
        assert other.asked[-1].headers["X-Remote-User"] == "system:kube-aggregator"
        path = f"/apis/{GROUP}/v1beta1/namespaces/default/pods"
        code, answer = await aggregated.world.ask(
            "POST",
            f"{path}?a=b",
            body={"x": 1},
            token="admin-token",
            headers={"X-Remote-User": "liar", "X-Remote-Uid": "0"},
        )
        assert (code, answer["told"]) == (200, '{"x": 1}')
        asked = other.asked[-1]
        assert asked.rel_url.raw_path_qs == f"{path}?a=b"
        assert asked.headers.getall("X-Remote-User") == ["admin"]
        assert asked.headers.getall("X-Remote-Group") == ["system:masters", "system:authenticated"]
        assert not {"X-Remote-Uid", "Authorization"} & set(asked.headers)
        assert (await aggregated.world.ask("GET", path, user=""))[0] == 403  # whether he may is asked here first


async def test_discovery_lists_what_it_serves_and_says_when_nobody_knows(aggregated: Aggregated) -> None:
    await aggregated.install(0)
    assert await aggregated.available() == ("False", "EndpointsNotFound")
    new = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}

    async def version() -> Any:
        _, every = await aggregated.world.ask("GET", "/apis", headers=new)
        return next(each for each in every["items"] if each["metadata"]["name"] == GROUP)["versions"][0]

    assert (await version())["freshness"] == "Stale"
    assert (await aggregated.world.ask("GET", f"/apis/{GROUP}/v1beta1/nodes"))[0] == 503
    async with aggregated.elsewhere.running() as port:
        await aggregated.endpoints(port)
        assert await aggregated.available() == ("True", "Passed")
        found = await version()
        home = {"group": GROUP, "version": "v1beta1"}
        assert found["freshness"] == "Current"
        assert found["resources"] == [
            {
                "resource": "pods",
                "scope": "Namespaced",
                "singularResource": "pod",
                "responseKind": {**home, "kind": "PodMetrics"},
                "verbs": ["get", "list"],
                "subresources": [{"subresource": "log", "responseKind": {**home, "kind": "Log"}, "verbs": ["get"]}],
            }
        ]
        group = await aggregated.say("GET", f"/apis/{GROUP}")
        assert group["preferredVersion"]["version"] == "v1beta1"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"service": {"name": "none", "namespace": "kube-system"}}, "ServiceNotFound"),
        ({"service": {"name": "metrics", "namespace": "kube-system", "port": 80}}, "ServicePortError"),
        ({"caBundle": base64.b64encode(Authority("strangers").pem).decode()}, "FailedDiscoveryCheck"),
        ({"caBundle": base64.b64encode(b"nonsense").decode()}, "FailedDiscoveryCheck"),
    ],
)
async def test_why_it_is_not_available_is_said(aggregated: Aggregated, change: Any, reason: str) -> None:
    async with aggregated.elsewhere.running() as port:
        await aggregated.install(port, **change)
        assert await aggregated.available() == ("False", reason)
        assert aggregated.elsewhere.asked == []


async def test_one_that_fails_or_may_not_be_called_is_not_available(aggregated: Aggregated) -> None:
    async with aggregated.elsewhere.running() as port:
        await aggregated.install(port)
        aggregated.elsewhere.code = 500
        assert await aggregated.available() == ("False", "FailedDiscoveryCheck")
        aggregated.elsewhere.code, aggregated.fault = 200, "the API server itself"
        assert await aggregated.available() == ("False", "FailedDiscoveryCheck")


async def test_a_long_list_is_read_to_its_end_and_one_without_end_is_not(aggregated: Aggregated) -> None:
    async with aggregated.elsewhere.running() as port:
        await aggregated.install(port)
        aggregated.elsewhere.many = 3_000
        assert await aggregated.available() == ("True", "Passed")
        assert len((await aggregated.say("GET", f"/apis/{GROUP}/v1beta1"))["resources"]) == 3_002
        aggregated.elsewhere.many = 40_000
        assert await aggregated.available() == ("False", "FailedDiscoveryCheck")


async def test_who_answers_for_api_services_stays_here_or_nobody_could_undo_it(aggregated: Aggregated) -> None:
    group = "apiregistration.k8s.io"
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    spec |= {"service": {"name": "a", "namespace": "b"}, "insecureSkipTLSVerify": True}
    await aggregated.say("POST", SERVICES, {"metadata": {"name": f"v1.{group}"}, "spec": spec})
    await aggregated.say("DELETE", f"{SERVICES}/v1.{group}")


async def test_a_server_is_asked_once_a_second_at_most_however_often_services_change(
    aggregated: Aggregated, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        new = {"metadata": {"name": f"another-{looks}"}, "spec": {"ports": [{"port": 80}]}}
        await aggregated.say("POST", f"{CORE}/services", new)

    await aggregated.install(0)
    monkeypatch.setattr(aggregated.aggregator, "sync", look)
    with suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            await aggregated.aggregator.run()
    assert looks == 1


async def test_without_one_metrics_are_ours_and_every_version_that_is_served_has_an_api_service(
    aggregated: Aggregated,
) -> None:
    await aggregated.registration.sync()
    listed = (await aggregated.say("GET", SERVICES))["items"]
    names = {each["metadata"]["name"] for each in listed}
    assert {"v1.", "v1.apps", "v2.autoscaling", NAME} <= names
    assert {each["status"]["conditions"][0]["reason"] for each in listed} == {"Local"}
    assert (await aggregated.say("GET", f"/apis/{GROUP}/v1beta1"))["resources"][0]["name"] == "nodes"
    await aggregated.say("DELETE", f"{SERVICES}/{NAME}")
    await aggregated.install(0)
    await aggregated.registration.sync()
    assert await aggregated.available() == ("False", "EndpointsNotFound")
    await aggregated.say("DELETE", f"{SERVICES}/{NAME}")
    await aggregated.registration.sync()
    assert (await aggregated.say("GET", f"/apis/{GROUP}/v1beta1"))["resources"][0]["name"] == "nodes"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"version": "v2"}, "metadata.name"),
        ({"groupPriorityMinimum": 20_001}, "spec.groupPriorityMinimum"),
        ({"versionPriority": 0}, "spec.versionPriority"),
        ({"insecureSkipTLSVerify": True}, "spec.insecureSkipTLSVerify"),
        ({"service": {"name": "a"}}, "spec.service.namespace"),
        ({"service": None}, "spec.caBundle"),
    ],
)
async def test_an_api_service_that_cannot_be_right_is_refused(aggregated: Aggregated, change: Any, field: str) -> None:
    spec: Any = {"group": "a.io", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1, "caBundle": "AAAA"}
    spec |= {"service": {"name": "a", "namespace": "b"}}
    code, answer = await aggregated.world.ask(
        "POST", SERVICES, body={"metadata": {"name": "v1.a.io"}, "spec": spec | change}
    )
    assert code == 422
    assert field in [each["field"] for each in answer["details"]["causes"]]
