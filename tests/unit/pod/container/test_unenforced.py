import pytest

from kit.pods import make_pod
from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import parse
from pykubelet.api.rules.well_known import SOURCE_ANNOTATION
from pykubelet.api.struct import changed
from pykubelet.api.volumes import EmptyDirVolumeSource, Volume
from pykubelet.pod.container.unenforced import unenforced_storage


@pytest.fixture
def asks() -> Pod:
    pod = make_pod("web")
    limited = ResourceRequirements(limits={"ephemeral-storage": parse("1Gi"), "memory": parse("1Gi")})
    volumes = (
        Volume(name="cache", empty_dir=EmptyDirVolumeSource(size_limit=parse("1Gi"))),
        Volume(name="fast", empty_dir=EmptyDirVolumeSource(size_limit=parse("1Gi"), medium="Memory")),
        Volume(name="any", empty_dir=EmptyDirVolumeSource()),
    )
    containers = (Container(name="a", resources=limited), Container(name="b"))
    return changed(pod, spec=changed(pod.spec, containers=containers, volumes=volumes))


STORAGE = ("ephemeral-storage limits of a", "sizeLimit of emptyDir cache")


def test_where_nobody_measures_limits_on_files_are_not_kept_but_for_volumes_in_memory(asks: Pod) -> None:
    assert unenforced_storage(asks, is_measured=False) == STORAGE
    assert unenforced_storage(make_pod("web"), is_measured=False) == ()


def test_where_they_are_measured_only_pods_that_are_never_evicted_go_without(asks: Pod) -> None:
    assert unenforced_storage(asks, is_measured=True) == ()
    static = changed(asks, metadata=changed(asks.metadata, annotations={SOURCE_ANNOTATION: "file"}))
    critical = changed(asks, spec=changed(asks.spec, priority=2_000_000_000))
    for pod, kind in ((static, "static"), (critical, "critical")):
        told = unenforced_storage(pod, is_measured=True)
        assert told == tuple(f"{each} ({kind} pods are never evicted)" for each in STORAGE)
