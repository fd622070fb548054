# ruff: noqa: ASYNC240 - tests may block
"""A pod's root makes namespaces in which it may mount the trees of control groups, to rule the machine by them. And a
pod that multiplies takes all the processes that the machine can have."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.waiting import eventually
from pykubelet.runtime.process.cgroups import Cgroups
from unit.runtime.process.machine import Machine, sandbox_of

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="the trees are root's")
NAME = f"pykubelet-victim-{os.getpid()}"

RULE = """
exec 2>/dev/null
unshare -UrmC sh -c '
    mkdir /tmp/tree
    for kind in "cgroup2 rw" "cgroup freezer" "cgroup pids" "cgroup blkio" "cgroup cpuset" "cgroup cpuacct" \
        "cgroup memory" "cgroup devices" "cgroup cpu" "cgroup none,name=systemd"; do
        set -- $kind
        mount -t $1 -o $2 none /tmp/tree || continue
        echo "mounted $kind"
        test -e /tmp/tree/$NAME && echo "found in $kind"
        echo 1 > /tmp/tree/$NAME/cgroup.kill && echo killed
        echo FROZEN > /tmp/tree/$NAME/freezer.state && echo frozen
        echo /tmp/evil > /tmp/tree/release_agent && echo "told the kernel what to run"
        echo a > /tmp/tree/devices.allow && echo "has all devices"
        mkdir /tmp/tree/mine /tmp/tree/mine/deep
        umount /tmp/tree
    done'
echo over
"""
MULTIPLY = """
import os, signal, time
count = 0
try:
    while count < 2 * {most}:
        if os.fork() == 0:
            signal.pause()
        count += 1
except OSError as error:
    print("stopped", count, error.errno)
"""


SWARM = """
import os, signal
for number in set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP, 32, 33}:
    signal.signal(number, signal.SIG_IGN)
while True:
    try:
        os.fork() or os.setsid()
    except OSError:
        pass
"""


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """In a group of every tree, as a service of this machine is."""
    lines = [line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    mounts = [Path(fields.split()[4]) for fields, _, rest in lines if rest.split()[0] in ("cgroup", "cgroup2")]
    groups = []
    process = subprocess.Popen(["sleep", "1000"])
    try:
        for mount in mounts:
            group = mount / NAME
            group.mkdir()
            groups.append(group)
            if not (group / "cpuset.cpus").exists():  # an empty one takes in nobody
                (group / "cgroup.procs").write_text(str(process.pid))
        yield process
    finally:
        process.kill()
        process.wait()
        for group in groups:
            group.rmdir()


async def test_no_tree_shows_the_groups_of_others(isolated: Machine, victim: subprocess.Popen[bytes]) -> None:
    if Cgroups().refusal:
        pytest.skip("this machine lets us make no groups")
    container, output = await isolated.run(RULE, env=(("NAME", NAME), ("PATH", os.environ["PATH"])))
    assert [line for line in output.splitlines() if not line.startswith("mounted ")] == ["over"]
    assert victim.poll() is None
    folders = isolated.runtime._table.containers[container.id].record.placement.folders
    await isolated.runtime.remove_container(container.id)
    assert folders
    assert not [folder for folder in folders if os.path.exists(folder)], "also with the groups that it has made"


@pytest.mark.timeout(120)
async def test_a_pod_that_multiplies_leaves_room_for_others(isolated: Machine) -> None:
    container_id = await isolated.start("sleep 1000")
    folders = isolated.runtime._table.containers[container_id].record.placement.folders
    counters = [Path(folder, "pids.max") for folder in folders if Path(folder, "pids.max").exists()]
    if not counters:
        pytest.skip("this machine counts no processes")
    limits = [int(Path("/proc/sys/kernel", name).read_text()) for name in ("pid_max", "threads-max")]
    assert int(counters[0].read_text()) == min(limits) // 4
    counters[0].write_text("200")
    result = await isolated.runtime.exec_sync(container_id, ("python3", "-c", MULTIPLY.format(most=200)), 60)
    word, count, code = result.stdout.split()
    assert (word, code) == (b"stopped", b"11")
    assert int(count) < 200


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
async def test_a_pod_that_multiplies_and_heeds_no_signal_is_stopped(isolated: Machine, shared: bool) -> None:
    sandbox = sandbox_of(share_process_namespace=shared)
    script = 'exec python3 -c "$SWARM"'
    env = (("SWARM", SWARM), ("PATH", os.environ["PATH"]))
    container_id = await isolated.start(
        f"until test -e /tmp/go; do sleep 0.1; done; {script}", sandbox=sandbox, env=env
    )
    folders = isolated.runtime._table.containers[container_id].record.placement.folders
    group = next((Path(folder) for folder in folders if Path(folder, "pids.max").exists()), None)
    if group is None:
        pytest.skip("this machine counts no processes")
    (group / "pids.max").write_text("60")
    await isolated.runtime.exec_sync(container_id, ("touch", "/tmp/go"), 10)
    await eventually(lambda: int((group / "pids.current").read_text()) >= 55, seconds=30)
    await isolated.runtime.stop_container(container_id, 0)
    assert (group / "cgroup.procs").read_text() == ""
