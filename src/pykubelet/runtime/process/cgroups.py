"""Limits on memory, processor time and processes, where this machine lets us set them: cgroup v2 as root or delegated,
or v1. And rules for devices, which only root can set.

An ordinary user has what systemd delegates to a service or scope. Nobody may be in a group of v2 that has others below
it, so what is in there goes to one of its own first.

Who makes a user namespace and one of control groups can mount their trees, and rules all below the group that he is in.
So a container is in a group of its own in every tree that there is.
"""

import contextlib
import logging
import os
import secrets
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid, Retry
from pykubelet.base.huge_pages import page_sizes
from pykubelet.pod.container.cgroup import FEWEST_SHARES, PERIOD, UNLIMITED, spelled_page_size, weight_of
from pykubelet.pod.ports.runtime import Device, Limits
from pykubelet.runtime.process import devices

log = logging.getLogger(__name__)

_OURS: Final = "pykubelet"
_AGENT: Final = "pykubelet-agent"
"""The group of the agent itself and all that was started beside it, where containers are below the same."""
_DELEGATED: Final = "user.delegate"
_TRIES: Final = 10
_WANTED: Final = ("memory", "cpu")
_DEVICES: Final = "devices"
_PIDS: Final = "pids"
_CPUSETS: Final = "cpuset"
HUGE_PAGES: Final = "hugetlb"
_REMEDY: Final = "run it as root, or with `systemd-run --user --scope -p Delegate=yes`"
_ROOTS_REMEDY: Final = "have control groups mounted at /sys/fs/cgroup, so that they can be written to"
_CPUSET: Final = ("cpuset.cpus", "cpuset.mems")
_SHARE: Final = 4
"""One container gets no more than this part of all the processes that the machine can have."""
_PATIENCE: Final = 2.0


class Placement(Struct, frozen=True, kw_only=True):
    """Where one container is accounted."""

    folders: tuple[str, ...] = ()
    oom_events: str = ""

    @property
    def entries(self) -> list[str]:
        return [f"{folder}/cgroup.procs" for folder in self.folders]


