"""The authority that every namespace has."""

import asyncio

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.root_ca import RootCa

GONE = {"deletionTimestamp": "2026-01-02T03:04:05Z"}


@virtual_time
async def test_every_namespace_gets_the_authority_and_gets_it_back() -> None:
    async with cluster() as c, running(RootCa(c, "PEM")):
        await c.add("", "namespaces", {"metadata": {"name": "doomed", **GONE}})
        await asyncio.sleep(1)
        found = await c.get("configmaps", "kube-root-ca.crt")
        assert found["data"] == {"ca.crt": "PEM"}
        assert await c.get("configmaps", "kube-root-ca.crt", "doomed") is None

        await c.change(("", "configmaps"), found, lambda live: {**live, "data": {"ca.crt": "forged"}})
        await asyncio.sleep(1)
        assert (await c.get("configmaps", "kube-root-ca.crt"))["data"] == {"ca.crt": "PEM"}
