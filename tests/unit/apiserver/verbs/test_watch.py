"""Following what changes."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from kit.api_process import Api, serving_api
from kit.calls import a_call
from kit.cluster import cluster
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.apiserver.requests.request_info import request_info
from pykubelet.apiserver.schema.resources import ROOT
from pykubelet.apiserver.store.watch_cache import RECENT
from pykubelet.apiserver.verbs.watch import watch
from unit.apiserver.verbs.bodies import MAPS, MERGE

_SECONDS = 20.0


class Following:
    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(_SECONDS):
            found: dict[str, Any] = json.loads(await anext(self._lines))
        return found

    async def seen(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@asynccontextmanager
async def following(api: Api, query: str = "", path: str = MAPS, **headers: str) -> AsyncGenerator[Following, None]:
    async with api.session.get(f"{api.url}{path}?watch=1&{query}", headers=headers) as answer:
        assert answer.status == 200
        yield Following(aiter(answer.content))


def config_map(name: str, label: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"l": label}}}


async def test_a_watch_begins_with_what_is_there(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    async with following(api) as watch:
        assert await watch.seen(1) == [("ADDED", "a")]
        await api.ask("POST", MAPS, config_map("b"))
        await api.ask("DELETE", f"{MAPS}/a")
        assert await watch.seen(2) == [("ADDED", "b"), ("DELETED", "a")]


async def test_a_watch_from_a_version_tells_only_what_came_after(api: Api) -> None:
    _, made = await api.ask("POST", MAPS, config_map("a"))
    await api.ask("PATCH", f"{MAPS}/a", {"data": {"x": "y"}}, kind=MERGE)
    async with following(api, f"resourceVersion={made['metadata']['resourceVersion']}") as watch:
        event = await watch.next()
        assert (event["type"], event["object"]["data"]) == ("MODIFIED", {"x": "y"})
        assert event["object"]["kind"] == "ConfigMap"


async def test_entering_and_leaving_a_selection_is_being_added_and_deleted(api: Api) -> None:
    _, listed = await api.ask("GET", MAPS)
    version = listed["metadata"]["resourceVersion"]
    await api.ask("POST", MAPS, config_map("a", "no"))
    for label in ("yes", "no", "yes"):
        await api.ask("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"l": label}}}, kind=MERGE)
    await api.ask("DELETE", f"{MAPS}/a")
    async with following(api, f"labelSelector=l%3Dyes&resourceVersion={version}") as watch:
        assert [kind for kind, _ in await watch.seen(4)] == ["ADDED", "DELETED", "ADDED", "DELETED"]


async def test_a_streamed_list_ends_with_a_bookmark(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with following(api, query) as watch:
        assert await watch.seen(1) == [("ADDED", "a")]
        event = await watch.next()
        assert event["type"] == "BOOKMARK"
        assert event["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_watch_says_how_far_it_has_come_before_it_ends(api: Api) -> None:
    _, listed = await api.ask("GET", MAPS)
    version = listed["metadata"]["resourceVersion"]
    async with following(api, f"allowWatchBookmarks=true&timeoutSeconds=3&resourceVersion={version}") as watch:
        await api.ask("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "elsewhere"}})
        event = await watch.next()
        assert event["type"] == "BOOKMARK"
        assert int(event["object"]["metadata"]["resourceVersion"]) > int(version)
        with pytest.raises(StopAsyncIteration):
            await watch.next()


async def test_a_version_that_is_forgotten_is_an_error_in_the_stream() -> None:
    async with serving_api() as api:
        for number in range(3):
            await api.ask("POST", MAPS, config_map(f"a{number}"))
        api.backend.cache._window.since = await api.backend.store.revision()
        async with following(api, "resourceVersion=2") as watch:
            event = await watch.next()
            assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_rows_are_watched_with_their_columns_in_the_first_alone(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    async with following(api, Accept="application/json;as=Table;v=v1;g=meta.k8s.io") as watch:
        first = await watch.next()
        assert first["object"]["kind"] == "Table"
        assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
        await api.ask("POST", MAPS, config_map("b"))
        second = await watch.next()
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["object"]["metadata"]["name"] == "b"


async def test_many_watchers_share_one_encoding(api: Api) -> None:
    _, listed = await api.ask("GET", MAPS)
    query = f"resourceVersion={listed['metadata']['resourceVersion']}"
    encoded = 0
    wire = api.backend.wire

    def counted(*arguments: Any) -> bytes:
        nonlocal encoded
        encoded += 1
        return wire(*arguments)

    api.backend.wire = counted  # type: ignore[assignment,method-assign]
    async with asyncio.timeout(_SECONDS):

        async def one() -> tuple[str, str]:
            async with following(api, query) as watch:
                return (await watch.seen(1))[0]

        watchers = [asyncio.create_task(one()) for _ in range(30)]
        await eventually(lambda: len(api.server._handler._streams) == 30)
        await api.ask("POST", MAPS, config_map("a"))
        assert set(await asyncio.gather(*watchers)) == {("ADDED", "a")}
    assert encoded == 1


async def test_what_is_there_is_made_as_the_client_takes_it(api: Api) -> None:
    for number in range(40):
        await api.ask("POST", MAPS, {"metadata": {"name": f"a{number:02}"}, "data": {"x": "y" * 10_000}})
    made = 0
    wire = api.backend.wire

    def counted(*arguments: Any) -> bytes:
        nonlocal made
        made += 1
        return wire(*arguments)

    api.backend.wire = counted  # type: ignore[assignment,method-assign]
    query = {"watch": "1", "timeoutSeconds": "1"}
    info = request_info("GET", MAPS, query)
    answer = await watch(api.backend, structs.replace(a_call(api.backend, "GET", MAPS, None), query=query, info=info))
    assert answer.stream is not None
    assert made == 0
    first = await anext(answer.stream)
    assert made == first.count(b"\n") < 10
    rest = [piece async for piece in answer.stream]
    names = [json.loads(line)["object"]["metadata"]["name"] for line in b"".join([first, *rest]).splitlines()]
    assert names == [f"a{number:02}" for number in range(40)]


async def test_a_selection_that_holds_little_is_told_whole(api: Api) -> None:
    for number in range(20):
        label = "yes" if number in (0, 13) else "no"
        body = {**config_map(f"a{number:02}", label), "data": {"x": "y" * 10_000}}
        await api.ask("POST", MAPS, body)
    async with following(api, "labelSelector=l%3Dyes") as watch:
        assert await watch.seen(2) == [("ADDED", "a00"), ("ADDED", "a13")]


async def test_a_watch_ends_with_its_client(api: Api) -> None:
    async with following(api):
        await eventually(lambda: len(api.server._handler._streams) == 1)
    await eventually(lambda: not api.server._handler._streams)


async def test_one_object_is_watched_by_its_name(api: Api) -> None:
    _, listed = await api.ask("GET", MAPS)
    for name in "ab":
        await api.ask("POST", MAPS, config_map(name))
    version = listed["metadata"]["resourceVersion"]
    async with following(api, f"resourceVersion={version}", f"{MAPS}/b") as watch:
        assert await watch.seen(1) == [("ADDED", "b")]


async def test_a_client_that_takes_nothing_is_let_go(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.apiserver.http._PATIENCE", 0.2)
    port = int(api.url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    try:
        writer.write(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        await eventually(lambda: len(api.server._handler._streams) == 1)
        for number in range(30):
            await api.ask("POST", MAPS, {"metadata": {"name": f"a{number}"}, "data": {"x": "y" * 900_000}})
        await eventually(lambda: not api.server._handler._streams)
    finally:
        writer.transport.abort()


@virtual_time
async def test_a_watcher_of_what_is_quiet_is_not_told_at_its_end_that_it_has_come_too_late() -> None:
    async with cluster() as c:
        query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": "10"}
        query["resourceVersion"] = str(await c.store.revision())
        info = request_info("GET", MAPS, query)
        call = structs.replace(a_call(c.backend, "GET", MAPS, None), query=query, info=info)
        answer = await watch(c.backend, call)

        async def be_busy() -> None:
            await asyncio.sleep(5)
            for number in range(RECENT + 100):  # elsewhere, and more than anybody remembers
                await c.store.create(f"{ROOT}events/default/e{number}", b"{}")

        assert answer.stream is not None
        _, lines = await asyncio.gather(be_busy(), told(answer.stream))
        assert [line["type"] for line in lines] == ["BOOKMARK"]
        assert lines[0]["object"]["metadata"]["resourceVersion"] == str(await c.store.revision())


async def told(stream: AsyncIterator[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) async for line in stream]