class Cgroups:
    """All of it blocks: it is called in threads."""

    def __init__(
        self,
        mountinfo: str = "/proc/self/mountinfo",
        membership: str = "/proc/self/cgroup",
        *,
        single_process_oom_kill: bool = False,
        sizes: tuple[int, ...] | None = None,
    ) -> None:
        self._page_sizes = page_sizes() if sizes is None else sizes
        self._oom_group = "0" if single_process_oom_kill else "1"
        self.unified: Path | None = None
        self.legacy: dict[Path, list[str]] = {}
        """By mount point: what the tree is for. The one of v2 may be among them, then it is for nothing."""
        self.controllers: frozenset[str] = frozenset()
        """Those by which limits can be set: of memory, cpu, pids, cpuset, hugetlb."""
        self.refusal = ""
        """Why there are no limits, or not all; empty: there are."""
        self.device_rules = False
        try:
            self._find(Path(mountinfo).read_text(), Path(membership).read_text())
        except OSError as error:
            self.refusal = str(error)

    def place(self, name: str, parent: str, limits: Limits, allowed: Collection[Device] | None = ()) -> Placement:
        """Make a container's groups, and set its limits and rules. `allowed` are devices beyond those that everybody
        may use; None: all. Raises OSError."""
        most = most_processes()
        if self.unified is not None:
            folder = self._below(self.unified, parent) / name
            folder.mkdir(parents=True, exist_ok=True)
            for above in reversed(folder.relative_to(self.unified).parents):
                _enable(self.unified / above)
            pages = self._pages(limits, "max") if HUGE_PAGES in self.controllers else ()
            for file, text in (("pids.max", str(most)), *self._unified_values(limits), *pages):
                _put(folder / file, text)
            if self.device_rules and allowed is not None:
                devices.restrict(folder, allowed)
            return Placement(folders=(str(folder),), oom_events=str(folder / "memory.events"))
        folders, oom_events = [], ""
        for mount, controllers in self.legacy.items():
            folder = self._below(mount, parent) / name
            _make_legacy(mount, folder)
            if _PIDS in controllers:
                _put(folder / "pids.max", str(most))
            pages = self._pages(limits, "limit_in_bytes") if HUGE_PAGES in controllers else ()
            for file, text in (*_legacy_values(controllers, limits), *pages):
                _put(folder / file, text)
            if _DEVICES in controllers and allowed is not None:
                devices.restrict(folder, allowed)
            if "memory" in controllers:
                oom_events = f"{folder}/memory.oom_control"
            folders.append(str(folder))
        return Placement(folders=tuple(folders), oom_events=oom_events)

    def update(self, placement: Placement, limits: Limits) -> None:
        """Other limits for one that was placed; what is None or empty stays as it is. Raises Invalid, Retry."""
        asked = {
            "memory": limits.memory is not None,
            "cpu": limits.cpu_shares is not None or limits.cpu_quota is not None,
            _CPUSETS: bool(limits.cpuset_cpus or limits.cpuset_mems),
        }
        missing = [name for name, is_asked in asked.items() if is_asked and name not in self.controllers]
        if missing or not placement.folders:
            why = self.refusal or "there is no controller for it"
            raise Invalid(
                f"{' and '.join(missing) or 'a container'} cannot be limited on this machine: {why}; {remedy()}"
            )
        for folder in map(Path, placement.folders):
            if self.unified is not None:
                values = dict(self._unified_values(limits))
            else:
                mount = next(each for each in self.legacy if folder.is_relative_to(each))
                values = dict(_legacy_values(self.legacy[mount], limits))
            _change(folder, values)

    def _unified_values(self, limits: Limits) -> Iterator[tuple[str, str]]:
        yield from _unified_values(limits)
        if limits.memory is not None:
            yield "memory.oom.group", self._oom_group  # whether a container ends as a whole when its memory runs out

    def _pages(self, limits: Limits, file: str) -> Iterator[tuple[str, str]]:
        """Of each size, used and set aside: who asks for none gets none."""
        for size in self._page_sizes if limits.hugepages is not None else ():
            for kind in ("", "rsvd."):
                yield f"hugetlb.{spelled_page_size(size)}.{kind}{file}", str((limits.hugepages or {}).get(size, 0))

    def _below(self, mount: Path, parent: str) -> Path:
        inside = parent.strip("/")
        return mount / inside if inside and ".." not in inside.split("/") else mount / _OURS

    def _find(self, mounts: str, membership: str) -> None:
        legacy: dict[Path, list[str]] = {}
        for line in mounts.splitlines():
            fields, _, rest = line.partition(" - ")
            kind, _, options = rest.split(maxsplit=2)
            mount = Path(fields.split()[4])
            if kind == "cgroup2":
                self._try_unified(mount, membership)
                legacy[mount] = []
            elif kind == "cgroup":
                legacy[mount] = options.split(",")
        if self.unified is None:
            self.legacy = {mount: options for mount, options in legacy.items() if self._can_make(mount)}
            rules = next((mount for mount, options in self.legacy.items() if _DEVICES in options), None)
            self.device_rules = rules is not None and self._can_restrict(rules)
            if rules is not None and not self.device_rules:
                self.legacy[rules].remove(_DEVICES)
            self.controllers = frozenset(name for options in self.legacy.values() for name in options)
        missing = [controller for controller in _WANTED if controller not in self.controllers]
        if not missing:
            self.refusal = ""
        elif self.unified or self.controllers & set(_WANTED):
            self.refusal = f"there is no controller for {missing[0]}"
        else:
            self.refusal = self.refusal or "there is no cgroup that may be written to"

    def _try_unified(self, mount: Path, membership: str) -> None:
        """At the top as root; else below our own group, if that was delegated to us."""
        own = next((line[3:] for line in membership.splitlines() if line.startswith("0::")), "/")
        own = own.strip("/").removesuffix(_AGENT)
        for base in dict.fromkeys((mount, mount / own)):
            free = _leave(base, is_ours=not own)
            _enable(base)
            if self._can_make(base):
                have = self._controllers_below(base)
                if have & set(_WANTED):
                    self.unified, self.controllers = base, have
                    self.device_rules = self._can_restrict(base)
                    return
                why = "it has no controllers for memory and cpu to give"
                self.refusal = f"{base}: {why if free else 'it is not delegated: others are in it'}"

    def _can_restrict(self, mount: Path) -> bool:
        probe = mount / f"{_OURS}-{secrets.token_hex(4)}"
        try:
            probe.mkdir()
        except OSError:
            return False
        try:
            devices.restrict(probe)
        except OSError as error:
            log.info("no rules for devices can be set below %s: %s", mount, error.strerror)
            return False
        finally:
            probe.rmdir()
        return True

    def _can_make(self, mount: Path) -> bool:
        probe = mount / f"{_OURS}-{secrets.token_hex(4)}"
        try:
            probe.mkdir()
        except OSError as error:
            self.refusal = f"{mount}: {error.strerror}"
            return False
        probe.rmdir()
        return True

    def _controllers_below(self, base: Path) -> frozenset[str]:
        try:
            return frozenset((base / "cgroup.subtree_control").read_text().split())
        except OSError:
            return frozenset()


def kill(folders: tuple[str, ...]) -> None:
    """Whatever is left in a container's groups, for the day that nobody else knows it any more."""
    for folder in folders:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            pids = [pid for each in _tree(folder) for pid in _members(each)]
            if not pids:
                break
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.005)


