# ruff: noqa: ASYNC221 - tests may block
"""A container that makes a file for the machine's disk gets nowhere with it."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.api.security import Capabilities, SecurityContext
from pykubelet.pod.ports.runtime import Mount
from pykubelet.runtime.process import devices
from pykubelet.runtime.process.cgroups import Cgroups
from unit.runtime.process.machine import Machine, sandbox_of

DISKS = [path for path in Path("/dev").iterdir() if stat.S_ISBLK(path.stat().st_mode)]
is_root = os.getuid() == 0
only_root = pytest.mark.skipif(not is_root, reason="an ordinary user's container can make no files for devices")

ATTACK = """
for device in {devices}; do
    rm -f /tmp/made; mknod /tmp/made $device && echo "made $device"
    test -e /tmp/made && timeout 5 dd if=/tmp/made of=/dev/null bs=1 count=1 && echo "read $device"
    test -e /tmp/made && timeout 5 dd if=/dev/zero of=/tmp/made bs=1 count=0 conv=notrunc && echo "written $device"
done 2>/dev/null
rm -f /tmp/made
echo over
"""


def numbers() -> list[str]:
    disks = [path.stat().st_rdev for path in DISKS[:3]]
    forbidden = [
        "'c 1 1'",
        "'c 1 2'",
        "'c 5 1'",
        "'c 10 237'",
        "'c 10 200'",
        "'b 7 0'",
    ]  # mem, kmem, console, loops, tun
    return [f"'b {os.major(each)} {os.minor(each)}'" for each in disks] + forbidden


@pytest.mark.parametrize("added", [(), ("MKNOD", "SYS_ADMIN", "SYS_RAWIO")])
async def test_no_disk_of_the_machine_can_be_reached(isolated: Machine, added: tuple[str, ...]) -> None:
    context = SecurityContext(capabilities=Capabilities(add=added))
    _, output = await isolated.run(ATTACK.format(devices=" ".join(numbers())), sandbox=sandbox_of(context))
    assert output == "over\n"


@only_root
async def test_what_everybody_needs_can_be_used(isolated: Machine) -> None:
    script = "for each in zero urandom random; do head -c 2 /dev/$each | wc -c; done; echo x > /dev/null && echo well"
    _, output = await isolated.run(script)
    assert output == "2\n2\n2\nwell\n"


@only_root
@pytest.mark.skipif(not DISKS, reason="this machine has no disk")
@pytest.mark.parametrize("privileged", [False, True])
async def test_the_kernel_has_rules_for_whoever_is_in_a_container(isolated: Machine, privileged: bool) -> None:
    """Tried without the container's root, which may well keep devices shut by itself."""
    if not Cgroups().device_rules:
        pytest.skip("this machine lets us set no rules for devices")
    container_id = await isolated.start("sleep 1000", sandbox=sandbox_of(SecurityContext(privileged=privileged)))
    groups = isolated.runtime._table.containers[container_id].record.placement.entries
    join = "; ".join(f"echo $$ > {each}" for each in groups)
    script = f"{join}; head -c 1 /dev/zero > /dev/null && echo zero; exec 3<{DISKS[0]} && echo disk"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, timeout=20)
    assert done.stdout == ("zero\ndisk\n" if privileged else "zero\n")


@only_root
@pytest.mark.skipif(not DISKS, reason="this machine has no disk")
async def test_a_disk_that_is_mounted_into_a_pod_is_there_for_the_privileged_alone(isolated: Machine) -> None:
    if not Cgroups().device_rules:
        pytest.skip("this machine lets us set no rules for devices")
    loop = min(DISKS, key=lambda path: "loop" not in path.name)
    mounts = (Mount(host_path=str(loop), container_path="/disk"),)
    script = "exec 3</disk && echo opened; exec 2>&1"
    _, output = await isolated.run(script, mounts=mounts)
    assert "opened" not in output
    container_id = await isolated.start("sleep 1000", mounts=mounts)
    result = await isolated.runtime.exec_sync(container_id, ("sh", "-c", script), 10)
    assert b"opened" not in result.stdout
    sandbox = sandbox_of(SecurityContext(privileged=True))
    container_id = await isolated.start("sleep 1000", mounts=mounts, sandbox=sandbox)
    result = await isolated.runtime.exec_sync(container_id, ("sh", "-c", script), 10)
    assert b"opened" in result.stdout


@pytest.fixture(params=["cgroup", "cgroup2"])
def group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A control group of either version, wherever this machine has a tree of that."""
    trees = [line.partition(" - ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    wanted = "devices" if request.param == "cgroup" else ""
    places = [
        Path(fields.split()[4])
        for fields, _, rest in trees
        if rest.split()[0] == request.param and wanted in rest.split()[2]
    ]
    if not places:
        pytest.skip("this machine has no such tree")
    made = places[0] / f"pykubelet-test-{os.getpid()}"
    made.mkdir()
    yield made
    made.rmdir()


@only_root
@pytest.mark.skipif(not DISKS, reason="this machine has no disk")
def test_both_versions_of_the_kernels_rules_say_the_same(group: Path, tmp_path: Path) -> None:
    devices.restrict(group)
    script = f"""
    echo $$ > {group}/cgroup.procs
    for path in /dev/null /dev/zero /dev/full /dev/random /dev/urandom {DISKS[0]}; do
        dd if=$path of=/dev/null bs=1 count=1 2>/dev/null && echo ${{path##*/}}
    done
    cd {tmp_path}
    for device in 'c 1 3' 'c 136 0' 'c 1 1' 'b 7 0'; do mknod made $device && echo $device; rm -f made; done
    """
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, timeout=20)
    assert done.stdout.split("\n") == ["null", "zero", "full", "random", "urandom", "c 1 3", "c 136 0", ""]
