import asyncio
from contextlib import suppress

from kit.pod_api import MemoryPods
from kit.pods import make_pod
from kit.status import manager_of, mirror_of, quiet, running, says, static_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.struct import changed
from pykubelet.base.errors import Conflict, Retry
from pykubelet.pod.moments import Journal, PodDeleted, StatusAcknowledged, StatusSent

# --- the end


@virtual_time
async def test_a_pod_is_deleted_only_after_its_containers_are_gone_and_its_last_status_was_sent() -> None:
    api = MemoryPods()
    api.put(make_pod())
    pod = api.ask_to_delete("web")
    journal = Journal()
    manager = manager_of(api, journal=journal)
    async with running(manager):
        manager.set(pod, says("Running"))
        await quiet(api)
        manager.set(pod, says("Failed"))
        await quiet(api)
        assert api.deleted == []
        manager.set(pod, says("Failed", message="last words"))
        manager.terminated(pod)
        await quiet(api)
    assert [verb for verb, _ in api.calls] == ["patch", "patch", "patch", "delete"]
    assert api.patches[-1] == {"message": "last words"}
    assert api.deleted == [("web", "uid-web", 0)]
    moments = [each.moment for each in journal.of("uid-web")]
    assert [each.phase for each in moments if isinstance(each, StatusSent)] == ["Running", "Failed", "Failed"]
    assert [type(each) for each in moments[-2:]] == [PodDeleted, StatusAcknowledged]
    assert manager.get("uid-web") == says("Failed", message="last words")


@virtual_time
async def test_a_status_that_is_set_while_another_is_on_its_way_is_sent_before_the_deletion() -> None:
    api = MemoryPods()
    api.put(make_pod())
    pod = api.ask_to_delete("web")
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running"))
        manager.terminated(pod)
        await asyncio.sleep(0.005)
        manager.set(pod, says("Failed"))
        await quiet(api)
    assert [verb for verb, _ in api.calls] == ["patch", "patch", "delete"]


@virtual_time
async def test_without_the_last_status_there_is_no_deletion() -> None:
    api = MemoryPods()
    api.put(make_pod())
    pod = api.ask_to_delete("web")
    manager = manager_of(api)
    async with running(manager):
        api.away = lambda: Retry("away")
        manager.set(pod, says("Failed"))
        manager.terminated(pod)
        await asyncio.sleep(600)
        assert {verb for verb, _ in api.calls} == {"patch"}
        api.away = None
        await eventually(lambda: api.deleted)


@virtual_time
async def test_a_pod_that_nobody_asked_to_delete_stays_until_somebody_does() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Succeeded"))
        manager.terminated(pod)
        await quiet(api)
        assert api.deleted == []
        manager.terminated(api.ask_to_delete("web"))
        await quiet(api)
    assert [verb for verb, _ in api.calls] == ["patch", "delete"]


@virtual_time
async def test_a_deletion_is_learned_from_the_answer_to_the_last_status() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    api.ask_to_delete("web")
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Succeeded"))
        manager.terminated(pod)
        await quiet(api)
    assert [verb for verb, _ in api.calls] == ["patch", "delete"]


@virtual_time
async def test_a_pod_of_which_nothing_is_known_but_its_end_is_deleted() -> None:
    api = MemoryPods()
    api.put(make_pod())
    manager = manager_of(api)
    async with running(manager):
        manager.terminated(api.ask_to_delete("web"))
        await quiet(api)
    assert [verb for verb, _ in api.calls] == ["delete"]


@virtual_time
async def test_a_deletion_that_fails_is_tried_again() -> None:
    api = MemoryPods()
    api.put(make_pod())
    api.faults.extend((Retry("busy"), Conflict("modified"), None))
    manager = manager_of(api)
    async with running(manager):
        manager.terminated(api.ask_to_delete("web"))
        await quiet(api)
    assert [verb for verb, _ in api.calls] == ["delete", "delete", "get", "delete"]


