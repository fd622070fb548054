"""The part of the wiring that measures: one reader, for those who ask over HTTP and for the limits on files."""

from collections.abc import Callable, Sequence

from pykubelet.api.pod import Pod
from pykubelet.app.foundations import Foundations
from pykubelet.host.cgroups import CgroupSettings
from pykubelet.host.dirs import PodDirs
from pykubelet.host.local import LocalHost
from pykubelet.host.stats import StatsReader, StatsSettings
from pykubelet.host.stats.volumes import VolumeSources
from pykubelet.plugins.csi import CsiDrivers
from pykubelet.pod.container.cgroup import group_of, node_group, path_of


def stats_reader(
    base: Foundations, pods: Callable[[], Sequence[Pod]], host: Callable[[], LocalHost | None], drivers: CsiDrivers
) -> StatsReader | None:
    """Belongs to whoever asks for it, who closes it. None where the runtime cannot say where its containers are."""
    config, places, recorder = base.config, base.runtime.capabilities.places, base.recorder
    if places is None:
        return None
    return StatsReader(
        base.runtime.pods,
        places,
        PodDirs(str(config.root_dir), str(config.pod_logs_dir)),
        wanted=pods,
        volumes=VolumeSources(
            claimed=lambda uid: known.claimed(uid) if (known := host()) is not None else (),
            usage=drivers.usage,
            tell_abnormal=lambda pod, message: recorder.event(pod, "Warning", "VolumeConditionAbnormal", message),
        ),
        settings=StatsSettings(
            pods_group=pods_group(config.cgroups),
            runtime_socket=_socket_path(config.runtime.endpoint),
            volume_period=config.volume_stats_period,
        ),
    )


def _socket_path(endpoint: str) -> str:
    """Empty for a runtime that is no program of its own."""
    path = endpoint.removeprefix("unix://")
    return path if path.startswith("/") else ""


def pods_group(settings: CgroupSettings) -> str:
    """The control group that all pods are in."""
    return path_of(node_group(group_of(settings.cgroup_root)), settings.driver)
