from datetime import UTC, datetime, timedelta

from kit.pods import make_pod
from pykubelet.api.container import Container
from pykubelet.api.pod import ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.api.volumes import EmptyDirVolumeSource, HostPathVolumeSource, Volume
from pykubelet.pod.moments import Exited
from pykubelet.pod.stats.startup_latency import PodStarts, Start, has_started, is_stateful, running_since, watched

T0 = datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)
RUNS = PodStatus(
    container_statuses=(ContainerStatus(name="c", state=ContainerState(running=ContainerStateRunning(started_at=T0))),)
)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def pod(*volumes: Volume) -> Pod:
    made = make_pod()
    meta, spec = changed(made.metadata, creation_timestamp=T0), changed(made.spec, volumes=volumes)
    return changed(made, metadata=meta, spec=spec)


def test_pulls_that_overlap_are_excused_once() -> None:
    starts = PodStarts()
    starts.watch("uid-web", watched(pod()))
    starts.pull_began("uid-web", at(1))
    starts.pull_began("uid-web", at(2))
    starts.pull_ended("uid-web", at(4))
    starts.pull_ended("uid-web", at(6))
    starts.pull_ended("uid-web", at(7))  # of which nobody has seen the beginning
    starts.pull_began("uid-web", at(8))
    starts.pull_ended("uid-web", at(9))
    assert starts.started("uid-web", at(10)) == Start(10.0, 4.0, has_own_network=True)
    assert len(starts) == 0


def test_a_pod_counts_once_all_its_containers_run() -> None:
    starts = PodStarts()
    starts.watch("uid-web", watched(pod()))
    waiting = ContainerStatus(name="d", state=ContainerState())
    half = changed(RUNS, container_statuses=(*RUNS.container_statuses, waiting))
    assert not has_started(PodStatus())
    assert not has_started(half)
    assert has_started(RUNS)
    assert starts.started("uid-web", at(3)) == Start(3.0, 3.0, has_own_network=True)
    assert starts.started("uid-web", at(4)) is None


def test_a_stateful_pod_has_only_a_total() -> None:
    stateful = pod(Volume(name="data", host_path=HostPathVolumeSource(path="/data")))
    starts = PodStarts()
    starts.watch("uid-web", watched(stateful))
    assert starts.started("uid-web", at(3)) == Start(3.0, None, has_own_network=True)
    assert not is_stateful(pod(Volume(name="scratch", empty_dir=EmptyDirVolumeSource())))


def test_a_pod_that_was_forgotten_is_not_counted() -> None:
    starts = PodStarts()
    starts.watch("uid-web", watched(pod()))
    starts.forget("uid-web")
    starts.pull_began("uid-web", at(1))
    assert starts.started("uid-web", at(3)) is None


def test_of_each_init_container_the_last_attempt_is_excused() -> None:
    made = pod()
    spec = changed(made.spec, init_containers=(Container(name="init"),))
    starts = PodStarts()
    starts.watch("uid-web", watched(changed(made, spec=spec)))
    starts.exited("uid-web", Exited("init", 0, 1, "Error", at(0), at(5)))
    starts.exited("uid-web", Exited("init", 1, 0, "Completed", at(6), at(8)))
    starts.exited("uid-web", Exited("c", 0, 0, "Completed", at(8), at(9)))
    assert starts.started("uid-web", at(10)) == Start(10.0, 8.0, has_own_network=True)


def test_a_pod_runs_since_the_first_of_its_containers_does() -> None:
    later = ContainerStatus(name="d", state=ContainerState(running=ContainerStateRunning(started_at=at(5))))
    assert running_since(changed(RUNS, container_statuses=(later, *RUNS.container_statuses))) == T0
    assert running_since(PodStatus()) is None
