"""A machine that has lost its power and comes up again: what a reboot wipes is wiped, and the boot has another id."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from kit.agent_process import Node
from kit.waiting import wait_for
from pykubelet.runtime.process.memory import memory_folder

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_CONTROL_GROUPS = Path("/sys/fs/cgroup")


@contextmanager
def another_boot(folder: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """-> the command that starts a program in it, and its id. What is mounted in there is seen there alone."""
    boot = str(uuid4())
    file = folder / f"boot-{boot}"
    file.write_text(f"{boot}\n")
    script = f"mount --bind {file} {_BOOT_ID} && echo up && exec sleep 100000"
    command = ["unshare", "--mount", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "up\n"
        try:
            yield ("nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", "--"), boot
        finally:
            holder.kill()


def wipe(node: Node) -> None:
    """What the node of an agent that was just killed has in memory, and all that runs in its control groups."""
    groups = [*_CONTROL_GROUPS.glob(node.cgroup_root), *_CONTROL_GROUPS.glob(f"*/{node.cgroup_root}")]
    wait_for(lambda: not _killed(groups))
    for pid in _processes_of(node):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not _processes_of(node))
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for path in reversed(mounted):
        if path.startswith(f"{node.state}/"):
            subprocess.run(["umount", "--lazy", path], check=True)
    for group in groups:
        for below, _, _ in os.walk(group, topdown=False):
            os.rmdir(below)
    if (memory := memory_folder(node.state / "runtime")) is not None:
        shutil.rmtree(memory)


def _killed(groups: list[Path]) -> list[int]:
    found = []
    for group in groups:
        for file in group.rglob("cgroup.procs"):
            for pid in map(int, file.read_text().split()):
                found.append(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    return found


def _processes_of(node: Node) -> list[int]:
    """Those that an embedded runtime has left: they know its state by its path."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if str(node.state).encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found
