"""A sandbox's process: it does nothing but keep the namespaces that the pod's containers share."""

from __future__ import annotations

import os

from . import capabilities, files, kernel, namespaces
from .files import say
from .kernel import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_PRIVATE, MS_RDONLY, MS_REC, MS_REMOUNT
from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .spec import SandboxSpec

_SLEEPERS = ("/usr/bin/sleep", "/bin/sleep")
_FOR_EVER = "2147483647"
_SAFE = MS_NOSUID | MS_NODEV | MS_NOEXEC


def enter(spec: SandboxSpec) -> None:
    """Before the fork whose child holds the sandbox."""
    kinds = spec["namespaces"]
    if "user" in kinds:
        namespaces.new_user_namespace()
    kernel.unshare(*(kind for kind in kinds if kind != "user"))
    if "uts" in kinds and spec["hostname"]:
        kernel.set_hostname(spec["hostname"])


def hold(spec: SandboxSpec, report: int) -> NoReturn:
    """A sleeping `sleep` is a fifth of a Python. But the first process of a pid namespace is seen by the containers in
    there: that one has to have nothing, not even a root with a `sleep` in it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)  # children of who ignores their end need not be waited for
    files.write_once(spec["folder"] + "/run.json", {"holder": files.identity(), "namespaces": spec["namespaces"]})
    if "pid" in spec["namespaces"]:
        files.close_all_but({0, 1, 2, report})
        _leave_for_an_empty_root(spec["folder"])
        capabilities.lower_bounds(0)
        capabilities.keep(0)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.set_name("pk:sandbox")
        if "user" not in spec["namespaces"]:  # else only root could open its namespaces, which an ordinary agent is not
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    say(report, "started", {})
    os.close(report)
    if "pid" not in spec["namespaces"]:
        for path in _SLEEPERS:
            if os.access(path, os.X_OK):
                os.execve(path, ["sleep", _FOR_EVER], {})  # noqa: S606 - no shell is wanted
        kernel.set_name("pk:sandbox")
    while True:
        signal.pause()


def _leave_for_an_empty_root(folder: str) -> None:
    """But for a /proc of its pid namespace: containers take theirs from here, so that none of what makes them has to
    come in for it."""
    kernel.unshare("mnt")
    kernel.mount("none", "/", flags=MS_REC | MS_PRIVATE)
    kernel.mount("tmpfs", folder, "tmpfs", _SAFE, "mode=755,size=4k")
    os.mkdir(folder + "/proc", 0o555)
    try:
        kernel.mount("proc", folder + "/proc", "proc", _SAFE)
    except PermissionError:
        os.chmod(folder + "/proc", 0)  # they see this machine's, then
    kernel.mount("none", folder, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | _SAFE)
    old_root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    kernel.pivot_root(folder)
    os.fchdir(old_root)
    kernel.unmount(".")
    os.chdir("/")
    os.close(old_root)
