import os
from pathlib import Path
from typing import Any

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.host.dirs import PodDirs
from pykubelet.host.local import LocalHost
from pykubelet.pod.ports.machine import PodHost


def pod_with(**container: Any) -> Pod:
    spec = {"volumes": [{"name": "data", "emptyDir": {}}], "containers": [{"name": "c", **container}]}
    return changed(make_pod(uid="u1", namespace="shop"), spec=codec.convert(PodSpec, spec))


def host_of(dirs: PodDirs) -> PodHost:
    return LocalHost(dirs, memory=2**30)


def are_same(one: str, other: str) -> bool:
    return os.path.samefile(one, other)


async def test_a_pod_is_housed_from_its_first_folder_to_its_last(dirs: PodDirs, tmp_path: Path) -> None:
    host = host_of(dirs)
    pod = pod_with(
        volumeMounts=[{"name": "data", "mountPath": "/data", "subPath": "a"}],
        terminationMessagePath="/dev/termination-log",
    )
    paths = await host.set_up(pod)
    prepared = await host.mounts(pod, pod.spec.containers[0], 2, paths, (), ("10.0.0.7",))
    inside = {mount.container_path: mount.host_path for mount in prepared.mounts}
    assert list(inside) == ["/data", "/etc/hosts", "/dev/termination-log"]
    assert are_same(inside["/data"], os.path.join(paths["data"], "a"))
    assert inside["/etc/hosts"] == dirs.etc_hosts("u1")
    assert inside["/dev/termination-log"] == prepared.termination_message_path
    assert os.stat(prepared.termination_message_path).st_size == 0
    assert await host.uids() == {"u1"}
    await host.tear_down("u1")
    await host.remove("u1")
    assert await host.uids() == frozenset()
    assert os.listdir(tmp_path / "logs") == []


async def test_a_container_that_says_nothing_of_its_end_has_no_file_for_it(dirs: PodDirs) -> None:
    host = host_of(dirs)
    pod = pod_with()
    prepared = await host.mounts(pod, pod.spec.containers[0], 0, await host.set_up(pod), (), ())
    assert prepared.mounts == ()
    assert prepared.termination_message_path == ""
