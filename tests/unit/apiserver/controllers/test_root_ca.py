"""The authority that every namespace has."""

import asyncio

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.root_ca import RootCa

NAMESPACES = ("", "namespaces")
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


@virtual_time
async def test_one_that_somebody_made_in_between_is_put_right() -> None:
    async with cluster() as c:
        forged = {"metadata": {"name": "kube-root-ca.crt", "namespace": "default"}, "data": {"ca.crt": "forged"}}
        c.store.before_write("configmaps/default/kube-root-ca.crt", lambda: c.add("", "configmaps", forged))
        await RootCa(c, "PEM").sync()

        assert (await c.get("configmaps", "kube-root-ca.crt"))["data"] == {"ca.crt": "PEM"}


@virtual_time
async def test_a_namespace_that_goes_in_between_does_not_keep_the_others_from_theirs() -> None:
    async with cluster() as c:
        await c.writer.ensure(c.resource(NAMESPACES), {"metadata": {"name": "going"}})

        async def goes() -> None:
            await c.writer.delete(c.resource(NAMESPACES), "", "going")
            await asyncio.sleep(0.1)

        c.store.before_write("configmaps/default/kube-root-ca.crt", goes)
        await RootCa(c, "PEM").sync()

        assert await c.get("configmaps", "kube-root-ca.crt", "going") is None
        assert await c.get("configmaps", "kube-root-ca.crt", "kube-system") is not None


@virtual_time
async def test_it_is_given_once_the_store_is_back() -> None:
    async with cluster() as c:
        c.store.is_away = True
        async with running(RootCa(c, "PEM"), supervised=True):
            await asyncio.sleep(30)
            c.store.is_away = False
            await asyncio.sleep(90)

            assert (await c.get("configmaps", "kube-root-ca.crt"))["data"] == {"ca.crt": "PEM"}


@virtual_time
async def test_who_extends_the_api_finds_the_authority_of_its_clients_and_may_add_its_own() -> None:
    async with cluster() as c, running(RootCa(c, "PEM")):
        await c.writer.ensure(c.resource(NAMESPACES), {"metadata": {"name": "kube-system"}})
        await asyncio.sleep(1)
        found = await c.get("configmaps", "extension-apiserver-authentication", "kube-system")
        assert found["data"] == {"client-ca-file": "PEM"}
        assert await c.get("configmaps", "extension-apiserver-authentication", "default") is None

        theirs = {"client-ca-file": "old", "requestheader-client-ca-file": "theirs"}
        await c.change(("", "configmaps"), found, lambda live: {**live, "data": theirs})
        await asyncio.sleep(1)
        found = await c.get("configmaps", "extension-apiserver-authentication", "kube-system")
        assert found["data"] == {**theirs, "client-ca-file": "PEM"}
