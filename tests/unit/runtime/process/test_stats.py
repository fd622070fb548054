"""What containers of the embedded runtime use, on this machine."""

import time
from pathlib import Path

from pykubelet.host.dirs import PodDirs
from pykubelet.host.stats import StatsReader, StatsSettings
from pykubelet.pod.stats.stats import ContainerReading
from pykubelet.runtime.process.stats import by_controller
from unit.runtime.process.machine import Machine

BUSY = "i=0; while :; do i=$((i+1)); done"


def test_folders_belong_to_the_controllers_that_their_mounts_are_named_after() -> None:
    assert by_controller(()) == {}
    assert by_controller(("/sys/fs/cgroup/pykubelet/1",)) == {"": "/sys/fs/cgroup/pykubelet/1"}
    assert by_controller(("/sys/fs/cgroup/memory/x/1", "/sys/fs/cgroup/cpu,cpuacct/x/1")) == {
        "memory": "/sys/fs/cgroup/memory/x/1",
        "cpu": "/sys/fs/cgroup/cpu,cpuacct/x/1",
        "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/x/1",
    }
    trees = ("/sys/fs/cgroup/unified/x/1", "/sys/fs/cgroup/memory/x/1", "/sys/fs/cgroup/systemd/x/1")
    assert by_controller(trees) == {"memory": "/sys/fs/cgroup/memory/x/1"}, "beside others version 2 only keeps count"


async def test_a_program_that_is_busy_is_seen_to_use_its_processor(any_machine: Machine, tmp_path: Path) -> None:
    runtime = any_machine.runtime
    await any_machine.start(f"({BUSY}) & {BUSY}")
    places = runtime.capabilities.places
    assert places is not None
    dirs = PodDirs(str(tmp_path / "agent"), str(tmp_path / "logs"))
    reader = StatsReader(runtime.pods, places, dirs, settings=StatsSettings(fresh=0.0))

    async def look() -> ContainerReading:
        (pod,) = (await reader.read()).pods
        assert pod.usage.cpu == pod.containers[0].usage.cpu or pod.group
        return pod.containers[0]

    deadline = time.monotonic() + 30
    while True:  # in time it uses more than its start took
        usage = (await look()).usage
        assert usage.cpu is not None
        if usage.cpu.total >= 300_000_000 and usage.cpu.rate and usage.processes == 2:
            break
        assert time.monotonic() < deadline, usage
    assert usage.memory is not None
    assert 0 < usage.memory.working_set < 2**30
    assert usage.threads is not None
    await reader.close()
