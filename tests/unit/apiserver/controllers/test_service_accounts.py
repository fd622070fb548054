"""The account that every namespace has."""

import asyncio

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.service_accounts import ServiceAccountController


@virtual_time
async def test_an_account_that_is_deleted_comes_back() -> None:
    async with cluster() as c, running(ServiceAccountController(c)):
        await asyncio.sleep(1)
        before = await c.get("serviceaccounts", "default")

        await c.remove(("", "serviceaccounts"), before)
        await asyncio.sleep(1)
        after = await c.get("serviceaccounts", "default")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]


@virtual_time
async def test_a_namespace_that_goes_gets_none() -> None:
    async with cluster() as c:
        metadata = {"name": "doomed", "deletionTimestamp": "2026-01-02T03:04:05Z"}
        await c.add("", "namespaces", {"metadata": metadata})
        await ServiceAccountController(c).sync()

        assert await c.get("serviceaccounts", "default", "doomed") is None
        assert await c.get("serviceaccounts", "default", "kube-system") is not None
