"""What this machine has to be like before pods run on it, and what of that the agent sees to itself: swap, the version
of control groups, the kernel's own settings, and what the agent may use."""

import logging
import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.base.tasks import every
from pykubelet.host.cgroups.reserved import gather_system, join
from pykubelet.host.threads import in_thread

log = logging.getLogger(__name__)

_PERIOD: Final = 60.0

TUNABLES: Final = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
"""What kubelets expect of the kernel: it rather ends a process than refuse memory, and restarts when it is lost."""


_LAST_TO_GO: Final = -999


class MachineSettings(Struct, frozen=True, kw_only=True):
    fail_swap_on: bool = False
    """Refuse to run where there is swap: limits of memory would not mean what they say."""
    limited_swap: bool = False
    """Containers that may use more memory than they ask for get a share of the machine's swap."""
    fail_cgroup_v1: bool = False
    kernel: Literal["leave", "set", "check"] = "leave"
    """What is done about the kernel's own settings."""
    oom_score_adj: int | None = None
    """Of the agent itself; None: as little as it may have, so that it goes last when memory runs out."""
    max_open_files: int | None = None
    own_group: str = ""
    """The control group that the agent moves into; empty: it stays where it is."""
    system_group: str = ""
    """The one that processes move into which are in none; empty: they stay where they are."""
    has_iptables: bool = False
    """Whether the chains are kept that other components look for (`host.iptables`)."""


def prepare_machine(
    settings: MachineSettings, *, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")
) -> None:
    """Blocks. Raises Invalid when pods cannot run here as configured."""
    if settings.fail_swap_on and _has_swap(proc):
        raise Invalid("this machine has swap: turn it off (swapoff -a), or allow it with --fail-swap-on=false")
    is_unified = (cgroups / "cgroup.controllers").exists()
    if settings.limited_swap and not is_unified:
        told = "swap feature is enabled and LimitedSwap but it is only supported with cgroupv2"
        raise Invalid(f"memorySwap.swapBehavior: {told}; set NoSwap, or boot this machine with cgroup v2")
    if settings.fail_cgroup_v1 and not is_unified:
        raise Invalid("this machine has cgroup v1: boot it with cgroup v2, or allow it with --fail-cgroupv1=false")
    if settings.kernel != "leave":
        _see_to_kernel(proc / "sys", may_change=settings.kernel == "set")
    if settings.oom_score_adj is not None:
        _write(proc / "self" / "oom_score_adj", settings.oom_score_adj, "oomScoreAdj")
    else:
        with suppress(OSError):  # an ordinary user may not
            (proc / "self" / "oom_score_adj").write_text(str(_LAST_TO_GO))
    if settings.max_open_files is not None:
        _limit_files(settings.max_open_files)
    sort_processes(settings)


def _has_swap(proc: Path) -> bool:
    """The first line is a heading."""
    try:
        return len((proc / "swaps").read_text().strip().splitlines()) > 1
    except FileNotFoundError:  # a kernel without swap
        return False


def _see_to_kernel(folder: Path, *, may_change: bool) -> None:
    wrong = []
    for name, wanted in TUNABLES.items():
        shown = name.replace("/", ".")
        try:
            found = int((folder / name).read_text())
        except (OSError, ValueError):
            log.warning("the kernel's setting %s cannot be read", shown)
            continue
        if found == wanted:
            continue
        if may_change:
            _write(folder / name, wanted, shown)
        else:
            wrong.append(f"{shown} is {found}, not {wanted}")
    if wrong:
        raise Invalid(f"protectKernelDefaults: {', '.join(wrong)}; set them with sysctl")


def _limit_files(wanted: int) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    except (OSError, ValueError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
        log.warning(
            "maxOpenFiles: %d cannot be had, the machine allows %d (it was %d)", wanted, min(wanted, hard), soft
        )


def sort_processes(settings: MachineSettings) -> None:
    """Into the groups that people have named: the agent, and whoever is in none. Others may move them, and new ones
    come. Blocks."""
    try:
        if settings.system_group:
            gather_system(settings.system_group)
        if settings.own_group:
            join(settings.own_group, [os.getpid()])
    except (OSError, Invalid) as error:
        log.warning("kubeletCgroups, systemCgroups: processes cannot move there: %s", error)


async def keep_processes_sorted(settings: MachineSettings) -> None:
    """Until cancelled."""
    async for _ in every(_PERIOD):
        await in_thread(sort_processes, settings)


def _write(path: Path, value: int, name: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, str(value).encode())
        finally:
            os.close(fd)
    except OSError as error:
        log.warning("%s cannot be set to %d: %s", name, value, error.strerror)
