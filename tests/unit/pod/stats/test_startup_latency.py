from datetime import UTC, datetime, timedelta

from kit.pods import make_pod
from pykubelet.api.pod import ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.api.volumes import EmptyDirVolumeSource, HostPathVolumeSource, Volume
from pykubelet.pod.stats.startup_latency import PodStarts, Start, is_stateful

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
    starts.watch("uid-web")
    starts.pull_began("uid-web", at(1))
    starts.pull_began("uid-web", at(2))
    starts.pull_ended("uid-web", at(4))
    starts.pull_ended("uid-web", at(6))
    starts.pull_ended("uid-web", at(7))  # of which nobody has seen the beginning
    starts.pull_began("uid-web", at(8))
    starts.pull_ended("uid-web", at(9))
    assert starts.reported(pod(), RUNS, at(10)) == Start(10.0, 4.0)
    assert len(starts) == 0


def test_a_pod_counts_once_all_its_containers_run() -> None:
    starts = PodStarts()
    starts.watch("uid-web")
    waiting = ContainerStatus(name="d", state=ContainerState())
    half = changed(RUNS, container_statuses=(*RUNS.container_statuses, waiting))
    assert starts.reported(pod(), PodStatus(), at(1)) is None
    assert starts.reported(pod(), half, at(2)) is None
    assert starts.reported(pod(), RUNS, at(3)) == Start(3.0, 3.0)
    assert starts.reported(pod(), RUNS, at(4)) is None


def test_a_stateful_pod_has_only_a_total() -> None:
    stateful = pod(Volume(name="data", host_path=HostPathVolumeSource(path="/data")))
    starts = PodStarts()
    starts.watch("uid-web")
    assert starts.reported(stateful, RUNS, at(3)) == Start(3.0, None)
    assert not is_stateful(pod(Volume(name="scratch", empty_dir=EmptyDirVolumeSource())))


def test_a_pod_that_was_forgotten_is_not_counted() -> None:
    starts = PodStarts()
    starts.watch("uid-web")
    starts.forget("uid-web")
    starts.pull_began("uid-web", at(1))
    assert starts.reported(pod(), RUNS, at(3)) is None
