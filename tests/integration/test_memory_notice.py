"""The kernel tells that memory runs short: of control groups v1 by a level of use, else by the time that is waited."""

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kit.containerd import OWN_CGROUP
from pykubelet.api.quantity import Quantity
from pykubelet.host.memory_notice import StallNotice, UsageNotice, memory_notice
from pykubelet.host.stats.cgroups import Hierarchy
from pykubelet.host.stats.disks import PressureReader
from pykubelet.pod.eviction.thresholds import ALLOCATABLE_MEMORY, Amount, Threshold

MI = 1 << 20
EATER = """
import sys, time
sys.stdin.readline()
held = bytearray(int(sys.argv[1]) << 20)
for place in range(0, len(held), 4096):
    held[place] = 1
print("eaten", flush=True)
sys.stdin.readline()
"""


class Group:
    """A group of 128 MiB, and a program in it that takes memory when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(128 * MI))

    def eater(self, mebibytes: int) -> "subprocess.Popen[str]":
        program = subprocess.Popen(
            [sys.executable, "-c", EATER, str(mebibytes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        (self.folder / "cgroup.procs").write_text(str(program.pid))
        return program

    @staticmethod
    def tell(program: "subprocess.Popen[str]") -> None:
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()


@pytest.fixture
def group() -> Iterator[Group]:
    memory = Hierarchy.found("/proc").mounts.get("memory")
    if memory is None or os.geteuid() != 0:
        pytest.skip("needs control groups v1, and root")
    made = Group(Path(memory) / f"{OWN_CGROUP}-{secrets.token_hex(4)}")
    yield made
    made.folder.rmdir()


async def test_the_kernel_tells_when_a_group_uses_what_leaves_too_little(group: Group) -> None:
    threshold = Threshold(signal=ALLOCATABLE_MEMORY, least=Amount(Quantity.of(64 * MI)))
    reader = PressureReader("/", f"/{group.folder.name}", "/proc", "/sys")
    notice = UsageNotice({ALLOCATABLE_MEMORY: str(group.folder)})
    polite, greedy = group.eater(16), group.eater(90)
    try:
        for _ in range(3):  # which is asked of the kernel once
            notice.expect(reader.machine(1), [threshold])
        assert len(notice._armed) == 1
        group.tell(polite)
        assert polite.stdout is not None
        polite.stdout.readline()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await notice.wait()
                raise AssertionError("there is enough")
        group.tell(greedy)
        async with asyncio.timeout(5):
            await notice.wait()
    finally:
        notice.close()
        for each in (polite, greedy):
            each.kill()
            each.communicate()
    assert notice._armed == {}


async def test_a_group_that_is_not_there_is_no_misfortune() -> None:
    notice = UsageNotice({ALLOCATABLE_MEMORY: "/nowhere"})
    reader = PressureReader("/", "", "/proc", "/sys")
    notice.expect(reader.machine(1), [Threshold(signal=ALLOCATABLE_MEMORY, least=Amount(Quantity.of(1)))])
    notice.close()
    assert len(os.listdir("/proc/self/fd")) < 1000


async def test_this_machine_has_a_notice_that_can_be_opened_and_closed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    notice = memory_notice("/kubepods")
    if notice is not None:
        notice.expect(PressureReader("/", "", "/proc", "/sys").machine(1), [])
        notice.close()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_whoever_waits_for_memory_is_told_of_by_kernels_that_can() -> None:
    path = Path("/proc/pressure/memory")
    try:
        notice = StallNotice(str(path))
    except OSError as error:
        pytest.skip(f"{path}: {error.strerror}")
    with suppress(TimeoutError):
        async with asyncio.timeout(0.2):
            await notice.wait()
    notice.close()