def _members(folder: str) -> list[str]:
    try:
        return Path(folder, "cgroup.procs").read_text().split()
    except OSError:
        return []


def _tree(folder: str) -> Iterator[str]:
    """It and all in it, the deepest first: a container's root can make groups of its own."""
    for each, _, _ in os.walk(folder, topdown=False):
        yield each


def remove(folders: tuple[str, ...]) -> None:
    """The dead leave a group a moment later than their parents hear of it."""
    for folder in folders:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                for each in _tree(folder):
                    os.rmdir(each)
            except FileNotFoundError:
                continue
            except OSError as error:
                if time.monotonic() < until:
                    time.sleep(0.005)
                    continue
                log.warning("cannot remove the cgroup %s: %s", folder, error.strerror)
            break


def _make_legacy(mount: Path, folder: Path) -> None:
    """A new group without processors and memory nodes would take in nobody."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _CPUSET:
        if (folder / name).exists():
            for each in (*(above for above in reversed(folder.parents) if above.is_relative_to(mount)), folder):
                if not (each / name).read_text().strip("\n\0"):
                    (each / name).write_text((each.parent / name).read_text())


def remedy() -> str:
    """What to do where there are no control groups for us."""
    return _REMEDY if os.getuid() else _ROOTS_REMEDY


def most_processes() -> int:
    numbers = (int(Path("/proc/sys/kernel", name).read_text()) for name in ("pid_max", "threads-max"))
    return min(numbers) // _SHARE


def _leave(base: Path, *, is_ours: bool) -> bool:
    """Make room for groups below one that is ours as a whole. -> whether that is so now, or need not be."""
    if not (base / "cgroup.type").exists() or not _members(str(base)):
        return True  # the very top may have both
    with contextlib.suppress(OSError):
        is_ours = is_ours or os.getxattr(base, _DELEGATED) == b"1"
    if not is_ours:
        return False
    try:
        (base / _AGENT).mkdir(exist_ok=True)
        for _ in range(_TRIES):  # they may fork meanwhile
            for pid in _members(str(base)):
                with contextlib.suppress(ProcessLookupError):
                    (base / _AGENT / "cgroup.procs").write_text(pid)
    except OSError as error:
        log.info("nobody can be moved out of %s: %s", base, error.strerror)
    return not _members(str(base))


def _enable(folder: Path) -> None:
    for controller in (*_WANTED, _PIDS, _CPUSETS, HUGE_PAGES):
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _unified_values(limits: Limits) -> Iterator[tuple[str, str]]:
    if limits.memory is not None:
        yield "memory.max", str(limits.memory)
    if limits.swap is not None:
        yield "memory.swap.max", str(limits.swap)
    if limits.cpu_shares is not None:
        yield "cpu.weight", str(weight_of(limits.cpu_shares))
    if limits.cpu_quota is not None:
        yield "cpu.max", f"{limits.cpu_quota if limits.cpu_quota > 0 else 'max'} {PERIOD}"
    yield from _processors(limits)


def _legacy_values(controllers: Collection[str], limits: Limits) -> Iterator[tuple[str, str]]:
    if "memory" in controllers and limits.memory is not None:
        yield "memory.limit_in_bytes", str(limits.memory)
        yield "memory.memsw.limit_in_bytes", str(limits.memory)
    if "cpu" in controllers and limits.cpu_shares is not None:
        yield "cpu.shares", str(max(FEWEST_SHARES, limits.cpu_shares))
    if "cpu" in controllers and limits.cpu_quota is not None:
        yield "cpu.cfs_period_us", str(PERIOD)
        yield "cpu.cfs_quota_us", str(limits.cpu_quota if limits.cpu_quota > 0 else UNLIMITED)
    if _CPUSETS in controllers:
        yield from _processors(limits)


def _processors(limits: Limits) -> Iterator[tuple[str, str]]:
    return ((name, text) for name, text in zip(_CPUSET, (limits.cpuset_cpus, limits.cpuset_mems), strict=True) if text)


def _change(folder: Path, values: dict[str, str]) -> None:
    """Version 1 has no state in which memory without swap is bounded higher than both together: what was refused for
    that is tried again when the other is done."""
    refused: dict[str, OSError] = {}
    for name, text in (*values.items(), *values.items()):
        try:
            (folder / name).write_text(text)
            refused.pop(name, None)
        except FileNotFoundError:
            continue  # this kernel does not count that (swap)
        except OSError as error:
            refused[name] = error
    for name, why in refused.items():
        raise Retry(f"cannot set {folder / name} to {values[name]}: {why.strerror}") from why


def _put(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except FileNotFoundError:
        return  # this kernel does not count that (swap, pages that are set aside)
    except OSError as error:
        log.warning("cannot set %s to %s: %s", path, text, error.strerror)
