"""Which pods stand behind a service."""

import asyncio

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.endpoints import EndpointsController


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