@virtual_time
async def test_a_deletion_spares_another_pod_of_the_same_name() -> None:
    api = MemoryPods()
    api.put(make_pod(uid="old"))
    pod = api.ask_to_delete("web")
    api.put(make_pod(uid="new"))
    manager = manager_of(api)
    async with running(manager):
        manager.terminated(pod)
        await quiet(api)
    assert [verb for verb, _ in api.calls] == ["delete", "get"]
    assert api.deleted == []


@virtual_time
async def test_an_end_is_not_reported_while_containers_could_be_running() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    alive = {"uid-web"}
    manager = manager_of(api, could_be_running=alive.__contains__)
    async with running(manager):
        manager.set(pod, says("Running"))
        manager.set(pod, says("Failed", reason="Evicted", host_ip="10.1.1.1"))
        await quiet(api)
        assert api.status("web").phase == ""
        assert api.status("web").host_ip == "10.1.1.1"
        alive.clear()
        manager.set(pod, says("Failed", reason="Evicted", host_ip="10.1.1.1"))
        await quiet(api)
        assert (api.status("web").phase, api.status("web").reason) == ("Failed", "Evicted")


@virtual_time
async def test_a_terminated_pod_has_no_running_containers_whatever_others_believe() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    manager = manager_of(api, could_be_running=lambda _: True)
    async with running(manager):
        manager.set(pod, says("Failed"))
        manager.terminated(pod)
        await quiet(api)
    assert api.status("web").phase == "Failed"


# --- static pods


@virtual_time
async def test_a_static_pod_reports_on_its_mirror() -> None:
    static = static_pod()
    api = MemoryPods()
    manager = manager_of(api)
    async with running(manager):
        manager.set(static, says("Running"))
        await quiet(api)
        assert api.calls == []
        manager.linked("static-1", api.put(mirror_of(static)))
        await quiet(api)
        assert api.status("web").phase == "Running"
        assert manager.get("mirror-1") == manager.get("static-1") == says("Running")


@virtual_time
async def test_a_mirror_may_be_known_before_its_static_pod() -> None:
    static = static_pod()
    api = MemoryPods()
    manager = manager_of(api)
    async with running(manager):
        manager.linked("static-1", api.put(mirror_of(static)))
        manager.set(static, says("Running"))
        await quiet(api)
    assert api.patches == [{"phase": "Running"}]


@virtual_time
async def test_a_mirror_that_others_change_is_set_right() -> None:
    static = static_pod()
    api = MemoryPods()
    mirror = api.put(mirror_of(static))
    manager = manager_of(api)
    async with running(manager):
        manager.linked("static-1", mirror)
        manager.set(static, says("Running"))
        await quiet(api)
        manager.linked("static-1", api.pods["default", "web"])
        await quiet(api)
        assert len(api.calls) == 1
        manager.reconcile(api.put(changed(mirror, status=says("Pending"))))
        await quiet(api)
        assert api.status("web").phase == "Running"


@virtual_time
async def test_a_new_mirror_gets_all_of_the_status_and_a_lost_one_nothing() -> None:
    static = static_pod()
    api = MemoryPods()
    manager = manager_of(api)
    async with running(manager):
        manager.linked("static-1", api.put(mirror_of(static)))
        manager.set(static, says("Running", host_ip="10.1.1.1"))
        await quiet(api)
        api.remove("web")
        manager.set(static, says("Running", host_ip="10.1.1.2"))
        await quiet(api)
        manager.set(static, says("Running", host_ip="10.1.1.3"))
        await quiet(api)
        assert len(api.calls) == 2
        assert manager.get("mirror-1") is None
        manager.linked("static-1", api.put(mirror_of(static, "mirror-2")))
        await quiet(api)
    assert api.patches[-1] == {"phase": "Running", "hostIP": "10.1.1.3"}
    assert manager.get("mirror-2") == says("Running", host_ip="10.1.1.3")


