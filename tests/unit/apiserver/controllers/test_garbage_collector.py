"""What goes with its owner."""

import asyncio
from typing import Any

from kit.cluster import cluster, running
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.garbage_collector import GarbageCollector
from pykubelet.apiserver.requests.options import DeleteOptions

MAPS = ("", "configmaps")
FOREGROUND = DeleteOptions(propagation_policy="Foreground")


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


class CountedLooks(GarbageCollector):
    looks = 0

    async def sync(self) -> None:
        self.looks += 1
        await super().sync()


@virtual_time
async def test_nothing_is_looked_at_for_what_belongs_to_nobody_and_owns_nothing() -> None:
    async with cluster() as c:
        collector = CountedLooks(c)
        async with running(collector):
            lone, owner = await c.pod("lone"), await c.pod("owner")
            child = await c.add("", "configmaps", owned("child", ("owner", "uid-of-owner")))
            await asyncio.sleep(2)
            before = collector.looks
            await c.remove(("", "pods"), lone)
            await c.label(MAPS, child, a="b")
            await c.remove(MAPS, child)
            await asyncio.sleep(2)
            assert collector.looks == before
            await c.add("", "configmaps", {"metadata": {"name": "adopted", "namespace": "default"}})
            adopted = await c.get("configmaps", "adopted")
            references = owned("adopted", ("owner", "uid-of-owner"))["metadata"]["ownerReferences"]
            await c.change(MAPS, adopted, lambda live: {
                **live, "metadata": {**live["metadata"], "ownerReferences": references}
            })  # fmt: skip
            await asyncio.sleep(2)
            assert collector.looks == before + 1
            await c.remove(("", "pods"), owner)
            await asyncio.sleep(2)
            assert await c.all(MAPS) == []


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


