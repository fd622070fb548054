"""How a controller looks at the cluster, is woken, and tells what it did."""

import asyncio
from typing import Any

import pytest

from kit.cluster import cluster
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.conditions import condition, with_condition
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.objects import Object

MAPS, NAMESPACES, EVENTS = ("", "configmaps"), ("", "namespaces"), ("", "events")


def config_map(name: str = "a", **more: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default"}, **more}


@virtual_time
async def test_a_view_is_made_once_for_each_version_of_an_object() -> None:
    made: list[str] = []

    def name(obj: Object) -> str:
        made.append(str(obj["metadata"]["name"]))
        return made[-1]

    async with cluster() as c:
        first = await c.add("", "configmaps", config_map())
        assert [await c.views(MAPS, name) for _ in range(3)] == [["a"]] * 3
        await c.label(MAPS, first, x="y")
        await c.views(MAPS, name)
        assert made == ["a", "a"]


@virtual_time
async def test_an_informer_tells_of_its_kinds_alone_and_many_changes_are_one() -> None:
    async with cluster() as c, c.informer(MAPS) as informer:
        await informer.wait()
        await asyncio.sleep(1)
        await informer.wait()
        for name in "abc":
            await c.add("", "configmaps", config_map(name))
        await c.add("", "namespaces", {"metadata": {"name": "other"}})
        await asyncio.sleep(1)
        await asyncio.wait_for(informer.wait(), 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(informer.wait(), 60)
        await c.add("", "namespaces", {"metadata": {"name": "another"}})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(informer.wait(), 60)
        await informer.wait(5)


@virtual_time
async def test_what_is_refused_is_logged_with_the_reason_and_raises_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster() as c:
        assert not await c.create(MAPS, config_map(data={"not a key": "x"}))
        assert not await c.create(MAPS, config_map(data={"a": 1}))
        assert not await c.create(MAPS, {"metadata": {"name": "a", "namespace": "nowhere"}})
        made = await c.add("", "configmaps", config_map())
        assert await c.change(MAPS, made, lambda live: {**live, "data": {"not a key": "x"}}) is None
        assert (await c.get("configmaps", "a")).get("data") is None
        await c.remove(NAMESPACES, await c.get("namespaces", "default"))
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "configmaps default/a is not created",
        "configmaps default/a is not created",
        "configmaps nowhere/a is not created",
        "configmaps default/a is not changed",
        "namespaces default is not deleted",
    ]


@virtual_time
async def test_another_one_of_the_same_name_is_neither_changed_nor_deleted() -> None:
    async with cluster() as c:
        await c.add("", "configmaps", config_map())
        former = {"metadata": {"name": "a", "namespace": "default", "uid": "former"}}
        assert await c.change(MAPS, former, lambda live: {**live, "data": {"a": "b"}}) is None
        await c.remove(MAPS, former)
        assert "data" not in await c.get("configmaps", "a")


@virtual_time
async def test_an_event_says_what_it_is_about_and_one_of_a_long_name_fits() -> None:
    async with cluster() as c:
        pod = await c.pod("p" * 253)
        await EventRecorder(c, "me").record(pod, "Warning", "Why", "x" * 2000, action="Doing")
        (event,) = await c.all(EVENTS)
        assert event["involvedObject"]["name"] == pod["metadata"]["name"]
        assert (event["type"], event["reason"], len(event["message"])) == ("Warning", "Why", 1024)
        assert (event["source"], event["action"]) == ({"component": "me"}, "Doing")
        assert len(event["metadata"]["name"]) <= 253


def test_the_time_of_a_condition_changes_only_with_its_status() -> None:
    first = with_condition([], {"type": "A", "status": "True"}, "1")
    again = with_condition([*first, {"type": "B"}], {"type": "A", "status": "True", "message": "m"}, "2")
    assert again == [{"type": "A", "status": "True", "lastTransitionTime": "1", "message": "m"}, {"type": "B"}]
    other = with_condition(again, {"type": "A", "status": "False"}, "3")
    assert condition({"status": {"conditions": other}}, "A")["lastTransitionTime"] == "3"
    assert condition({}, "A") == {}
