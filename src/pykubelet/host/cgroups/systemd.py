"""Slices: systemd owns the control groups where it runs, so there it is asked to make, limit and end them.

It is asked with its own busctl. That is a process for each call, but the life of a pod has a handful of these, which a
library for D-Bus would not pay for; and busctl is wherever systemd is.
"""

import os
import re
import shutil
import subprocess
import time
from typing import Final

from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.cgroups.values import Property, limit_properties, slice_properties
from pykubelet.pod.container.cgroup import Group, GroupLimits, slice_name

RUNS: Final = "/run/systemd/system"
_SERVICE: Final = "org.freedesktop.systemd1"
_OBJECT: Final = "/org/freedesktop/systemd1"
_MANAGER: Final = "org.freedesktop.systemd1.Manager"
_SECONDS: Final = 30.0
_PAUSE: Final = 0.02


class Systemd:
    """All of it blocks. Raises Retry."""

    def __init__(self, *, unified: bool, busctl: str = "busctl", seconds: float = _SECONDS) -> None:
        self._unified = unified
        self._busctl = busctl
        self._seconds = seconds
        self._version: int | None = None

    def start(self, group: Group) -> None:
        """Make the slice, and wait until it is there. Harmless when it is."""
        unit = slice_name(group)
        if self._state(unit) == "active":
            return
        properties = slice_properties(f"pykubelet {unit}", slice_name(group[:-1]), unified=self._unified)
        arguments = [unit, "replace", *_flat(properties), "0"]
        try:
            self._call("StartTransientUnit", "ssa(sv)a(sa(sv))", *arguments)
        except Retry:
            if self._state(unit) != "active":  # else somebody else was faster
                raise
        self._wait(unit, "active")

    def limit(self, group: Group, limits: GroupLimits, cpus: str = "") -> None:
        properties = limit_properties(limits, unified=self._unified, version=self.version(), cpus=cpus)
        self._call("SetUnitProperties", "sba(sv)", slice_name(group), "true", *_flat(properties))

    def stop(self, group: Group) -> None:
        """End the slice and every unit in it. Harmless when it is gone."""
        unit = slice_name(group)
        state = self._state(unit)
        if state == "failed":
            self._call("ResetFailedUnit", "s", unit)
        elif state != "inactive":
            self._call("StopUnit", "ss", unit, "replace")
            self._wait(unit, "inactive", "failed")

    def version(self) -> int:
        """Of systemd, such as 252; asked for once."""
        if self._version is None:
            digits = re.search(r"\d+", self._property(_OBJECT, _MANAGER, "Version"))
            self._version = int(digits[0]) if digits else 0
        return self._version

    # --- inside

    def _wait(self, unit: str, *states: str) -> None:
        until = time.monotonic() + self._seconds
        while (state := self._state(unit)) not in states:
            if time.monotonic() > until:
                raise Retry(f"systemd leaves {unit} {state} for {self._seconds:g} seconds, instead of {states[0]}")
            time.sleep(_PAUSE)

    def _state(self, unit: str) -> str:
        """Of a unit that systemd has never heard of, too: inactive."""
        return self._property(f"{_OBJECT}/unit/{escaped(unit)}", f"{_SERVICE}.Unit", "ActiveState")

    def _property(self, path: str, interface: str, name: str) -> str:
        said = self._run("get-property", _SERVICE, path, interface, name)  # s "active"
        return said.strip().partition(" ")[2].strip('"')

    def _call(self, method: str, signature: str, *arguments: str) -> None:
        self._run("call", _SERVICE, _OBJECT, _MANAGER, method, signature, *arguments)

    def _run(self, *arguments: str) -> str:
        command = [self._busctl, "--system", "--", *arguments]
        what = " ".join(arguments[4:6] if arguments[0] == "get-property" else arguments[4:7:2])
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and names that were checked
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._seconds,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            raise Retry(f"systemd did not answer within {self._seconds:g} seconds: {what}") from None
        except OSError as error:
            raise Retry(f"{self._busctl} cannot be run: {error.strerror}") from error
        if done.returncode:
            raise Retry(f"systemd refused {what}: {done.stderr.strip()[:500]}")
        return done.stdout


def check_that_it_runs(busctl: str, runs: str = RUNS) -> None:
    """Raises Invalid."""
    if not os.path.isdir(runs):
        raise Invalid(f"cgroupDriver is systemd, but none runs here ({runs} is missing); set cgroupDriver: cgroupfs")
    if shutil.which(busctl) is None:
        raise Invalid(f"cgroupDriver is systemd, whose {busctl} is not installed")


def escaped(unit: str) -> str:
    """A unit's name as part of a D-Bus path."""
    return "".join(each if each.isascii() and each.isalnum() else f"_{ord(each):02x}" for each in unit)


def _flat(properties: list[Property]) -> list[str]:
    return [str(len(properties)), *(word for each in properties for word in each)]
