import asyncio
import itertools
import logging
from datetime import UTC, datetime

import pytest

from kit.pod_api import MemoryPods
from kit.pods import make_pod
from kit.status import NOW, clock, manager_of, quiet, running, says
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.pod import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)
from pykubelet.api.struct import changed
from pykubelet.base.errors import Conflict, Invalid, Retry
from pykubelet.pod.moments import Journal, StatusAcknowledged, StatusSent, StatusSet

# --- what is kept


def test_the_last_word_can_be_asked_for() -> None:
    manager = manager_of(None)
    assert manager.get("uid-web") is None
    manager.set(make_pod(), says("Pending"))
    manager.set(make_pod(), says("Running"))
    assert manager.get("uid-web") == says("Running")
    manager.forget("uid-web")
    assert manager.get("uid-web") is None
    manager.forget("uid-web")


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
@pytest.mark.parametrize("later", ["Pending", "Running", "Failed", "Succeeded"])
def test_a_pod_that_has_ended_stays_so(end: str, later: str) -> None:
    manager = manager_of(None)
    manager.set(make_pod(), says(end, reason="Evicted", message="no room"))
    manager.set(make_pod(), says(later, host_ip="10.1.1.1"))
    status = manager.get("uid-web")
    assert status is not None
    assert status.phase == end
    assert status.host_ip == "10.1.1.1"
    if later != end:
        assert (status.reason, status.message) == ("Evicted", "no room")


def test_an_end_that_an_earlier_agent_reported_counts_too() -> None:
    manager = manager_of(None)
    manager.set(make_pod(phase="Failed"), says("Running"))
    status = manager.get("uid-web")
    assert status is not None
    assert status.phase == "Failed"


def test_a_container_does_not_come_back_from_its_final_end(caplog: pytest.LogCaptureFixture) -> None:
    pod = make_pod()
    pod = changed(pod, spec=changed(pod.spec, restart_policy="Never"))
    ended = says(
        "Running",
        container_statuses=(
            ContainerStatus(name="c", state=ContainerState(terminated=ContainerStateTerminated(exit_code=1))),
        ),
    )
    revived = says(
        "Running",
        container_statuses=(ContainerStatus(name="c", state=ContainerState(running=ContainerStateRunning())),),
    )
    manager = manager_of(None)
    manager.set(pod, ended)
    manager.set(pod, revived)
    assert manager.get("uid-web") == ended
    assert "default/web is not reported: terminated container c" in caplog.text


@virtual_time
async def test_a_standalone_node_runs_without_anybody_to_tell() -> None:
    manager = manager_of(None)
    async with running(manager):
        pod = make_pod()
        manager.set(pod, says("Running"))
        manager.reconcile(pod)
        manager.terminated(pod)
        await asyncio.sleep(60)
        assert manager.get("uid-web") == says("Running")


# --- sending


@virtual_time
async def test_a_status_is_sent_at_once_and_noted_in_the_journal() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    journal = Journal()
    manager = manager_of(api, journal=journal)
    async with running(manager):
        await asyncio.sleep(5)
        manager.set(pod, says("Running"))
        await asyncio.sleep(0.02)
        assert api.status("web").phase == "Running"
    was_set, sent, acknowledged = journal.of("uid-web")
    assert (was_set.moment, was_set.at) == (StatusSet("Running", "", False, None), NOW)
    assert (str(sent.about), sent.moment, sent.at) == ("default/web", StatusSent("Running", has_started=False), NOW)
    assert isinstance(acknowledged.moment, StatusAcknowledged)
    assert 0 <= acknowledged.moment.seconds < 0.02


@virtual_time
async def test_what_was_set_before_the_start_is_sent_then() -> None:
    api = MemoryPods()
    manager = manager_of(api)
    manager.set(api.put(make_pod()), says("Running"))
    async with running(manager):
        await eventually(lambda: api.status("web").phase == "Running")


@virtual_time
async def test_the_newest_status_wins_and_nothing_queues_up() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    manager = manager_of(api)
    async with running(manager):
        for number in range(100):
            manager.set(pod, says("Pending", message=f"step {number}"))
        await asyncio.sleep(0.005)  # the first is on its way
        for number in range(100, 200):
            manager.set(pod, says("Pending", message=f"step {number}"))
        await quiet(api)
    assert [patch["message"] for patch in api.patches] == ["step 99", "step 199"]


