"""What goes with its owner."""

import asyncio
from typing import Any

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.garbage_collector import GarbageCollector


def owned(name: str, *owners: tuple[str, str]) -> dict[str, Any]:
    references = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uid} for owner, uid in owners]
    return {"metadata": {"name": name, "namespace": "default", "ownerReferences": references}}


@virtual_time
async def test_what_is_owned_goes_with_the_last_of_its_owners() -> None:
    async with cluster() as c, running(GarbageCollector(c)):
        pod = await c.pod("p")
        await c.add("", "configmaps", owned("one", ("p", "uid-of-p")))
        await c.add("", "configmaps", owned("two", ("p", "uid-of-p"), ("q", "uid-of-q")))
        await c.pod("q")
        await asyncio.sleep(2)
        assert len(await c.all(("", "configmaps"))) == 2

        await c.remove(("", "pods"), pod)
        await asyncio.sleep(2)
        found = await c.all(("", "configmaps"))
        assert [each["metadata"]["name"] for each in found] == ["two"]
        assert [each["name"] for each in found[0]["metadata"]["ownerReferences"]] == ["q"]


@virtual_time
async def test_an_owner_of_the_same_name_but_another_uid_is_none_and_an_unknown_kind_is_believed() -> None:
    async with cluster() as c:
        await c.pod("p")
        await c.add("", "configmaps", owned("stale", ("p", "former")))
        strange = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "u"}
        metadata = {"name": "strange", "namespace": "default", "ownerReferences": [strange]}
        await c.add("", "configmaps", {"metadata": metadata})
        await GarbageCollector(c).sync()

        assert [each["metadata"]["name"] for each in await c.all(("", "configmaps"))] == ["strange"]
