"""Every controller at once."""

import asyncio

from kit.cluster import cluster, means
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.all import run_all

LEASES = ("coordination.k8s.io", "leases")


@virtual_time
async def test_all_of_them_run_together() -> None:
    async with cluster() as c:
        everything = asyncio.create_task(run_all(means(c)))
        try:
            await c.node("n1")
            lease = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {}}
            await c.add("coordination.k8s.io", "leases", lease)
            await c.pod("web")
            await asyncio.sleep(3)
            assert (await c.get("pods", "web"))["spec"]["nodeName"] == "n1"
            assert await c.get("configmaps", "kube-root-ca.crt") is not None
        finally:
            everything.cancel()
            await asyncio.gather(everything, return_exceptions=True)


@virtual_time
async def test_a_controller_that_is_switched_off_leaves_its_work_to_others() -> None:
    async with cluster() as c:
        wanted = ("*", "-kube-scheduler", "-root-ca-certificate-publisher-controller")
        everything = asyncio.create_task(run_all(means(c), wanted=wanted))
        try:
            await c.node("n1")
            await c.pod("web")
            await asyncio.sleep(3)
            assert "nodeName" not in (await c.get("pods", "web"))["spec"]
            assert await c.get("configmaps", "kube-root-ca.crt") is None
            assert await c.get("serviceaccounts", "default") is not None
            assert await c.all(LEASES) == []
        finally:
            everything.cancel()
            await asyncio.gather(everything, return_exceptions=True)


@virtual_time
async def test_of_two_servers_on_one_store_one_works_and_each_part_has_its_lease() -> None:
    async with cluster() as c:
        servers = [asyncio.create_task(run_all(means(c), elects=True)) for _ in range(2)]
        try:
            await c.node("n1")
            await c.pod("web")
            await asyncio.sleep(5)
            assert (await c.get("pods", "web"))["spec"]["nodeName"] == "n1"
            leases = [each["metadata"]["name"] for each in await c.all(LEASES, "kube-system")]
            assert leases == ["kube-controller-manager", "kube-scheduler"]
        finally:
            for server in servers:
                server.cancel()
            await asyncio.gather(*servers, return_exceptions=True)