@virtual_time
async def test_the_same_status_again_is_not_sent_again() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    manager = manager_of(api)
    ready = PodCondition(type="Ready", status="True", last_transition_time=NOW)
    async with running(manager):
        manager.set(pod, says("Running", conditions=(ready,)))
        await quiet(api)
        manager.set(pod, says("Running", conditions=(ready,)))
        manager.set(api.pods["default", "web"], says("Running", conditions=(ready,)))
        later = changed(ready, last_transition_time=datetime(2026, 1, 1, 13, tzinfo=UTC))
        manager.set(pod, says("Running", conditions=(later,)))
        await quiet(api)
    assert len(api.calls) == 1


@virtual_time
async def test_each_patch_is_made_against_the_last_answer_not_against_an_older_copy() -> None:
    api = MemoryPods()
    old = api.put(make_pod())
    manager = manager_of(api)
    async with running(manager):
        manager.set(old, says("Running", message="a"))
        await quiet(api)
        manager.set(old, says("Running"))
        await quiet(api)
    assert api.patches == [{"phase": "Running", "message": "a"}, {"message": None}]
    assert api.status("web") == says("Running")


@virtual_time
async def test_the_conditions_of_others_survive() -> None:
    api = MemoryPods()
    gate = PodCondition(type="example.com/Gate", status="True")
    pod = make_pod()
    pod = api.put(changed(pod, status=PodStatus(conditions=(gate,))))
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running", conditions=(PodCondition(type="Ready", status="True"),)))
        await quiet(api)
    assert {each.type for each in api.status("web").conditions} == {"example.com/Gate", "Ready"}


@virtual_time
async def test_a_thousand_pods_are_told_of_concurrently_but_not_all_at_once() -> None:
    api = MemoryPods()
    pods = [api.put(make_pod(f"web-{number}")) for number in range(1000)]
    manager = manager_of(api)
    async with running(manager):
        began = clock()
        for pod in pods:
            manager.set(pod, says("Running"))
        await eventually(lambda: len(api.patches) == 1000)
        assert clock() - began < 3
    assert api.most_open == 10
    assert len(api.calls) == 1000
    assert all(pod.status.phase == "Running" for pod in api.pods.values())


@virtual_time
async def test_a_pod_whose_requests_hang_does_not_hold_up_the_others() -> None:
    api = MemoryPods()
    slow, fast = api.put(make_pod("slow")), api.put(make_pod("fast"))
    api.latency = 30
    manager = manager_of(api)
    async with running(manager):
        manager.set(slow, says("Running"))
        await asyncio.sleep(1)
        api.latency = 0.01
        manager.set(fast, says("Running"))
        await asyncio.sleep(1)
        assert api.status("fast").phase == "Running"
        assert api.status("slow").phase == ""


# --- reconciling


@virtual_time
async def test_when_others_change_what_is_ours_it_is_said_again() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running"))
        await quiet(api)
        manager.reconcile(api.put(changed(pod, status=says("Pending", message="I know better"))))
        await quiet(api)
        assert api.status("web") == says("Running")
        assert api.patches[1:] == [{"phase": "Running", "message": None}]


@virtual_time
async def test_our_own_echo_and_older_copies_need_no_answer() -> None:
    api = MemoryPods()
    old = api.put(make_pod())
    manager = manager_of(api)
    async with running(manager):
        manager.set(old, says("Running"))
        await quiet(api)
        manager.reconcile(api.pods["default", "web"])
        manager.reconcile(old)
        manager.reconcile(api.put(api.pods["default", "web"]))
        manager.reconcile(make_pod("unknown"))
        await quiet(api)
    assert len(api.calls) == 1


@virtual_time
async def test_a_server_that_drops_a_field_is_not_asked_without_end() -> None:
    class Forgetful(MemoryPods):
        def put(self, pod: Pod) -> Pod:
            return super().put(changed(pod, status=changed(pod.status, observed_generation=None)))

    api = Forgetful()
    pod = api.put(make_pod())
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running", observed_generation=3))
        await quiet(api, seconds=3600)
    assert len(api.calls) == 1


@virtual_time
async def test_versions_that_are_not_numbers_are_taken_in_the_order_in_which_they_come() -> None:
    api = MemoryPods()
    pod = make_pod(version="b")
    api.pods["default", "web"] = pod
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running"))
        await quiet(api)
        manager.reconcile(make_pod(version="a", phase="Pending"))
        await quiet(api)
        manager.reconcile(make_pod(version=""))
        await quiet(api)
    assert len(api.patches) == 2


# --- failures


