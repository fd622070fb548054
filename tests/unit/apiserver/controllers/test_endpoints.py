"""Which pods stand behind a service."""

import asyncio
from typing import Any

from kit.cluster import TestCluster, cluster, owners, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.endpoints import EndpointsController

ENDPOINTS, PODS = ("", "endpoints"), ("", "pods")


@virtual_time
async def test_endpoints_follow_the_pods_behind_a_service() -> None:
    ports = [{"name": "main", "ports": [{"name": "http", "containerPort": 8080}]}]
    ready = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    async with cluster() as c, running(EndpointsController(c)):
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}
        service = await c.add("", "services", {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await c.pod("a", {"containers": ports}, metadata={"labels": {"app": "web"}}, status=ready)
        slow = {**ready, "podIP": "10.0.0.2", "conditions": []}
        await c.pod("b", {"containers": ports}, metadata={"labels": {"app": "web"}}, status=slow)
        await c.pod("c", {"containers": ports}, metadata={"labels": {"app": "other"}}, status=ready)
        await c.add("", "endpoints", {"metadata": {"name": "by-hand", "namespace": "default"}})
        await asyncio.sleep(1)

        (found,) = (await c.get("endpoints", "web"))["subsets"]
        assert [each["ip"] for each in found["addresses"]] == ["10.0.0.1"]
        assert [each["targetRef"]["name"] for each in found["notReadyAddresses"]] == ["b"]
        assert found["ports"] == [{"port": 8080, "protocol": "TCP"}]

        await c.remove(("", "services"), service)
        await asyncio.sleep(1)
        assert await c.get("endpoints", "web") is None
        assert await c.get("endpoints", "by-hand") is not None


@virtual_time
async def test_a_service_that_comes_after_its_pods_finds_them() -> None:
    ready = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    async with cluster() as c, running(EndpointsController(c)):
        await asyncio.sleep(1)
        await c.pod("a", metadata={"labels": {"app": "web"}}, status=ready)
        await asyncio.sleep(1)
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        await c.add("", "services", {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
        await asyncio.sleep(1)
        await c.pod("b", metadata={"labels": {"app": "web"}}, status={**ready, "podIP": "10.0.0.2"})
        await asyncio.sleep(1)
        (found,) = (await c.get("endpoints", "web"))["subsets"]
        assert [each["ip"] for each in found["addresses"]] == ["10.0.0.1", "10.0.0.2"]


async def served(c: TestCluster, name: str, address: str) -> None:
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    await c.add("", "services", {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
    status = {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": "True"}]}
    await c.pod(name, metadata={"labels": {"app": name}}, status=status)


def addresses(endpoints: Any) -> list[str]:
    return [each["ip"] for subset in endpoints.get("subsets", ()) for each in subset["addresses"]]


@virtual_time
async def test_an_address_that_is_none_is_refused_and_stands_in_nobodys_way() -> None:
    async with cluster() as c:
        await served(c, "broken", "not an address")
        await served(c, "web", "10.0.0.1")
        await EndpointsController(c).sync()

        assert await c.get("endpoints", "broken") is None
        assert addresses(await c.get("endpoints", "web")) == ["10.0.0.1"]


@virtual_time
async def test_endpoints_that_change_or_vanish_in_between_are_put_right() -> None:
    async with cluster() as c:
        controller = EndpointsController(c)
        for name, address in (("a", "10.0.0.1"), ("b", "10.0.0.2")):
            await served(c, name, address)
        await controller.sync()
        first, second = await c.get("endpoints", "a"), await c.get("endpoints", "b")
        for name in ("a", "b"):
            pod = await c.get("pods", name)
            await c.change(
                PODS, pod, lambda live: {**live, "status": {**live["status"], "podIP": "10.0.0.9"}}, part="status"
            )
        c.store.before_write(
            "services/endpoints/default/a", lambda: c.change(ENDPOINTS, first, lambda live: {**live, "subsets": []})
        )
        c.store.before_write("services/endpoints/default/b", lambda: c.remove(ENDPOINTS, second))
        await controller.sync()
        assert addresses(await c.get("endpoints", "a")) == ["10.0.0.9"]

        await controller.sync()
        assert addresses(await c.get("endpoints", "b")) == ["10.0.0.9"]


@virtual_time
async def test_endpoints_come_once_the_store_is_back() -> None:
    async with cluster() as c, running(EndpointsController(c), supervised=True):
        await asyncio.sleep(1)
        await served(c, "web", "10.0.0.1")
        c.store.is_away = True
        await asyncio.sleep(30)
        c.store.is_away = False
        await asyncio.sleep(90)

        found = await c.get("endpoints", "web")
        assert addresses(found) == ["10.0.0.1"]
        assert owners(found) == [("kube-controller-manager", None)]
