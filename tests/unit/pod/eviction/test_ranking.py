"""Who goes first when a node runs short."""

import pytest

from kit.pods import make_pod
from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.pod.eviction.ranking import eviction_message, ranked
from pykubelet.pod.stats.stats import ContainerReading, Disk, Memory, PodReading, Usage

MI = 1 << 20


def pod(name: str, request: str = "", priority: int | None = None, resource: str = "memory") -> Pod:
    made = make_pod(name)
    requests = {resource: parse(request)} if request else {}
    container = Container(name="c", resources=ResourceRequirements(requests=requests))
    return changed(made, spec=changed(made.spec, containers=(container,), priority=priority))


def reading(
    name: str, memory: int = 0, *, root: int = 0, logs: int = 0, processes: int = 0, unlinked: int = 0
) -> PodReading:
    usage = Usage(at=1, memory=Memory(working_set=memory * MI), processes=processes)
    container = ContainerReading(
        id="c",
        name="c",
        image="",
        group="",
        created_at=None,
        usage=usage,
        root=Disk(at=1, used=root, inodes_used=logs),
        logs=Disk(at=1, used=logs, inodes_used=root),
        unlinked={"volumes": Disk(at=1, used=unlinked, inodes_used=1)} if unlinked else {},
    )
    return PodReading(
        uid=f"uid-{name}", name=name, namespace="", created_at=None, group="", usage=usage, containers=(container,)
    )


def order(signal: str, pods: list[Pod], *used: PodReading, own_image_disk: bool = False) -> list[str]:
    found = ranked(signal, pods, {each.uid: each for each in used}, own_image_disk=own_image_disk)
    return [each.metadata.name for each in found]


def test_above_what_was_asked_for_then_the_less_important_then_the_furthest_above() -> None:
    pods = [pod("within", "100Mi"), pod("high", "10Mi", 5), pod("some", "10Mi"), pod("much"), pod("unknown", "1Gi")]
    used = [reading("within", 99), reading("high", 500), reading("some", 60), reading("much", 55)]
    assert order("memory.available", pods, *used) == ["unknown", "much", "some", "high", "within"]


@pytest.mark.parametrize(
    ("signal", "own_image_disk", "first"),
    [
        ("nodefs.available", False, "layers"),
        ("nodefs.available", True, "talks"),
        ("imagefs.available", True, "layers"),
        ("containerfs.available", True, "layers"),
        ("nodefs.inodesFree", True, "layers"),
    ],
)
def test_only_what_is_on_the_disk_that_runs_full_counts(signal: str, own_image_disk: bool, first: str) -> None:
    pods = [pod("layers"), pod("talks")]
    used = [reading("layers", root=100, logs=1), reading("talks", root=2, logs=50)]
    assert order(signal, pods, *used, own_image_disk=own_image_disk)[0] == first


def test_nobody_hides_what_he_has_written_by_removing_its_name() -> None:
    pods, used = [pod("polite"), pod("sly")], [reading("polite", logs=9), reading("sly", logs=1, unlinked=100)]
    for own_image_disk in (False, True):
        assert order("nodefs.available", pods, *used, own_image_disk=own_image_disk) == ["sly", "polite"]
    assert order("imagefs.available", pods, *used, own_image_disk=True) == ["polite", "sly"], "that is another disk"


def test_processes_are_nobodys_request() -> None:
    pods = [pod("many", priority=1), pod("few"), pod("some")]
    used = [reading("many", processes=900), reading("few", processes=1), reading("some", processes=2)]
    assert order("pid.available", pods, *used) == ["some", "few", "many"]
    threads = changed(used[1], usage=changed(used[1].usage, threads=700))
    assert order("pid.available", pods, used[0], threads, used[2]) == ["few", "some", "many"], (
        "a thread takes a pid, too"
    )


def test_what_is_said_of_it() -> None:
    message, annotations = eviction_message(
        "memory", pod("web", "1Mi"), reading("web", 3), parse("100Mi"), parse("90Mi")
    )
    assert message == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. "
        "Container c was using 3Mi, request is 1Mi, has larger consumption of memory. "
    )
    assert annotations == {
        "offending_containers": "c",
        "offending_containers_usage": "3Mi",
        "starved_resource": "memory",
    }
    assert eviction_message("pids", pod("web"), None) == ("The node was low on resource: pids. ", {})
