"""Every controller at once."""

import asyncio

from kit.cluster import ADDRESSES, START, cluster
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.all import run_all
from pykubelet.web.authority import Authority


@virtual_time
async def test_all_of_them_run_together() -> None:
    async with cluster() as c:
        everything = asyncio.create_task(run_all(c.backend, Authority.make(START), ADDRESSES))
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