@virtual_time
async def test_an_answer_about_a_mirror_that_was_replaced_meanwhile_means_nothing() -> None:
    static = static_pod()
    api = MemoryPods()
    manager = manager_of(api)
    async with running(manager):
        manager.linked("static-1", api.put(mirror_of(static)))
        manager.set(static, says("Running"))
        await asyncio.sleep(0.005)
        later = MemoryPods().put(mirror_of(static, "mirror-2"))
        manager.linked("static-1", later)
        await asyncio.sleep(0.006)  # the answer is there
        assert api.status("web").phase == "Running"
        api.remove("web")
        api.put(later)
        await quiet(api)
    assert api.patches == [{"phase": "Running"}, {"phase": "Running"}]


@virtual_time
async def test_a_static_pod_without_its_mirror_reports_nothing() -> None:
    static = static_pod()
    api = MemoryPods()
    manager = manager_of(api)
    async with running(manager):
        manager.linked("static-1", api.put(mirror_of(static)))
        manager.linked("static-1", None)
        manager.set(static, says("Running"))
        await quiet(api)
    assert api.calls == []


@virtual_time
async def test_the_end_of_a_static_pod_does_not_delete_its_mirror() -> None:
    static = static_pod()
    api = MemoryPods()
    api.put(mirror_of(static))
    manager = manager_of(api)
    async with running(manager):
        manager.linked("static-1", api.ask_to_delete("web"))
        manager.set(static, says("Failed"))
        manager.terminated(static)
        await quiet(api)
    assert [verb for verb, _ in api.calls] == ["patch"]


# --- forgetting and stopping


@virtual_time
async def test_a_forgotten_pod_is_not_sent() -> None:
    api = MemoryPods()
    pods = [api.put(make_pod(f"web-{number}")) for number in range(3)]
    api.faults.append(Retry("busy"))
    manager = manager_of(api, concurrency=1)
    async with running(manager):
        manager.set(pods[0], says("Running"))
        await asyncio.sleep(0.1)  # it waits for its next try
        manager.set(pods[1], says("Running"))
        await asyncio.sleep(0.005)  # it is on its way
        manager.set(pods[2], says("Running"))
        for pod in pods:
            manager.forget(pod.metadata.uid)
        await quiet(api)
    assert api.calls == [("patch", "web-0"), ("patch", "web-1")]


@virtual_time
async def test_a_pod_that_is_forgotten_while_its_request_fails_is_not_tried_again() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    api.faults.append(Retry("busy"))
    manager = manager_of(api)
    async with running(manager):
        manager.set(pod, says("Running"))
        await asyncio.sleep(0.005)
        manager.forget("uid-web")
        await quiet(api)
    assert len(api.calls) == 1


@virtual_time
async def test_who_stops_it_in_the_middle_and_starts_it_again_loses_nothing() -> None:
    api = MemoryPods()
    api.latency = 1.0
    sent, failed, *waiting = [api.put(make_pod(f"web-{number}")) for number in range(30)]
    manager = manager_of(api)
    async with running(manager):
        manager.set(sent, says("Running"))
        await asyncio.sleep(1.5)
        api.faults.append(Retry("busy", after=1000))
        manager.set(failed, says("Running"))
        await asyncio.sleep(1.5)
        for pod in waiting:
            manager.set(pod, says("Running"))
        await asyncio.sleep(0.5)
        assert len(api.open) == 10
    assert api.open == []
    assert len(api.patches) == 1
    async with running(manager):
        await quiet(api)
    assert len(api.patches) == 30


@virtual_time
async def test_being_cancelled_leaves_no_task_and_no_timer() -> None:
    api = MemoryPods()
    pod = api.put(make_pod())
    api.away = lambda: Retry("away")
    manager = manager_of(api)
    task = asyncio.create_task(manager.run())
    manager.set(pod, says("Running"))
    await asyncio.sleep(100)
    calls = len(api.calls)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await asyncio.sleep(600)
    assert len(api.calls) == calls
    assert asyncio.all_tasks() == {asyncio.current_task()}
