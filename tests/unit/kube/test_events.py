import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from kit.loopback import serving
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.base.journal import About
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.events import EventRecorder
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.pod.moments import EventRecorded, Journal, Phase, PhaseEntered
from pykubelet.pod.ports.api import Recorder

HANG_UP = -1
LOST = -2
"""The request is carried out, but its answer does not arrive."""

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Events:
    """The events of an API server on loopback. `faults` are the next answers, and `away` all those after them: a
    status code, HANG_UP, LOST, or 0 for none."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.faults: deque[int] = deque()
        self.away = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.text())
        self.asked.append((request.method, request.path, body))
        await self.gate.wait()
        fault = self.faults.popleft() if self.faults else self.away
        if fault > 0:
            return _status(fault)
        answer = web.Response() if fault == HANG_UP else self._stored(request, body)
        if fault:
            assert request.transport is not None
            request.transport.abort()
        return answer

    def _stored(self, request: web.BaseRequest, body: dict[str, Any]) -> web.Response:
        if request.method == "POST":
            name = body["metadata"]["name"]
            if name in self.stored:
                return _status(409, "AlreadyExists")
            self.stored[name] = body
            return web.json_response(body, status=201)
        name = request.path.rsplit("/", 1)[1]
        if name not in self.stored:
            return _status(404, "NotFound")
        self.stored[name] |= body
        return web.json_response(self.stored[name])

    def messages(self) -> list[tuple[str, int]]:
        return [(event["message"], event["count"]) for event in self.stored.values()]

    @property
    def methods(self) -> list[str]:
        return [method for method, _, _ in self.asked]


def _status(code: int, reason: str = "") -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": "no"}, status=code)


def now() -> datetime:
    return START + timedelta(seconds=asyncio.get_running_loop().time())


@asynccontextmanager
async def server_of(events: Events) -> AsyncIterator[ApiClient]:
    async with serving(events.handle) as port:
        config = ClientConfig(Cluster(server=f"http://127.0.0.1:{port}"), User())
        async with ApiClient(Credentials(config, environ={}), qps=0) as server:
            yield server


@asynccontextmanager
async def recording(events: Events, **options: Any) -> AsyncIterator[EventRecorder]:
    async with server_of(events) as server, asyncio.TaskGroup() as tasks:
        recorder = EventRecorder(server, "n1", now=now, **options)
        task = tasks.create_task(recorder.run())
        try:
            yield recorder
        finally:
            task.cancel()


# --- shape


@virtual_time
async def test_an_event_about_a_pod_looks_as_a_kubelets() -> None:
    events = Events()
    journal = Journal()
    async with recording(events, journal=journal) as recorder:
        port: Recorder = recorder
        port.event(make_pod("web", namespace="shop", version="7"), "Warning", "BackOff", "Back-off restarting")
        await eventually(lambda: events.stored)
    method, path, body = events.asked[0]
    assert (method, path) == ("POST", "/api/v1/namespaces/shop/events")
    assert body == {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"web.{int(START.timestamp()) * 10**9:x}", "namespace": "shop"},
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": "shop",
            "name": "web",
            "uid": "uid-web",
            "resourceVersion": "7",
        },
        "reason": "BackOff",
        "message": "Back-off restarting",
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:00:00Z",
        "count": 1,
        "type": "Warning",
        "reportingComponent": "kubelet",
        "reportingInstance": "n1",
    }
    (noted,) = journal.of("uid-web")
    assert (str(noted.about), noted.at) == ("shop/web", START)
    assert noted.moment == EventRecorded("Warning", "BackOff", "Back-off restarting")


@virtual_time
async def test_an_event_may_be_about_a_part_of_a_pod() -> None:
    events = Events()
    async with recording(events) as recorder:
        recorder.event(make_pod(), "Normal", "Started", "Started container c", field_path="spec.containers{c}")
        await eventually(lambda: events.stored)
    assert events.asked[0][2]["involvedObject"]["fieldPath"] == "spec.containers{c}"


@virtual_time
async def test_an_event_about_the_node_lives_in_the_default_namespace() -> None:
    events = Events()
    journal = Journal()
    async with recording(events, journal=journal) as recorder:
        recorder.node_event("Normal", "Starting", "Starting kubelet.")
        await eventually(lambda: events.stored)
    _, path, body = events.asked[0]
    assert path == "/api/v1/namespaces/default/events"
    assert body["involvedObject"] == {"kind": "Node", "name": "n1", "uid": "n1"}
    (noted,) = journal.of("")
    assert noted.moment == EventRecorded("Normal", "Starting", "Starting kubelet.")


@virtual_time
async def test_no_two_events_have_one_name_and_none_is_too_long() -> None:
    events = Events()
    async with recording(events) as recorder:
        recorder.event(make_pod(), "Normal", "Pulled", "a")
        recorder.event(make_pod(), "Normal", "Pulled", "b")
        recorder.event(make_pod("a" * 250), "Normal", "Pulled", "c")
        await eventually(lambda: len(events.stored) == 3)
    assert all(len(name) <= 253 for name in events.stored)


# --- counting, combining, damping


@virtual_time
async def test_the_same_event_again_is_counted() -> None:
    events = Events()
    async with recording(events) as recorder:
        for count in (1, 2, 3):
            recorder.event(make_pod(), "Warning", "Unhealthy", "probe failed")
            await asyncio.sleep(60)
            assert events.messages() == [("probe failed", count)]
    (event,) = events.stored.values()
    assert events.methods == ["POST", "PATCH", "PATCH"]
    assert event["firstTimestamp"] == "2026-01-01T12:00:00Z"
    assert event["lastTimestamp"].startswith("2026-01-01T12:02:")
    assert set(events.asked[1][2]) == {"count", "lastTimestamp", "message"}


@virtual_time
async def test_other_pods_reasons_and_messages_are_other_events() -> None:
    events = Events()
    async with recording(events) as recorder:
        recorder.event(make_pod(), "Warning", "Unhealthy", "probe failed")
        recorder.event(make_pod(uid="another"), "Warning", "Unhealthy", "probe failed")
        recorder.event(make_pod(), "Normal", "Unhealthy", "probe failed")
        recorder.event(make_pod(), "Warning", "BackOff", "probe failed")
        recorder.event(make_pod(), "Warning", "Unhealthy", "probe failed again")
        await eventually(lambda: len(events.stored) == 5)


@virtual_time
async def test_an_event_that_the_server_has_forgotten_begins_anew_with_its_count() -> None:
    events = Events()
    async with recording(events) as recorder:
        recorder.event(make_pod(), "Warning", "Unhealthy", "probe failed")
        await eventually(lambda: events.stored)
        events.stored.clear()
        recorder.event(make_pod(), "Warning", "Unhealthy", "probe failed")
        await eventually(lambda: events.messages() == [("probe failed", 2)])
    assert events.methods == ["POST", "PATCH", "POST"]


@virtual_time
async def test_from_the_tenth_on_similar_events_are_combined() -> None:
    events = Events()
    async with recording(events) as recorder:
        for number in range(12):
            recorder.event(make_pod(), "Warning", "Failed", f"try {number}")
        await eventually(lambda: len(events.stored) == 10)
        await asyncio.sleep(1)
    assert events.messages()[:9] == [(f"try {number}", 1) for number in range(9)]
    assert events.messages()[9:] == [("(combined from similar events): try 11", 3)]


@virtual_time
async def test_after_ten_quiet_minutes_similar_events_are_told_one_by_one_again() -> None:
    events = Events()
    async with recording(events) as recorder:
        for number in range(10):
            recorder.event(make_pod(), "Warning", "Failed", f"try {number}")
        await asyncio.sleep(601)
        recorder.event(make_pod(), "Warning", "Failed", "try 10")
        await eventually(lambda: len(events.stored) == 11)
    assert events.messages()[-1] == ("try 10", 1)


@virtual_time
async def test_one_object_may_tell_twenty_five_things_and_then_one_in_five_minutes() -> None:
    events = Events()
    journal = Journal(last=1000)
    async with recording(events, journal=journal) as recorder:
        for _ in range(40):
            recorder.event(make_pod("noisy"), "Warning", "Unhealthy", "probe failed")
            await asyncio.sleep(1)
        (event,) = events.stored.values()
        assert event["count"] == 25
        recorder.event(make_pod("noisy"), "Normal", "Killing", "another type has its own share")
        recorder.event(make_pod("quiet"), "Warning", "Unhealthy", "probe failed")
        await eventually(lambda: len(events.stored) == 3)
        await asyncio.sleep(300)
        recorder.event(make_pod("noisy"), "Warning", "Unhealthy", "probe failed")
        await eventually(lambda: event["count"] == 41)
    assert len(journal.of("uid-noisy")) == 42


@virtual_time
async def test_nothing_is_remembered_of_what_was_told_of_pods_that_are_gone() -> None:
    events = Events()
    journal = Journal()
    async with recording(events, journal=journal) as recorder:
        journal.read_by(recorder.read)
        for number in range(50):
            pod = make_pod(f"p{number}")
            recorder.event(pod, "Normal", "Started", "Container started", field_path="spec.containers{c}")
            recorder.event(pod, "Warning", "Unhealthy", "probe failed")
        for number in range(1, 50):
            for phase in Phase:
                journal.note(PhaseEntered(phase), About(f"uid-p{number}", "default", f"p{number}"))
        remembered = [getattr(recorder._correlator, name) for name in ("_groups", "_seen", "_budgets")]
        assert {key[3] for each in remembered for key in each} == {"uid-p0"}
        recorder.event(make_pod("p0"), "Warning", "Unhealthy", "probe failed")
        await eventually(lambda: len(events.stored) == 100 and ("probe failed", 2) in events.messages())


# --- a server that is away or refuses


@virtual_time
async def test_events_wait_for_a_server_that_is_away_and_keep_their_order() -> None:
    events = Events()
    events.away = HANG_UP
    async with recording(events) as recorder:
        for number in range(5):
            recorder.event(make_pod(f"web-{number}"), "Normal", "Pulled", "image is here")
        await asyncio.sleep(1800)
        assert not events.stored
        assert len(events.asked) < 300
        events.away = 0
        await eventually(lambda: len(events.stored) == 5, seconds=31)
    assert [event["involvedObject"]["name"] for event in events.stored.values()] == [f"web-{n}" for n in range(5)]
    assert events.asked[-1][2]["firstTimestamp"] == "2026-01-01T12:00:00Z"


@virtual_time
async def test_what_repeats_while_the_server_is_away_is_sent_once() -> None:
    events = Events()
    events.away = HANG_UP
    async with recording(events) as recorder:
        for _ in range(20):
            recorder.event(make_pod(), "Warning", "Unhealthy", "probe failed")
            await asyncio.sleep(10)
        events.away = 0
        asked = len(events.asked)
        await eventually(lambda: events.messages() == [("probe failed", 20)], seconds=31)
        assert events.methods[asked:] == ["POST"]


@virtual_time
async def test_what_happens_again_while_it_is_being_sent_is_counted_after_that() -> None:
    events = Events()
    events.gate.clear()
    async with recording(events) as recorder:
        recorder.event(make_pod(), "Warning", "Unhealthy", "probe failed")
        await eventually(lambda: events.asked)
        recorder.event(make_pod(), "Warning", "Unhealthy", "probe failed")
        events.gate.set()
        await eventually(lambda: events.messages() == [("probe failed", 2)])
    assert events.methods == ["POST", "PATCH"]


@virtual_time
async def test_when_too_many_wait_the_oldest_go_and_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    events.away = HANG_UP
    async with recording(events, queue=10) as recorder:
        for number in range(25):
            recorder.event(make_pod(f"web-{number}"), "Normal", "Pulled", "image is here")
        await asyncio.sleep(60)
        events.away = 0
        await eventually(lambda: len(events.stored) == 10)
    assert recorder.dropped == 15
    assert [event["involvedObject"]["name"] for event in events.stored.values()] == [f"web-{n}" for n in range(15, 25)]
    assert caplog.text.count("events are lost") == 2


@virtual_time
async def test_an_event_that_is_refused_is_told_of_in_the_log_and_not_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = Events()
    events.faults.extend((403, 404, 422))
    async with recording(events) as recorder:
        for number in range(4):
            recorder.event(make_pod(f"web-{number}"), "Normal", "Pulled", "image is here")
        await eventually(lambda: events.stored)
    assert len(events.asked) == 4
    assert caplog.text.count("refuses an event") == 3


@virtual_time
async def test_an_event_that_always_breaks_the_server_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    events = Events()
    events.faults.extend([500] * 12)
    async with recording(events) as recorder:
        recorder.event(make_pod("bad"), "Normal", "Pulled", "image is here")
        recorder.event(make_pod("good"), "Normal", "Pulled", "image is here")
        await eventually(lambda: events.stored, seconds=600)
    assert [event["involvedObject"]["name"] for event in events.stored.values()] == ["good"]
    assert "given up after 12 tries" in caplog.text


@virtual_time
async def test_an_event_whose_answer_was_lost_is_not_told_twice(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    events = Events()
    events.faults.append(LOST)
    async with recording(events) as recorder:
        recorder.event(make_pod("a"), "Normal", "Pulled", "image is here")
        recorder.event(make_pod("b"), "Normal", "Pulled", "image is here")
        await eventually(lambda: len(events.stored) == 2)
    assert events.methods == ["POST"] * 3
    assert not caplog.records


@virtual_time
async def test_who_stops_it_and_starts_it_again_loses_nothing() -> None:
    events = Events()
    events.gate.clear()
    async with server_of(events) as server:
        recorder = EventRecorder(server, "n1", now=now)
        recorder.event(make_pod("a"), "Normal", "Pulled", "before the start")
        first = asyncio.create_task(recorder.run())
        await eventually(lambda: events.asked)
        recorder.event(make_pod("b"), "Normal", "Pulled", "in the middle")
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        events.gate.set()
        recorder.event(make_pod("c"), "Normal", "Pulled", "after the end")
        second = asyncio.create_task(recorder.run())
        await eventually(lambda: len(events.stored) == 3)
        second.cancel()
        await asyncio.wait([second])
