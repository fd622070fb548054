"""Quotas: what is charged, refused, given back and counted."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster, running
from kit.devices import device_claim, request, wanted
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.client import PODS
from pykubelet.apiserver.controllers.resource_claims import DEVICE_CLAIMS
from pykubelet.apiserver.controllers.resource_quotas import QUOTAS, ResourceQuotaController
from pykubelet.apiserver.objects import Object, stored
from pykubelet.apiserver.requests.users import authenticated
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.writer.author import Author
from pykubelet.apiserver.writer.writer import Writer

MAPS, SERVICES, CLAIMS = ("", "configmaps"), ("", "services"), ("", "persistentvolumeclaims")


def named(name: str, **more: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, **more}


def pod(name: str, cpu: str = "", **spec: Any) -> Object:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}} if cpu else {}
    return named(name, spec={"containers": [{"name": "main", "image": "x", "resources": resources}], **spec})


@asynccontextmanager
async def limited(hard: dict[str, str], **spec: Any) -> AsyncGenerator[TestCluster, None]:
    async with cluster() as c:
        await c.add("", "serviceaccounts", named("default"))
        await c.make(QUOTAS, named("q", spec={"hard": hard, **spec}))
        async with running(ResourceQuotaController(c)):
            await asyncio.sleep(1)
            yield c


async def used(c: TestCluster) -> dict[str, str]:
    return dict((await c.get("resourcequotas", "q"))["status"]["used"])


async def refusal(c: TestCluster, kind: tuple[str, str], obj: Object) -> str:
    with pytest.raises(ApiError) as refused:
        await c.make(kind, obj)
    assert refused.value.code == 403
    return refused.value.message


@virtual_time
async def test_what_is_made_is_charged_and_what_is_too_much_is_refused() -> None:
    async with limited({"pods": "2", "requests.cpu": "1"}) as c:
        assert (await c.get("resourcequotas", "q"))["status"]["hard"] == {"pods": "2", "requests.cpu": "1"}
        await c.make(PODS, pod("one", "600m"))
        assert await used(c) == {"pods": "1", "requests.cpu": "600m"}
        text = "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
        assert text in await refusal(c, PODS, pod("two", "500m"))
        assert "must specify requests.cpu for: main" in await refusal(c, PODS, pod("three"))
        assert await used(c) == {"pods": "1", "requests.cpu": "600m"}


@virtual_time
async def test_of_many_at_once_no_more_than_fit_are_made() -> None:
    async with limited({"pods": "10", "count/pods": "15"}) as c:
        tries = await asyncio.gather(*(c.make(PODS, pod(f"p{i}")) for i in range(50)), return_exceptions=True)
        assert sum(not isinstance(each, BaseException) for each in tries) == 10
        await asyncio.sleep(5)
        assert await used(c) == {"pods": "10", "count/pods": "10"}
        assert c.backend.charges == {}


@virtual_time
async def test_what_goes_or_has_ended_is_given_back() -> None:
    async with limited({"pods": "2", "count/pods": "3", "requests.cpu": "1"}) as c:
        first, second = [await c.make(PODS, pod(name, "500m")) for name in "ab"]
        ended = {"phase": "Succeeded"}
        await c.change(PODS, first, lambda live: {**live, "status": {**live["status"], **ended}}, part="status")
        await asyncio.sleep(1)
        assert await used(c) == {"pods": "1", "count/pods": "2", "requests.cpu": "500m"}
        await c.remove(PODS, second, grace=0)
        await asyncio.sleep(1)
        assert await used(c) == {"pods": "0", "count/pods": "1", "requests.cpu": "0"}


@virtual_time
async def test_services_claims_and_other_kinds_count_as_they_should() -> None:
    hard = {
        "services": "5",
        "services.nodeports": "2",
        "services.loadbalancers": "1",
        "configmaps": "1",
        "persistentvolumeclaims": "2",
        "requests.storage": "10Gi",
        "fast.storageclass.storage.k8s.io/requests.storage": "5Gi",
        "count/jobs.batch": "0",
    }
    async with limited(hard) as c:
        ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
        node_ports = named("one", spec={"ports": ports, "type": "NodePort"})
        service = await c.make(SERVICES, node_ports)
        assert "services.nodeports=1" in await refusal(
            c, SERVICES, named("x", spec={"ports": ports[:1], "type": "NodePort"})
        )
        await c.make(MAPS, named("one"))
        assert "exceeded quota" in await refusal(c, MAPS, named("two"))

        def claim(name: str, size: str, **spec: Any) -> Object:
            resources = {"requests": {"storage": size}}
            return named(name, spec={"accessModes": ["ReadWriteOnce"], "resources": resources, **spec})

        await c.make(CLAIMS, claim("one", "4Gi", storageClassName="fast"))
        assert "fast.storageclass" in await refusal(c, CLAIMS, claim("two", "2Gi", storageClassName="fast"))
        job = named("j", spec={"template": {"spec": pod("x", restartPolicy="Never")["spec"]}})
        assert "count/jobs.batch=1" in await refusal(c, ("batch", "jobs"), job)

        await c.change(SERVICES, service, lambda live: {**live, "spec": {**live["spec"], "type": "ClusterIP"}})
        await asyncio.sleep(1)
        found = await used(c)
        assert (found["services"], found["services.nodeports"], found["requests.storage"]) == ("1", "0", "4Gi")


@virtual_time
async def test_a_scope_counts_only_the_pods_that_are_meant() -> None:
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    async with limited({"pods": "1"}, scopeSelector=selector) as c:
        for name, value in (("high", 10), ("low", 1)):
            await c.add("scheduling.k8s.io", "priorityclasses", {"metadata": {"name": name}, "value": value})
        for name in "ab":
            await c.make(PODS, pod(f"low-{name}", priorityClassName="low"))
        await c.make(PODS, pod("high-a", priorityClassName="high"))
        assert "exceeded quota" in await refusal(c, PODS, pod("high-b", priorityClassName="high"))
        await asyncio.sleep(1)
        assert await used(c) == {"pods": "1"}


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("BestEffort", pod("x"), pod("x", "1")),
        ("NotBestEffort", pod("x", "1"), pod("x")),
        ("Terminating", pod("x", activeDeadlineSeconds=5), pod("x")),
        ("NotTerminating", pod("x"), pod("x", activeDeadlineSeconds=5)),
    ],
)
@virtual_time
async def test_each_scope_has_its_pods(scope: str, inside: Object, outside: Object) -> None:
    async with limited({"pods": "0"}, scopes=[scope]) as c:
        await c.make(PODS, outside)
        assert "exceeded quota" in await refusal(c, PODS, {**inside, "metadata": {**inside["metadata"], "name": "y"}})


@virtual_time
async def test_nothing_is_admitted_until_it_is_known_what_is_used() -> None:
    async with cluster() as c:
        await c.add("", "serviceaccounts", named("default"))
        await c.make(PODS, pod("before"))
        await c.make(QUOTAS, named("q", spec={"hard": {"pods": "1"}}))
        await asyncio.sleep(1)
        assert "status unknown for quota: q, resources: pods" in await refusal(c, PODS, pod("x"))
        await ResourceQuotaController(c).sync()
        assert await used(c) == {"pods": "1"}
        await asyncio.sleep(1)
        assert "exceeded quota" in await refusal(c, PODS, pod("x"))


@virtual_time
async def test_what_could_not_be_written_is_given_back() -> None:
    async with limited({"configmaps": "5"}) as c:
        await c.make(MAPS, named("one"))
        with pytest.raises(ApiError, match="already exists"):
            await c.make(MAPS, named("one"))
        assert await used(c) == {"configmaps": "1"}


@virtual_time
async def test_a_count_does_not_undo_what_was_charged_meanwhile() -> None:
    async with cluster() as c:
        await c.make(QUOTAS, named("q", spec={"hard": {"configmaps": "9"}}))
        controller = ResourceQuotaController(c)
        await controller.sync()
        await asyncio.sleep(1)
        stale = await c.get("resourcequotas", "q")
        charged = {**stale["status"], "used": {"configmaps": "7"}}
        await c.change(QUOTAS, stale, lambda live: {**live, "status": charged}, part="status")
        assert not await controller.count({**stale, "status": {}})
        assert await used(c) == {"configmaps": "7"}


@virtual_time
async def test_a_dry_run_is_checked_and_costs_nothing() -> None:
    async with limited({"pods": "1", "services.nodeports": "0"}) as c:
        writer = Writer(c.backend, Author(authenticated("jane", ()), "test", dry_run=True))
        for name in ("a", "b"):
            assert await writer.ensure(c.resource(PODS), pod(name))
        assert (await used(c))["pods"] == "0"
        service = await c.make(SERVICES, named("s", spec={"ports": [{"port": 80}]}))
        with pytest.raises(ApiError, match="exceeded quota"):
            await writer.change(
                c.resource(SERVICES),
                "default",
                "s",
                lambda live: {**live, "spec": {**live["spec"], "type": "NodePort"}},
            )
        assert (await c.get("services", "s"))["spec"]["type"] == service["spec"]["type"]


@virtual_time
async def test_a_quota_that_cannot_be_counted_stands_in_nobodys_way() -> None:
    async with cluster() as c:
        spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}
        made = await c.add("", "pods", {"metadata": {"name": "p", "namespace": "kube-system"}, "spec": spec})
        broken = stored({**made, "spec": {"containers": "none"}})
        key = c.resource(PODS).key("kube-system", "p")
        await c.backend.store.update(key, broken, revision=int(made["metadata"]["resourceVersion"]))
        for namespace in ("kube-system", "default"):
            quota = {"metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": {"pods": "1"}}}
            await c.make(QUOTAS, quota)
        await ResourceQuotaController(c).sync()
        assert await used(c) == {"pods": "0"}


@virtual_time
async def test_nobody_gets_more_by_hanging_up_while_it_is_written() -> None:
    async with limited({"configmaps": "3"}) as c:
        written = c.store.create
        for number in range(10):
            make = asyncio.create_task(c.make(MAPS, named(f"m{number}")))

            async def create(key: str, value: bytes, task: asyncio.Task[Object] = make) -> int:
                revision = await written(key, value)
                task.cancel()
                await asyncio.sleep(0)
                return revision

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(c.store, "create", create)
                await asyncio.wait({make})
        assert len(await c.all(MAPS)) == 3
        await asyncio.sleep(5)
        assert await used(c) == {"configmaps": "3"}


@virtual_time
async def test_claims_are_charged_for_devices_by_their_class() -> None:
    devices = ".deviceclass.resource.k8s.io/devices"
    async with limited({f"gpu{devices}": "40", f"nic{devices}": "1", "count/resourceclaims.resource.k8s.io": "9"}) as c:
        some = wanted(count=2), wanted(count=5), wanted(deviceClassName="nic")
        either = {"name": "either", "firstAvailable": [{**each, "name": f"s{n}"} for n, each in enumerate(some)]}
        await c.make(DEVICE_CLAIMS, device_claim("a", request(allocationMode="All"), either))
        await asyncio.sleep(5)
        used = (await c.get("resourcequotas", "q"))["status"]["used"]
        assert used == {f"gpu{devices}": "37", f"nic{devices}": "1", "count/resourceclaims.resource.k8s.io": "1"}
        with pytest.raises(ApiError, match=f"exceeded quota: q, requested: gpu{devices}=4"):
            await c.make(DEVICE_CLAIMS, device_claim("b", request(count=4)))
