"""The reflector against a real HTTP server that misbehaves in every way we know. Time is virtual, sockets are not."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web

from kit.list_watch import Fault, ListWatchServer, body, client_of, hang_up, list_watch_server, status
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.kube.node import NodeView
from pykubelet.kube.pods import ApiSource
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed

Events = AsyncGenerator[Listed | Applied | Gone, None]


class Following:
    """Reads on in the background, as the agent does, so that connections open without the test asking for events."""

    def __init__(self, events: Events) -> None:
        self.queue: asyncio.Queue[Listed | Applied | Gone] = asyncio.Queue()
        self._task = asyncio.create_task(self._read(events))

    async def _read(self, events: Events) -> None:
        async with aclosing(events):
            async for event in events:
                self.queue.put_nowait(event)

    async def next(self, seconds: float = 3600) -> Any:
        async with asyncio.timeout(seconds):
            return await self.queue.get()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@asynccontextmanager
async def following() -> AsyncIterator[tuple[ListWatchServer, Following]]:
    """A server, and this node's view of its pods."""
    synced = asyncio.Event()
    synced.set()
    async with list_watch_server() as server, client_of(server) as client:
        reader = Following(ApiSource(client, "n1", synced).watch())
        try:
            yield server, reader
        finally:
            await reader.stop()


def names(event: Listed) -> list[str]:
    return [pod.metadata.name for pod in event.pods]


async def connected(server: ListWatchServer) -> None:
    """Wait until the watch is open, so that what happens next happens on it."""
    await eventually(lambda: server.open_watches, seconds=600)