@virtual_time
async def test_an_api_server_that_was_away_for_an_hour_gets_the_newest_state_of_each_pod_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    api = MemoryPods()
    pods = [api.put(make_pod(f"web-{number}")) for number in range(8)]
    api.latency = 0
    manager = manager_of(api)
    async with running(manager):
        api.away = lambda: Retry("the API server cannot be reached")
        for minute in range(60):
            for pod in pods:
                manager.set(pod, says("Running", message=f"minute {minute}"))
            await asyncio.sleep(60)
        assert api.patches == []
        tries = len(api.calls) / len(pods)
        assert 100 < tries < 3600 / 15 + 20
        api.away = None
        back = clock()
        await eventually(lambda: len(api.patches) == 8)
        assert clock() - back < 31
        await quiet(api)
    assert len(api.patches) == 8
    assert {pod.status.message for pod in api.pods.values()} == {"minute 59"}
    assert caplog.text.count("waits until the API server takes it") == 1
    assert caplog.text.count("takes the status of pods again") == 1


@virtual_time
async def test_retries_begin_soon_and_come_slower_and_slower() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    times: list[float] = []

    def away() -> Retry:
        times.append(clock())
        return Retry("busy")

    api.latency = 0
    api.away = away
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running"))
        await asyncio.sleep(300)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert 0.5 <= gaps[0] <= 1
    assert all(15 <= gap <= 30 for gap in gaps[-3:])


@virtual_time
async def test_a_server_that_says_when_to_come_back_is_obeyed() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    api.faults.append(Retry("busy", after=100))
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Pending"))
        await asyncio.sleep(50)
        manager.set(pod, says("Running"))
        await asyncio.sleep(49)
        assert len(api.calls) == 1
        await asyncio.sleep(2)
        assert api.patches == [{"phase": "Running"}]


@virtual_time
async def test_after_a_conflict_the_status_is_said_once_more_against_a_fresh_copy() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    api.put(changed(pod, status=says("Pending", message="from somebody else")))
    api.faults.append(Conflict("the object has been modified"))
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running"))
        await asyncio.sleep(0.1)
        assert [verb for verb, _ in api.calls] == ["patch", "get", "patch"]
        assert api.status("web") == says("Running")


@virtual_time
async def test_conflict_after_conflict_is_waited_out() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    api.faults.extend((Conflict("modified"), None, Conflict("modified again")))
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running"))
        await asyncio.sleep(0.1)
        assert api.status("web").phase == ""
        await eventually(lambda: api.status("web").phase == "Running", seconds=2)


@virtual_time
async def test_another_pod_of_the_same_name_is_left_alone() -> None:
    api = MemoryPods()
    pod = api.put(make_pod(uid="old"))
    api.put(make_pod(uid="new"))
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running"))
        await quiet(api)
        manager.set(pod, says("Failed"))
        manager.terminated(pod)
        await quiet(api)
    assert [verb for verb, _ in api.calls] == ["patch", "get"]
    assert api.status("web") == PodStatus()
    assert manager.get("old") == says("Failed")


@virtual_time
async def test_a_pod_that_is_gone_is_not_reported_any_more() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    api.remove("web")
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running"))
        await quiet(api)
        manager.set(pod, says("Failed"))
        await quiet(api)
    assert len(api.calls) == 1
    assert manager.get("uid-web") == says("Failed")


@virtual_time
async def test_a_refused_status_is_tried_again_slowly_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    api = MemoryPods()
    bad, good = api.put(make_pod("bad")), api.put(make_pod("good"))
    api.faults.extend(Invalid("status.phase: no such phase") for _ in range(10))
    manager = manager_of(api)
    async with running(manager):
        manager.set(bad, says("Odd"))
        await asyncio.sleep(299)
        assert len(api.calls) == 10
        await asyncio.sleep(2)
        assert api.status("bad").phase == "Odd"
        manager.set(good, says("Running"))
        await eventually(lambda: api.status("good").phase == "Running", seconds=1)
    assert caplog.text.count("the status of pod default/bad is refused: status.phase: no such phase") == 1


@virtual_time
async def test_a_failure_that_nobody_foresaw_stops_neither_the_others_nor_this_pod(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = MemoryPods()
    pods = [api.put(make_pod(f"web-{number}")) for number in range(20)]
    api.faults.append(ZeroDivisionError("a mistake"))
    manager = manager_of(api)
    async with running(manager):
        for pod in pods:
            manager.set(pod, says("Running"))
        await eventually(lambda: len(api.patches) == 20, seconds=2)
    assert "a mistake" in caplog.text
