"""What a run of tests that was killed has left of its private containerds: the next run takes it away.

A folder tells who owns it, a process by its pid and the time of its start. Only what has lost its owner is touched.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "pkcd-"
_OWNER: Final = "owner"
_YOUNG: Final = 600.0
"""Seconds for which a folder without a word about its owner is left alone: it may be about to get one."""
_PROGRAMS: Final = frozenset({"containerd", "containerd-shim", "docker-registry"})
_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")


def bridge_of(root: Path) -> str:
    return f"pk{root.name[-8:]}"[:15]


def claim(root: Path) -> None:
    """From now on the folder is ours for as long as we live."""
    (root / _OWNER).write_text(f"{os.getpid()} {_born(os.getpid())}")


def sweep(parent: Path = Path("/tmp")) -> list[Path]:
    """Take away what dead runs have left. -> their folders"""
    if os.geteuid() != 0:
        return []
    found = [root for root in parent.glob(f"{PREFIX}*") if root.is_dir() and not is_owned(root)]
    for root in found:
        _take_away(root)
    return found


def is_owned(root: Path) -> bool:
    """Whether somebody still needs it."""
    try:
        pid, born = (root / _OWNER).read_text().split()
    except FileNotFoundError:
        with suppress(OSError):
            return time.time() - root.stat().st_mtime < _YOUNG or any(_servants(root))
        return True  # it goes in this moment
    except ValueError:
        return True  # it is being written
    return _born(int(pid)) == born


def _take_away(root: Path) -> None:
    for pid in (*_servants(root), *_inmates(root)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for path in sorted((path for path in mounts if path.startswith(f"{root}/")), key=len, reverse=True):
        _run("umount", "--lazy", path)
    _run("ip", "link", "delete", bridge_of(root))
    _drop_chains(bridge_of(root))
    for task in root.glob("state/io.containerd.runtime.v2.task/k8s.io/*"):
        for group in (*_CONTROL_GROUPS.glob(f"k8s.io/{task.name}"), *_CONTROL_GROUPS.glob(f"*/k8s.io/{task.name}")):
            with suppress(OSError):  # its processes are not quite gone
                group.rmdir()
    shutil.rmtree(root, ignore_errors=True)


def _servants(root: Path) -> Iterator[int]:
    """The programs that serve from a folder: it is in their command lines."""
    mark = f"{root}/"
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            program, *arguments = (folder / "cmdline").read_text(errors="replace").split("\0")
            if any(Path(program).name.startswith(name) for name in _PROGRAMS) and mark in " ".join(arguments):
                yield int(folder.name)


def _inmates(root: Path) -> Iterator[int]:
    """Those whose own root is an image of it, also when nobody watches over them any more."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            lines = (folder / "mountinfo").read_text().splitlines()
            if any(line.split()[4] == "/" and f"={root}/" in line for line in lines):
                yield int(folder.name)


def _drop_chains(network: str) -> None:
    """The rules that brought packets for ports of the machine to pods of a network."""
    rules = _run("iptables", "-t", "nat", "-S").splitlines()
    for line in rules:
        if line.startswith("-A ") and f'name: \\"{network}\\"' in line:
            subprocess.run(f"iptables -t nat -D {line[3:]}", shell=True, check=False, capture_output=True)
    for line in rules:
        chain = line.rpartition(" -j ")[2].split(" ")[0]
        if f'name: \\"{network}\\"' in line and chain.startswith("CNI-"):
            _run("iptables", "-t", "nat", "-F", chain)
            _run("iptables", "-t", "nat", "-X", chain)


def _born(pid: int) -> str:
    """When a process started, in the machine's own count; empty: it is dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _run(*command: str) -> str:
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout
