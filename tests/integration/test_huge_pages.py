"""Huge pages for real: a volume of them, and a container that gets as many as it was given and no more."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.pod import PodSpec
from pykubelet.api.struct import changed
from pykubelet.api.volumes import Volume
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs
from pykubelet.host.volumes.empty_dir import EmptyDir
from pykubelet.pod.ports.runtime import Limits
from pykubelet.runtime.process import cgroups
from pykubelet.runtime.process.cgroups import Cgroups

PAGE = 2 << 20
COUNT = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
FILL = """
import mmap, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
size = int(sys.argv[2]) << 21
os.ftruncate(descriptor, size)
memory = mmap.mmap(descriptor, size)
for page in range(int(sys.argv[2])):
    memory[page << 21] = 1
print("filled")
"""


@pytest.fixture
def pages() -> Iterator[None]:
    """Four more than there were."""
    before = int(COUNT.read_text()) if COUNT.exists() else -1
    try:
        COUNT.write_text(str(before + 4))
    except OSError as error:
        pytest.skip(f"{error.strerror}: this machine has no huge pages to give")
    try:
        if int(COUNT.read_text()) < before + 4:
            pytest.skip("this machine has no huge pages to give")
        yield
    finally:
        COUNT.write_text(str(before))


@pytest.fixture
def controller() -> Path:
    """The one for huge pages, where this machine has mounted it. (To mount it ourselves would leave a tree behind that
    nobody sees, and that keeps containerd from hearing who runs out of memory.)"""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup" and "hugetlb" in options.split(","):
            return Path(place)
    pytest.skip("no controller for huge pages is mounted here")


def fill(path: str, count: int, group: str = "") -> str:
    def enter() -> None:
        if group:
            Path(group, "cgroup.procs").write_text(str(os.getpid()))

    run = [sys.executable, "-c", FILL, path, str(count)]
    done = subprocess.run(run, check=False, capture_output=True, text=True, preexec_fn=enter)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.usefixtures("pages")
async def test_a_volume_of_huge_pages_has_as_many_as_it_says(tmp_path: Path) -> None:
    asked = {"hugepages-2Mi": "6Mi", "memory": "1Gi"}
    spec = {"containers": [{"name": "c", "resources": {"requests": asked, "limits": asked}}]}
    pod = changed(make_pod(uid="u1"), spec=codec.convert(PodSpec, spec))
    wanted = codec.convert(Volume, {"name": "v", "emptyDir": {"medium": "HugePages-2Mi", "sizeLimit": "4Mi"}})
    kind = EmptyDir(PodDirs(str(tmp_path / "kubelet"), str(tmp_path / "logs")), 0)
    path = await kind.set_up(pod, wanted)
    try:
        assert fill(f"{path}/two", 2) == "filled"
        assert "Cannot allocate memory" in fill(f"{path}/three", 3)
    finally:
        await kind.tear_down("u1", "v")
    assert not mount.mounts_below(str(tmp_path))


@pytest.mark.usefixtures("pages")
def test_a_container_gets_as_many_as_it_was_given(controller: Path, tmp_path: Path) -> None:
    facts = tmp_path / "mountinfo"
    facts.write_text(f"30 20 0:26 / {controller} rw - cgroup cgroup rw,hugetlb\n")
    found = Cgroups(str(facts), "/proc/self/cgroup")
    volume = tmp_path / "volume"
    volume.mkdir()
    mount.mount_huge_pages(str(volume), PAGE)
    placed = [found.place(f"c{n}", "", Limits(hugepages={PAGE: n * PAGE} if n else {})) for n in (0, 2)]
    try:
        none, two = (each.folders[0] for each in placed)
        assert "Cannot allocate memory" in fill(f"{volume}/a", 1, none)
        assert fill(f"{volume}/b", 2, two) == "filled"
        os.unlink(volume / "b")
        assert "Cannot allocate memory" in fill(f"{volume}/c", 3, two)
    finally:
        mount.unmount(str(volume))
        for each in placed:
            cgroups.remove(each.folders)
        (controller / "pykubelet").rmdir()
