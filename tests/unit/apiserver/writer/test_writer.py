"""Whoever writes: what is stored is admitted, checked and has owners, and no change is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from kit.calls import a_call
from kit.cluster import START, TestCluster, cluster, owners
from kit.virtual_time import virtual_time
from pykubelet.apiserver.bootstrap import bootstrap
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.requests.options import DeleteOptions, Preconditions
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import User, authenticated
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.verbs.create import create
from pykubelet.apiserver.writer.author import KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER, Author
from pykubelet.apiserver.writer.writer import Writer
from pykubelet.base.errors import Retry

MAPS, PODS, SERVICES = ("", "configmaps"), ("", "pods"), ("", "services")
ADDRESSES = ("networking.k8s.io", "ipaddresses")
NAME = {"type": "ExternalName", "externalName": "example.com"}
OPEN = {"type": "ClusterIP", "ports": [{"port": 80}]}
COMPONENTS = (KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER)
Create = Callable[[TestCluster, str, dict[str, Any]], Awaitable[Any]]


async def by_request(c: TestCluster, plural: str, obj: dict[str, Any]) -> Any:
    path = f"/api/v1/namespaces/{obj['metadata']['namespace']}/{plural}"
    return (await create(c.backend, a_call(c.backend, "POST", path, obj))).obj


def by_component(author: Author) -> Create:
    async def made(c: TestCluster, plural: str, obj: dict[str, Any]) -> Any:
        await Writer(c.backend, author).ensure(c.resources.of("", plural), obj)

    return made


async def by_controller(c: TestCluster, plural: str, obj: dict[str, Any]) -> Any:
    await ControllerClient(c.backend).create(("", plural), obj)


async def by_claim(c: TestCluster, plural: str, obj: dict[str, Any]) -> Any:
    await c.writer.claim("", plural, obj)


CALLERS: dict[str, tuple[Create, str]] = {
    "a request": (by_request, "kubectl"),
    "a controller": (by_controller, "kube-controller-manager"),
    "a strategy": (by_claim, "kube-apiserver"),
    **{author.manager: (by_component(author), author.manager) for author in COMPONENTS},
}


@pytest.mark.parametrize("caller", CALLERS)
@virtual_time
async def test_every_callers_object_is_admitted_checked_and_owned(caller: str) -> None:
    make, manager = CALLERS[caller]
    async with cluster() as c:
        spec = {"containers": [{"name": "c", "image": "x"}], "automountServiceAccountToken": False}
        metadata = {"name": "p", "namespace": "default", "uid": "mine", "generation": 9}
        await make(c, "pods", {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
        pod = await c.get("pods", "p")
        assert owners(pod) == [(manager, None)]
        assert [each["key"].partition("/")[2] for each in pod["spec"]["tolerations"]] == ["not-ready", "unreachable"]
        assert pod["spec"]["serviceAccountName"] == "default"
        assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
        assert pod["metadata"]["uid"] != "mine"
        assert (pod["metadata"]["generation"], pod["metadata"]["creationTimestamp"]) == (1, "2026-01-02T03:04:05Z")

        for wrong in (
            {"metadata": {"name": "wrong", "namespace": "default"}, "data": {"not a key": "x"}},
            {"metadata": {"name": "wrong", "namespace": "nowhere"}},
            {"metadata": {"name": "Wrong", "namespace": "default"}},
        ):
            if caller == "a controller":
                await make(c, "configmaps", wrong)
            else:
                with pytest.raises(ApiError):
                    await make(c, "configmaps", wrong)
        assert await c.all(MAPS) == []


@virtual_time
async def test_what_the_server_starts_with_is_owned_by_it_and_a_second_start_changes_nothing() -> None:
    async with cluster() as c:
        await bootstrap(c.backend)
        assert owners(await c.get("services", "kubernetes")) == [("kube-apiserver", None)]
        assert owners(await c.get("endpoints", "kubernetes")) == [("kube-apiserver", None)]
        (address,) = await c.all(ADDRESSES)
        assert (address["metadata"]["name"], owners(address)) == ("10.96.0.1", [("kube-apiserver", None)])

        before = await c.store.revision()
        await bootstrap(c.backend)
        assert await c.store.revision() == before


@virtual_time
async def test_an_address_that_a_service_of_before_has_left_behind_does_not_stop_the_server() -> None:
    async with cluster() as c:
        await c.add(*ADDRESSES, {"metadata": {"name": "10.96.0.1"}})
        await bootstrap(c.backend)
        assert (await c.get("services", "kubernetes"))["spec"]["clusterIP"] == "10.96.0.1"


@virtual_time
async def test_a_new_namespace_has_its_account_at_once() -> None:
    async with cluster() as c:
        await c.writer.ensure(c.resource(("", "namespaces")), {"metadata": {"name": "new"}})
        assert await c.get("serviceaccounts", "default", "new") is not None


# --- what a service has beside itself


async def addresses(c: TestCluster) -> list[str]:
    return [each["metadata"]["name"] for each in await c.all(ADDRESSES)]


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": {"ports": [{"port": 80}], **spec}}


@virtual_time
async def test_an_address_is_free_again_when_its_service_goes_or_becomes_a_mere_name() -> None:
    async with cluster() as c:
        await c.create(SERVICES, service(clusterIP="10.96.7.7"))
        assert await addresses(c) == ["10.96.7.7"]
        web = await c.get("services", "web")
        await c.change(SERVICES, web, lambda live: {**live, "spec": NAME})
        assert await addresses(c) == []

        await c.change(SERVICES, web, lambda live: {**live, "spec": OPEN})
        (address,) = await addresses(c)
        assert (await c.get("services", "web"))["spec"]["clusterIP"] == address
        await c.remove(SERVICES, web)
        assert await addresses(c) == []


@virtual_time
async def test_who_comes_too_late_leaves_no_address_behind() -> None:
    async with cluster() as c:
        c.store.before_write("services/specs/default/web", lambda: c.add(*SERVICES, service(**NAME)))
        assert not await c.create(SERVICES, service())
        assert await addresses(c) == []

        web = await c.get("services", "web")
        c.store.before_write("services/specs/default/web", lambda: c.label(SERVICES, web, a="b"))
        await c.change(SERVICES, web, lambda live: {**live, "spec": OPEN})
        assert await addresses(c) == [(await c.get("services", "web"))["spec"]["clusterIP"]]

        removed = await c.get("services", "web")
        await c.change(SERVICES, removed, lambda live: {**live, "spec": NAME})
        c.store.before_write("services/specs/default/web", lambda: c.remove(SERVICES, removed))
        await c.change(SERVICES, removed, lambda live: {**live, "spec": OPEN})
        assert await addresses(c) == []


@virtual_time
async def test_a_dry_run_leaves_nothing() -> None:
    async with cluster() as c:
        trial = Writer(c.backend, Author(KUBE_APISERVER.user, "me", dry_run=True))
        resource = c.resource(SERVICES)
        assert (await create(c.backend, dry_service(c))).code == 201
        await c.add(*SERVICES, {**service(), "spec": NAME})
        before = await c.store.list("/registry/services/")

        def opened(old: dict[str, Any]) -> dict[str, Any]:
            return c.backend.strategy(resource).normal({**old, "spec": OPEN})

        changed = await trial.change(resource, "default", "web", opened)
        assert changed["spec"]["clusterIP"]
        _, is_gone = await trial.delete(resource, "default", "web")
        assert is_gone
        assert not await trial.ensure(resource, service())
        assert await addresses(c) == []
        assert (await c.store.list("/registry/services/")).entries == before.entries


def whole(obj: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", **obj}


def dry_service(c: TestCluster) -> Any:
    return a_call(c.backend, "POST", "/api/v1/namespaces/default/services", whole(service()), dry_run=True)


# --- no change is lost


@virtual_time
async def test_many_who_change_one_object_at_once_all_succeed() -> None:
    async with cluster() as c:
        await c.add(*MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        resource = c.resource(MAPS)

        async def add(number: int) -> None:
            await asyncio.sleep(0)
            key = f"k{number}"
            await c.writer.change(
                resource, "default", "a", lambda old: {**old, "data": {**old.get("data", {}), key: "x"}}
            )

        for number in range(5):
            c.store.before_write("configmaps/default/a", partial(add, number + 100))
        await asyncio.gather(*map(add, range(20)))
        assert len((await c.get("configmaps", "a"))["data"]) == 25


@virtual_time
async def test_what_goes_in_between_is_not_found_and_what_is_marked_goes_with_its_last_finalizer() -> None:
    async with cluster() as c:
        resource = c.resource(MAPS)
        held = {"name": "a", "namespace": "default", "finalizers": ["example.com/hold"]}
        await c.add(*MAPS, {"metadata": held})
        c.store.before_write("configmaps/default/a", lambda: c.writer.delete(resource, "default", "a"))
        await c.writer.change(
            resource, "default", "a", lambda old: {**old, "metadata": {**old["metadata"], "finalizers": []}}
        )
        assert await c.get("configmaps", "a") is None

        await c.add(*MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        c.store.before_write("configmaps/default/a", lambda: c.writer.delete(resource, "default", "a"))
        with pytest.raises(ApiError, match="not found"):
            await c.writer.change(resource, "default", "a", lambda old: {**old, "data": {"a": "b"}})


@virtual_time
async def test_preconditions_are_asked_of_the_object_that_is_there_in_the_end() -> None:
    async with cluster() as c:
        resource = c.resource(MAPS)
        made = await c.add(*MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        version = made["metadata"]["resourceVersion"]
        options = DeleteOptions(preconditions=Preconditions(resource_version=version))
        c.store.before_write("configmaps/default/a", lambda: c.label(MAPS, made, x="y"))
        with pytest.raises(ApiError, match="might have been modified"):
            await c.writer.delete(resource, "default", "a", options)
        assert await c.get("configmaps", "a") is not None


# --- access control


class Asked:
    """Remembers about what it was asked, and lets everybody in but those it does not like."""

    def __init__(self, refused: str = "") -> None:
        self.about: list[tuple[str, str, str, str, str]] = []
        self.refused = refused

    async def identify(self, request: Any) -> User:
        raise NotImplementedError

    async def check(self, user: User, info: RequestInfo) -> str:
        raise NotImplementedError

    async def check_body(self, user: User, info: RequestInfo, body: Any, live: Any) -> None:
        self.about.append((user.name, info.verb, info.resource, info.subresource, info.name))
        if info.verb == self.refused:
            raise ApiError(403, "Forbidden", "no")


@virtual_time
async def test_access_control_is_asked_about_every_write() -> None:
    async with cluster() as c:
        await c.pod("p")
        access = c.backend.access = Asked()
        await c.create(MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        pod = await c.get("pods", "p")
        await c.change(PODS, pod, lambda live: {**live, "status": {"phase": "Failed"}}, part="status")
        await c.remove(PODS, pod, grace=0)
        me = "system:kube-controller-manager"
        assert access.about == [
            (me, "create", "configmaps", "", "a"),
            (me, "update", "pods", "status", "p"),
            (me, "delete", "pods", "", "p"),
        ]


@pytest.mark.parametrize("verb", ["create", "update", "delete"])
@virtual_time
async def test_what_access_control_refuses_is_not_written(verb: str) -> None:
    async with cluster() as c:
        await c.add(*MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        c.backend.access = Asked(verb)
        writer, resource = Writer(c.backend, Author(authenticated("u"), "m")), c.resource(MAPS)
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "create": lambda: writer.ensure(resource, {"metadata": {"name": "b", "namespace": "default"}}),
            "update": lambda: writer.change(resource, "default", "a", lambda old: {**old, "data": {"a": "b"}}),
            "delete": lambda: writer.delete(resource, "default", "a"),
        }
        before = await c.store.revision()
        with pytest.raises(ApiError, match="no"):
            await ways[verb]()
        assert await c.store.revision() == before


@virtual_time
async def test_what_nobody_changes_is_not_written() -> None:
    async with cluster() as c:
        await c.create(MAPS, {"metadata": {"name": "a", "namespace": "default"}, "data": {"a": "b"}})
        before = await c.store.revision()
        c.clock.pass_(60)
        resource = c.resource(MAPS)
        await c.writer.change(resource, "default", "a", lambda old: None)
        await c.writer.change(resource, "default", "a", lambda old: {**old, "data": {"a": "b"}})
        assert await c.store.revision() == before
        assert c.now() > START


@virtual_time
async def test_a_change_that_takes_over_the_metadata_as_it_was_keeps_who_the_object_is() -> None:
    async with cluster() as c:
        made = await c.add(*MAPS, {"metadata": {"name": "a", "namespace": "default"}})
        changed = await c.writer.change(c.resource(MAPS), "default", "a", lambda old: {**old, "data": {"a": "b"}})
        for name in ("uid", "creationTimestamp"):
            assert changed["metadata"][name] == made["metadata"][name]
        assert (await c.get("configmaps", "a"))["metadata"]["uid"] == made["metadata"]["uid"]


@pytest.mark.parametrize("is_cancelled", [True, False])
@virtual_time
async def test_an_address_whose_service_never_came_to_be_can_be_had_again_after_a_while(is_cancelled: bool) -> None:
    async def fail() -> None:
        await asyncio.sleep(10)
        raise Retry("the store is away")

    async with cluster() as c:
        address, resource = "10.96.0.10", c.resource(SERVICES)
        services = {
            name: {"metadata": {"name": name, "namespace": "default"}, "spec": {**OPEN, "clusterIP": address}}
            for name in ("a", "b", "c")
        }
        c.store.before_write("services/specs/default/a", fail)
        making = asyncio.create_task(c.writer.ensure(resource, services["a"]))
        await asyncio.sleep(1)
        if is_cancelled:
            making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        with pytest.raises(ApiError, match="already allocated"):  # somebody may still be busy with it
            await c.writer.ensure(resource, services["b"])
        c.clock.pass_(61)
        both = await asyncio.gather(
            *(c.writer.ensure(resource, services[name]) for name in ("b", "c")), return_exceptions=True
        )
        assert both.count(True) == 1
        (left,) = await c.all(ADDRESSES)
        (made,) = await c.all(SERVICES)
        assert left["spec"]["parentRef"]["name"] == made["metadata"]["name"]
        c.clock.pass_(3600)
        with pytest.raises(ApiError, match="already allocated"):
            await c.writer.ensure(resource, services["a"])
