"""A container makes itself a device node, in every place where it can write, and cannot open it."""

import os
from pathlib import Path

import pytest

from pykubelet.api.security import SecurityContext
from pykubelet.pod.ports.runtime import Mount
from unit.runtime.process.machine import Machine, sandbox_of

only_root = pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user can make no device nodes at all")
WRITABLE = "/ /tmp /run /var/tmp /var/lib /root /home /dev /dev/shm /etc /usr/local /data"
MAKE = f"""
exec 2>/dev/null
for folder in {WRITABLE}; do
    mknod $folder/node c 1 5 && echo made $folder/node
    head -c 1 $folder/node | wc -c
done
"""


@only_root
async def test_no_device_node_that_a_container_makes_can_be_opened(isolated: Machine, tmp_path: Path) -> None:
    """The one of /dev/zero, which every device rule allows: so it is the mount that refuses it."""
    mount = Mount(host_path=str(tmp_path), container_path="/data")
    _, output = await isolated.run(MAKE, mounts=(mount,))
    lines = output.split("\n")
    assert [line for line in lines if line.isdigit()] == ["0"] * len(WRITABLE.split())


async def test_no_mount_of_a_container_lets_devices_be_opened_but_those_of_dev(
    isolated: Machine, tmp_path: Path
) -> None:
    mount = Mount(host_path=str(tmp_path), container_path="/data")
    _, output = await isolated.run("cat /proc/self/mountinfo", mounts=(mount,))
    open_to_devices = {
        fields[4] for fields in map(str.split, output.splitlines()) if "nodev" not in fields[5].split(",")
    }
    allowed = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts")}
    masks = {path for path in open_to_devices if path.startswith("/proc/")}  # /dev/null again
    assert open_to_devices - masks <= allowed


@only_root
async def test_a_privileged_container_may(isolated: Machine) -> None:
    sandbox = sandbox_of(SecurityContext(privileged=True))
    _, output = await isolated.run("mknod /tmp/zero c 1 5 && head -c 3 /tmp/zero | wc -c", sandbox=sandbox)
    assert output == "3\n"