@virtual_time
async def test_an_owner_that_waits_goes_after_what_belongs_to_it() -> None:
    async with cluster() as c, running(GarbageCollector(c)):
        owner = await c.add("", "configmaps", {"metadata": {"name": "owner", "namespace": "default"}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        metadata = {"name": "child", "namespace": "default", "ownerReferences": [reference]}
        child = await c.add("", "configmaps", {"metadata": {**metadata, "finalizers": ["example.com/hold"]}})
        await c.writer.delete(c.resource(MAPS), "default", "owner", FOREGROUND)
        await asyncio.sleep(5)
        assert "deletionTimestamp" in (await c.get("configmaps", "child"))["metadata"]
        assert (await c.get("configmaps", "owner"))["metadata"]["finalizers"] == ["foregroundDeletion"]

        await c.change(MAPS, child, lambda live: {**live, "metadata": {**live["metadata"], "finalizers": []}})
        await asyncio.sleep(5)
        assert await c.all(MAPS) == []


@virtual_time
async def test_a_change_in_between_is_kept_when_an_owner_is_taken_from_it() -> None:
    async with cluster() as c:
        await c.pod("p")
        both = await c.add("", "configmaps", owned("two", ("p", "uid-of-p"), ("q", "uid-of-q")))
        c.store.before_write("configmaps/default/two", lambda: c.label(MAPS, both, a="b"))
        await GarbageCollector(c).sync()

        metadata = (await c.get("configmaps", "two"))["metadata"]
        assert ([each["name"] for each in metadata["ownerReferences"]], metadata["labels"]) == (["p"], {"a": "b"})


@virtual_time
async def test_what_vanishes_or_is_replaced_in_between_stops_nothing() -> None:
    async with cluster() as c:
        one = await c.add("", "configmaps", owned("a", ("q", "gone")))
        two = await c.add("", "configmaps", owned("b", ("q", "gone")))
        await c.add("", "configmaps", owned("c", ("q", "gone")))

        async def replaced() -> None:
            await c.remove(MAPS, two)
            await c.add("", "configmaps", {"metadata": {"name": "b", "namespace": "default", "uid": "another"}})

        c.store.before_write("configmaps/default/a", lambda: c.remove(MAPS, one))
        c.store.before_write("configmaps/default/b", replaced)
        await GarbageCollector(c).sync()
        assert [each["metadata"]["uid"] for each in await c.all(MAPS)] == ["another"]


@virtual_time
async def test_what_is_owned_goes_once_the_store_is_back() -> None:
    async with cluster() as c, running(GarbageCollector(c), supervised=True):
        await asyncio.sleep(1)
        await c.add("", "configmaps", owned("one", ("p", "gone")))
        c.store.is_away = True
        await asyncio.sleep(30)
        c.store.is_away = False
        await asyncio.sleep(120)

        assert await c.all(MAPS) == []


@virtual_time
async def test_what_is_orphaned_loses_its_owner_and_keeps_the_rest() -> None:
    async with cluster() as c, running(GarbageCollector(c)):
        await c.pod("p")
        await c.pod("q")
        await c.add("", "configmaps", owned("one", ("p", "uid-of-p")))
        await c.add("", "configmaps", owned("two", ("p", "uid-of-p"), ("q", "uid-of-q")))
        options = DeleteOptions(propagation_policy="Orphan", grace_period_seconds=0)
        await c.writer.delete(c.resource(("", "pods")), "default", "p", options)
        marked = await c.get("pods", "p")
        assert marked["metadata"]["deletionTimestamp"], "nobody takes back what is set free by one that goes"
        await asyncio.sleep(2)

        assert await c.get("pods", "p") is None
        assert "ownerReferences" not in (await c.get("configmaps", "one"))["metadata"]
        assert [each["name"] for each in (await c.get("configmaps", "two"))["metadata"]["ownerReferences"]] == ["q"]


@virtual_time
async def test_one_that_waits_waits_for_what_belongs_to_what_belongs_to_it() -> None:
    async with cluster() as c, running(GarbageCollector(c)):
        owner: dict[str, str] = {}
        for name in ("first", "second", "third"):
            reference = {"apiVersion": "v1", "kind": "ConfigMap", **owner}
            metadata: dict[str, Any] = {"name": name, "namespace": "default"}
            if owner:
                metadata["ownerReferences"] = [reference]
            if name == "third":
                metadata["finalizers"] = ["example.com/hold"]
            made = await c.add("", "configmaps", {"metadata": metadata})
            owner = {"name": name, "uid": made["metadata"]["uid"]}
        await c.writer.delete(c.resource(MAPS), "default", "first", FOREGROUND)
        await asyncio.sleep(5)
        assert len(await c.all(MAPS)) == 3
        last = await c.get("configmaps", "third")
        await c.change(MAPS, last, lambda live: {**live, "metadata": {**live["metadata"], "finalizers": []}})
        await asyncio.sleep(5)
        assert await c.all(MAPS) == []


@virtual_time
async def test_what_is_set_free_in_between_does_not_go_with_its_owner() -> None:
    async with cluster() as c:
        metadata = {"name": "child", "namespace": "default"}
        gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "gone"}
        await c.add(*MAPS, {"metadata": {**metadata, "ownerReferences": [gone]}})

        async def set_free() -> None:
            live = await c.get("configmaps", "child")
            bare = {key: value for key, value in live["metadata"].items() if key != "ownerReferences"}
            await c.change(MAPS, live, lambda _: {**live, "metadata": bare})

        c.store.before_write("configmaps/default/child", set_free)
        await GarbageCollector(c).sync()
        assert "ownerReferences" not in (await c.get("configmaps", "child"))["metadata"]


@virtual_time
async def test_who_names_an_owner_of_another_namespace_takes_nothing_from_it() -> None:
    """Its uid is no secret, and from elsewhere nothing of its name is there."""
    async with cluster() as c:
        await c.pod("p")
        await c.add("", "configmaps", owned("theirs", ("p", "uid-of-p")))
        for namespace in ("a", "z"):  # whoever is looked at first
            forged = owned("forged", ("p", "uid-of-p"))
            await c.add("", "configmaps", {"metadata": {**forged["metadata"], "namespace": namespace}})
        await GarbageCollector(c).sync()

        assert [each["metadata"]["name"] for each in await c.all(MAPS)] == ["theirs"]


@virtual_time
async def test_nobody_holds_up_what_goes_in_another_namespace() -> None:
    async with cluster() as c:
        owner = await c.add("", "configmaps", {"metadata": {"name": "owner", "namespace": "default"}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        forged = {"namespace": "a", "ownerReferences": [reference], "finalizers": ["example.com/for-ever"]}
        await c.add("", "configmaps", {"metadata": {"name": "forged", **forged}})
        await c.writer.delete(c.resource(MAPS), "default", "owner", FOREGROUND)
        await GarbageCollector(c).sync()

        assert [each["metadata"]["name"] for each in await c.all(MAPS)] == ["forged"]
