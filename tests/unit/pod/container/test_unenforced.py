from kit.pods import make_pod
from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.api.volumes import EmptyDirVolumeSource, Volume
from pykubelet.pod.container.unenforced import unenforced_storage


def test_limits_on_files_are_not_enforced_but_for_volumes_in_memory() -> None:
    pod = make_pod("web")
    limited = ResourceRequirements(limits={"ephemeral-storage": parse("1Gi"), "memory": parse("1Gi")})
    volumes = (
        Volume(name="cache", empty_dir=EmptyDirVolumeSource(size_limit=parse("1Gi"))),
        Volume(name="fast", empty_dir=EmptyDirVolumeSource(size_limit=parse("1Gi"), medium="Memory")),
        Volume(name="any", empty_dir=EmptyDirVolumeSource()),
    )
    containers = (Container(name="a", resources=limited), Container(name="b"))
    asks = changed(pod, spec=changed(pod.spec, containers=containers, volumes=volumes))
    assert unenforced_storage(asks) == ("ephemeral-storage limits of a", "sizeLimit of emptyDir cache")
    assert unenforced_storage(pod) == ()