def _list_of(server: ListWatchServer) -> Fault:
    """No fault at all: the list, to come before a fault."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return server.list(request, "pods")

    return answer


@virtual_time
async def test_the_first_event_is_the_list_and_then_each_change_is_one_event() -> None:
    async with following() as (server, events):
        await server.apply(make_pod("a"))
        assert names(await events.next()) == ["a"]
        await connected(server)
        await server.apply(make_pod("b"))
        await server.apply(make_pod("a", image="busybox:2"))
        await server.delete("b")
        assert (await events.next()).pod.metadata.name == "b"
        assert (await events.next()).pod.spec.containers[0].image == "busybox:2"
        assert await events.next() == Gone("uid-b")


@virtual_time
async def test_only_this_nodes_pods_are_asked_for_from_any_state_of_the_server() -> None:
    async with following() as (server, events):
        await server.apply(make_pod("ours"))
        await server.apply(make_pod("theirs", node_name="n2"))
        assert names(await events.next()) == ["ours"]
        await connected(server)
        listing, watching = server.requests
        assert listing["path"] == watching["path"] == "/api/v1/pods"
        assert listing["fieldSelector"] == watching["fieldSelector"] == "spec.nodeName=n1"
        assert listing["resourceVersion"] == "0"
        assert watching["resourceVersion"] == str(server.version)
        assert watching["allowWatchBookmarks"] == "true"
        assert 300 <= int(watching["timeoutSeconds"]) <= 600


@virtual_time
async def test_a_list_in_pages_is_one_list() -> None:
    async with following() as (server, events):
        server.page_limit = 2
        for number in range(5):
            await server.apply(make_pod(f"p{number}"))
        assert names(await events.next()) == ["p0", "p1", "p2", "p3", "p4"]
        assert [request.get("continue") for request in server.requests[:3]] == [None, "2", "4"]
        assert "resourceVersion" not in server.requests[1]  # the token carries it, and real servers refuse both


@virtual_time
async def test_a_page_that_has_expired_begins_the_list_again_from_the_newest_state() -> None:
    async with following() as (server, events):
        server.page_limit = 1
        await server.apply(make_pod("a"))
        await server.apply(make_pod("b"))

        server.faults.extend([_list_of(server), status(410)])
        assert names(await events.next()) == ["a", "b"]
        assert "resourceVersion" not in server.requests[2]


@virtual_time
async def test_a_dropped_connection_resumes_from_the_last_version_without_listing() -> None:
    async with following() as (server, events):
        await events.next()
        await connected(server)
        await server.apply(make_pod("a"))
        await events.next()
        server.drop_connections()
        await server.apply(make_pod("b"))
        assert (await events.next()).pod.metadata.name == "b"
        assert [bool(request.get("watch")) for request in server.requests] == [False, True, True]
        assert server.requests[-1]["resourceVersion"] == str(server.version - 1)


@virtual_time
async def test_a_bookmark_moves_the_version_and_is_no_event() -> None:
    async with following() as (server, events):
        await events.next()
        await connected(server)
        await server.bookmark()
        await server.apply(make_pod("a"))
        await events.next()
        server.drop_connections()
        await server.bookmark()
        await eventually(lambda: len(server.requests) >= 3)
        assert events.queue.empty()
        assert int(server.requests[-1]["resourceVersion"]) >= 102


@virtual_time
async def test_410_as_a_status_makes_it_list_again() -> None:
    async with following() as (server, events):
        await server.apply(make_pod("a"))
        await events.next()
        await connected(server)
        await server.apply(make_pod("b"))
        await events.next()
        server.drop_connections()
        await server.delete("a")
        server.compact()
        assert names(await events.next()) == ["b"]
        assert "resourceVersion" not in server.requests[3]  # only the newest state is sure to be there


@virtual_time
async def test_410_as_an_event_makes_it_list_again() -> None:
    async with following() as (server, events):
        await server.apply(make_pod("a"))
        await events.next()
        await connected(server)
        await server.say(
            b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}'
        )
        assert names(await events.next()) == ["a"]


@virtual_time
async def test_a_server_that_always_answers_410_is_not_asked_without_end() -> None:
    async def always_expired(request: web.Request) -> web.StreamResponse:
        return await status(410)(request) if request.query.get("watch") else server.list(request, "pods")

    async with following() as (server, _):
        server.faults.extend([always_expired] * 40)
        await asyncio.sleep(60)
        assert len(server.requests) < 30


@virtual_time
async def test_another_error_event_ends_the_watch_but_nothing_else() -> None:
    async with following() as (server, events):
        await events.next()
        await connected(server)
        await server.say(b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd is having a day"}}')
        await eventually(lambda: len(server.requests) >= 3)
        await server.apply(make_pod("a"))
        assert (await events.next()).pod.metadata.name == "a"


@virtual_time
async def test_failures_are_retried_ever_more_slowly_up_to_30_seconds() -> None:
    async with following() as (server, events):
        server.faults.extend(
            [status(500), hang_up, status(503), body(b"<html>a proxy's page</html>"), *[status(500)] * 8]
        )
        await events.next()
        times = [float(request["at"]) for request in server.requests[:13]]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert 0.8 <= gaps[0] <= 1.7
        assert all(gap <= 30.1 for gap in gaps)
        assert gaps[2] > gaps[0]
        assert all(gap >= 14.9 for gap in gaps[6:])


@virtual_time
async def test_a_server_that_says_when_to_come_back_is_obeyed() -> None:
    async with following() as (server, events):
        server.faults.append(status(429, **{"Retry-After": "17"}))
        await events.next()
        first, second = (float(request["at"]) for request in server.requests[:2])
        assert second - first >= 17


@virtual_time
async def test_the_back_off_starts_over_after_a_healthy_time() -> None:
    async with following() as (server, events):
        server.faults.extend([status(500)] * 6)
        await events.next()
        await connected(server)
        await asyncio.sleep(200)
        before = len(server.requests)
        server.faults.append(status(500))
        server.drop_connections()
        await eventually(lambda: len(server.requests) >= before + 2)
        times = [float(request["at"]) for request in server.requests[before:]]
        assert times[1] - times[0] < 3.3


@virtual_time
async def test_a_watch_that_ends_at_once_with_nothing_counts_as_a_failure() -> None:
    async with following() as (server, events):
        await server.apply(make_pod("a"))
        server.faults.extend([_list_of(server), *[body(b"")] * 5])
        await events.next()
        await connected(server)
        times = [float(request["at"]) for request in server.requests]
        assert times[-1] - times[1] > 0.8 * (1 + 2 + 4 + 8)


@virtual_time
async def test_a_watch_that_lived_its_time_is_renewed_at_once() -> None:
    async with following() as (server, events):
        await events.next()
        await asyncio.sleep(3000)
        watches = [request for request in server.requests if request.get("watch")]
        assert 5 <= len(watches) <= 11
        assert len(server.requests) == 1 + len(watches)


@virtual_time
async def test_an_unknown_event_type_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async with following() as (server, events):
        await events.next()
        await connected(server)
        await server.say(b'{"type":"SURPRISE","object":{"kind":"Pod"}}')
        await server.apply(make_pod("a"))
        assert (await events.next()).pod.metadata.name == "a"
        assert "SURPRISE" in caplog.text
        assert len(server.requests) == 2


@virtual_time
async def test_an_object_that_cannot_be_understood_is_skipped_and_told(caplog: pytest.LogCaptureFixture) -> None:
    async with following() as (server, events):
        await events.next()
        await connected(server)
        await server.apply({"metadata": {"name": "odd", "namespace": "default", "uid": "u"}, "spec": {"containers": 7}})
        await server.apply(make_pod("a"))
        assert (await events.next()).pod.metadata.name == "a"
        assert "default/odd" in caplog.text
        assert "spec.containers" in caplog.text


@virtual_time
async def test_a_known_pod_that_becomes_unreadable_in_a_list_is_not_taken_for_gone() -> None:
    async with following() as (server, events):
        await server.apply(make_pod("a"))
        await server.apply(make_pod("b"))
        await events.next()
        await connected(server)
        await server.apply({**codec.to_builtins(make_pod("a")), "spec": {"nodeName": "n1", "containers": 7}})
        server.compact()
        server.drop_connections()
        relisted = await events.next()
        assert names(relisted) == ["b"]
        assert relisted.unread == {"uid-a"}


@virtual_time
async def test_the_deletion_of_an_unreadable_pod_is_seen() -> None:
    async with following() as (server, events):
        await events.next()
        await connected(server)
        await server.apply({"metadata": {"name": "odd", "namespace": "default", "uid": "u"}, "spec": 7})
        await server.delete("odd")
        assert await events.next() == Gone("u")


@pytest.mark.parametrize(
    "garbage", [b"\xff\xfe\x00", b"not json", b'{"type":', b"[]", b"null", b"{}" * 3, b"x" * 200_000], ids=range(7)
)
def test_garbage_on_the_wire_loses_no_event(garbage: bytes) -> None:
    @virtual_time
    async def story() -> None:
        async with following() as (server, events):
            await events.next()
            await connected(server)
            await server.apply(make_pod("a"))
            await server.say(garbage)
            await server.apply(make_pod("b"))
            seen = {(await events.next()).pod.metadata.name, (await events.next()).pod.metadata.name}
            assert seen == {"a", "b"}

    story()


@virtual_time
async def test_a_very_large_event_arrives_whole() -> None:
    async with following() as (server, events):
        await events.next()
        await connected(server)
        await server.apply(make_pod("a", annotations={"note": "x" * 3_000_000}))
        assert len((await events.next()).pod.metadata.annotations["note"]) == 3_000_000


@virtual_time
async def test_through_all_of_it_at_once_the_source_ends_with_the_right_pods() -> None:
    async with following() as (server, events):
        for number in range(60):
            await server.apply(make_pod(f"p{number % 17}", image=f"busybox:{number}"))
            if number % 5 == 0 and number:
                await server.delete(f"p{number % 17}")
            match number % 6:
                case 0:
                    server.drop_connections()
                case 1:
                    server.faults.append(status(500))
                case 2:
                    await server.say(b"\x00garbage")
                case 3:
                    server.compact()
                case 4:
                    server.faults.append(hang_up)
            await asyncio.sleep(number % 4)
        await server.apply(make_pod("last"))
        pods: dict[str, Pod] = {}
        while "uid-last" not in pods:
            match await events.next():
                case Listed(listed):
                    pods = {pod.metadata.uid: pod for pod in listed}
                case Applied(pod):
                    pods[pod.metadata.uid] = pod
                case Gone(uid):
                    pods.pop(uid, None)
        wanted = {item["metadata"]["uid"]: item for (_, _), item in server.objects.items()}
        assert pods.keys() == wanted.keys()
        assert {uid: pod.metadata.resource_version for uid, pod in pods.items()} == {
            uid: item["metadata"]["resourceVersion"] for uid, item in wanted.items()
        }


@virtual_time
async def test_no_pods_are_asked_for_before_the_node_is_known() -> None:
    async with list_watch_server() as server, client_of(server) as client:
        node = NodeView(client, "n1")
        events = Following(ApiSource(client, "n1", node.synced).watch())
        await asyncio.sleep(60)
        assert server.requests == []
        await server.apply({"metadata": {"name": "n1", "labels": {"zone": "a"}}}, "nodes")
        view = asyncio.create_task(node.follow())
        await events.next()
        assert node.node is not None
        assert node.node.metadata.labels == {"zone": "a"}
        assert server.requests[0]["path"] == "/api/v1/nodes"
        assert server.requests[0]["fieldSelector"] == "metadata.name=n1"
        await events.stop()
        view.cancel()
        await asyncio.gather(view, return_exceptions=True)


@virtual_time
async def test_the_node_is_followed_through_change_and_deletion() -> None:
    async with list_watch_server() as server, client_of(server) as client:
        node = NodeView(client, "n1")
        view = asyncio.create_task(node.follow())
        await node.synced.wait()
        assert node.node is None
        await connected(server)
        await server.apply({"metadata": {"name": "n1"}}, "nodes")
        await eventually(lambda: node.node is not None)
        await server.delete("n1", "nodes", namespace="")
        await eventually(lambda: node.node is None)
        view.cancel()
        await asyncio.gather(view, return_exceptions=True)


@virtual_time
async def test_who_set_which_field_is_not_kept_in_memory() -> None:
    async with following() as (server, events):
        value = codec.to_builtins(make_pod("a"))
        value["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
        await server.apply(value)
        assert (await events.next()).pods[0].metadata.managed_fields == ()


@virtual_time
async def test_word_of_trouble_names_the_server_and_the_next_try(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with following() as (server, events):
        server.faults.append(status(503))
        await events.next()
        assert "code 503 for a test" in caplog.text
        assert "trying again in" in caplog.text
