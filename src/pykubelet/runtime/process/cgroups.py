"""Limits on memory and processor time, where this machine lets us set them: cgroup v2 as root or delegated, or v1. And
rules for devices, which only root can set."""

import contextlib
import logging
import os
import secrets
import signal
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.pod.container.cgroup import FEWEST_SHARES, PERIOD, weight_of
from pykubelet.pod.ports.runtime import Limits
from pykubelet.runtime.process import devices

log = logging.getLogger(__name__)

_OURS: Final = "pykubelet"
_WANTED: Final = ("memory", "cpu")
_DEVICES: Final = "devices"
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

    def __init__(self, mountinfo: str = "/proc/self/mountinfo", membership: str = "/proc/self/cgroup") -> None:
        self.unified: Path | None = None
        self.legacy: dict[str, Path] = {}
        self.refusal = ""
        """Why there are no limits; empty: there are."""
        self.device_rules = False
        try:
            self._find(Path(mountinfo).read_text(), Path(membership).read_text())
        except OSError as error:
            self.refusal = str(error)

    def place(self, name: str, parent: str, limits: Limits, *, all_devices: bool = False) -> Placement:
        """Make a container's groups, and set its limits and rules. Raises OSError."""
        if self.unified is not None:
            folder = self._below(self.unified, parent) / name
            folder.mkdir(parents=True, exist_ok=True)
            _enable(folder.parent)
            _set_unified(folder, limits)
            if self.device_rules and not all_devices:
                devices.restrict(folder)
            return Placement(folders=(str(folder),), oom_events=str(folder / "memory.events"))
        folders = {}
        for controller, mount in self.legacy.items():
            folders[controller] = folder = self._below(mount, parent) / name
            folder.mkdir(parents=True, exist_ok=True)
            _set_legacy(folder, controller, limits)
            if controller == _DEVICES and not all_devices:
                devices.restrict(folder)
        oom_events = f"{folders['memory']}/memory.oom_control" if "memory" in folders else ""
        return Placement(folders=tuple(map(str, folders.values())), oom_events=oom_events)

    def _below(self, mount: Path, parent: str) -> Path:
        inside = parent.strip("/")
        return mount / inside if inside and ".." not in inside.split("/") else mount / _OURS

    def _find(self, mounts: str, membership: str) -> None:
        legacy: dict[str, Path] = {}
        for line in mounts.splitlines():
            fields, _, rest = line.partition(" - ")
            kind, _, options = rest.split(maxsplit=2)
            mount = Path(fields.split()[4])
            if kind == "cgroup2":
                self._try_unified(mount, membership)
            elif kind == "cgroup":
                legacy |= {each: mount for each in options.split(",") if each in (*_WANTED, _DEVICES)}
        if self.unified is None:
            rules = legacy.pop(_DEVICES, None)
            self.legacy = {controller: mount for controller, mount in legacy.items() if self._can_make(mount)}
            if rules is not None and self._can_restrict(rules):
                self.legacy[_DEVICES], self.device_rules = rules, True
        if self.unified or set(self.legacy) - {_DEVICES}:
            self.refusal = ""
        else:
            self.refusal = self.refusal or "there is no cgroup that may be written to"

    def _try_unified(self, mount: Path, membership: str) -> None:
        """At the top as root; else below our own group, if that was delegated to us."""
        own = next((line[3:] for line in membership.splitlines() if line.startswith("0::")), "/")
        for base in (mount, mount / own.strip("/")):
            _enable(base)
            if self._can_make(base, _WANTED):
                self.unified = base
                self.device_rules = self._can_restrict(base)
                return

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

    def _can_make(self, mount: Path, controllers: tuple[str, ...] = ()) -> bool:
        probe = mount / f"{_OURS}-{secrets.token_hex(4)}"
        try:
            probe.mkdir()
        except OSError as error:
            self.refusal = f"{mount}: {error.strerror}"
            return False
        try:
            have = (probe / "cgroup.controllers").read_text().split() if controllers else []
            missing = [controller for controller in controllers if controller not in have]
            if missing:
                self.refusal = f"{mount} has no controller for {' and '.join(missing)}"
            return not missing
        except OSError:
            return False
        finally:
            probe.rmdir()


def kill(folders: tuple[str, ...]) -> None:
    """Whatever is left in a container's groups, for the day that nobody else knows it any more."""
    for folder in folders:
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            try:
                pids = Path(folder, "cgroup.procs").read_text().split()
            except OSError:
                break
            if not pids:
                break
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.005)


def remove(folders: tuple[str, ...]) -> None:
    """The dead leave a group a moment later than their parents hear of it."""
    for folder in folders:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                break
            except OSError as error:
                if time.monotonic() < until:
                    time.sleep(0.005)
                    continue
                log.warning("cannot remove the cgroup %s: %s", folder, error.strerror)
            break


def _enable(folder: Path) -> None:
    for controller in _WANTED:
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def _set_unified(folder: Path, limits: Limits) -> None:
    if limits.memory is not None:
        _put(folder / "memory.max", str(limits.memory))
        _put(folder / "memory.swap.max", "0")
        _put(folder / "memory.oom.group", "1")
    if limits.cpu_shares is not None:
        _put(folder / "cpu.weight", str(weight_of(limits.cpu_shares)))
    if limits.cpu_quota is not None and limits.cpu_quota > 0:
        _put(folder / "cpu.max", f"{limits.cpu_quota} {PERIOD}")


def _set_legacy(folder: Path, controller: str, limits: Limits) -> None:
    if controller == "memory" and limits.memory is not None:
        _put(folder / "memory.limit_in_bytes", str(limits.memory))
        _put(folder / "memory.memsw.limit_in_bytes", str(limits.memory))
    if controller == "cpu" and limits.cpu_shares is not None:
        _put(folder / "cpu.shares", str(max(FEWEST_SHARES, limits.cpu_shares)))
    if controller == "cpu" and limits.cpu_quota is not None and limits.cpu_quota > 0:
        _put(folder / "cpu.cfs_period_us", str(PERIOD))
        _put(folder / "cpu.cfs_quota_us", str(limits.cpu_quota))


def _put(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except FileNotFoundError:
        return  # this kernel does not count that (swap)
    except OSError as error:
        log.warning("cannot set %s to %s: %s", path, text, error.strerror)
