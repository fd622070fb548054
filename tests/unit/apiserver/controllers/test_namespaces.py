"""The end of a namespace."""

import asyncio

from kit.cluster import cluster, owners, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.namespaces import NamespaceController

GONE = {"deletionTimestamp": "2026-01-02T03:04:05Z"}
DOOMED = {"metadata": {"name": "doomed", **GONE}, "spec": {"finalizers": ["kubernetes"]}}
MAPS = ("", "configmaps")
NAMESPACES = ("", "namespaces")


@virtual_time
async def test_a_deleted_namespace_goes_after_everything_in_it() -> None:
    async with cluster() as c, running(NamespaceController(c)):
        await c.add("", "configmaps", {"metadata": {"name": "a", "namespace": "doomed"}})
        await c.add("", "configmaps", {"metadata": {"name": "a", "namespace": "default"}})
        await c.pod("p", {"nodeName": "n1", "terminationGracePeriodSeconds": 30}, metadata={"namespace": "doomed"})
        metadata = {"name": "doomed", **GONE}
        await c.add("", "namespaces", {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}})
        await asyncio.sleep(5)

        assert await c.get("configmaps", "a", "doomed") is None
        pod = await c.get("pods", "p", "doomed")
        assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
        namespace = await c.get("namespaces", "doomed")
        text = condition(namespace, "NamespaceContentRemaining")["message"]
        assert text == "Some resources are remaining: pods has 1 resource instances"

        await c.remove(("", "pods"), pod, grace=0)
        await asyncio.sleep(5)
        assert await c.get("namespaces", "doomed") is None
        assert await c.get("configmaps", "a") is not None


@virtual_time
async def test_what_is_held_by_a_finalizer_is_named_and_waited_for() -> None:
    async with cluster() as c, running(NamespaceController(c)):
        held = {"name": "a", "namespace": "doomed", "finalizers": ["example.com/hold"]}
        config_map = await c.add("", "configmaps", {"metadata": held})
        await c.add("", "namespaces", DOOMED)
        await asyncio.sleep(5)
        text = condition(await c.get("namespaces", "doomed"), "NamespaceFinalizersRemaining")["message"]
        assert "example.com/hold in 1 resource instances" in text

        await c.change(MAPS, config_map, lambda live: {**live, "metadata": {**live["metadata"], "finalizers": []}})
        await asyncio.sleep(5)
        assert await c.get("configmaps", "a", "doomed") is None
        assert await c.get("namespaces", "doomed") is None


@virtual_time
async def test_a_change_in_between_does_not_save_it() -> None:
    async with cluster() as c:
        doomed = await c.add("", "namespaces", DOOMED)
        c.store.before_write("namespaces/doomed", lambda: c.label(NAMESPACES, doomed, a="b"))
        await NamespaceController(c).sync()

        assert await c.get("namespaces", "doomed") is None


@virtual_time
async def test_a_new_one_of_its_name_stays() -> None:
    async with cluster() as c:
        doomed = await c.add("", "namespaces", {**DOOMED, "spec": {}})

        async def replaced() -> None:
            await c.remove(NAMESPACES, doomed)
            await c.add("", "namespaces", {"metadata": {"name": "doomed", "uid": "another"}})

        await c.add("", "configmaps", {"metadata": {"name": "a", "namespace": "doomed"}})
        c.store.before_write("configmaps/doomed/a", replaced)
        await NamespaceController(c).sync()

        assert (await c.get("namespaces", "doomed"))["metadata"]["uid"] == "another"


@virtual_time
async def test_it_goes_once_the_store_is_back() -> None:
    async with cluster() as c, running(NamespaceController(c), supervised=True):
        await asyncio.sleep(1)
        await c.add("", "namespaces", DOOMED)
        c.store.is_away = True
        await asyncio.sleep(30)
        c.store.is_away = False
        await asyncio.sleep(90)

        assert await c.get("namespaces", "doomed") is None


@virtual_time
async def test_each_part_that_it_writes_is_named() -> None:
    async with cluster() as c:
        resource = c.resource(NAMESPACES)
        await c.writer.ensure(resource, {"metadata": {"name": "mine", "labels": {"a": "b"}}})
        await c.pod("p", {"nodeName": "n1"}, metadata={"namespace": "mine"})
        await c.writer.delete(resource, "", "mine")
        await NamespaceController(c).sync()

        assert owners(await c.get("namespaces", "mine"))[-1] == ("kube-controller-manager", "status")
