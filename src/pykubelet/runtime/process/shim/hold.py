"""A sandbox's process: it does nothing but keep the namespaces that the pod's containers share."""

from __future__ import annotations

import os

from . import files, kernel, namespaces
from .files import say
from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .spec import SandboxSpec

_SLEEPERS = ("/usr/bin/sleep", "/bin/sleep")
_FOR_EVER = "2147483647"


def enter(spec: SandboxSpec) -> None:
    """Before the fork whose child holds the sandbox."""
    kinds = spec["namespaces"]
    if "user" in kinds:
        namespaces.new_user_namespace()
    kernel.unshare(*(kind for kind in kinds if kind != "user"))
    if "uts" in kinds and spec["hostname"]:
        kernel.set_hostname(spec["hostname"])


def hold(spec: SandboxSpec, report: int) -> NoReturn:
    """A sleeping `sleep` is a fifth of a Python. But the first process of a pid namespace has to reap."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    files.write_once(spec["folder"] + "/run.json", {"holder": files.identity(), "namespaces": spec["namespaces"]})
    say(report, "started", {})
    os.close(report)
    if "pid" not in spec["namespaces"]:
        for path in _SLEEPERS:
            if os.access(path, os.X_OK):
                os.execve(path, ["sleep", _FOR_EVER], {})  # noqa: S606 - no shell is wanted
    kernel.set_name("pk:sandbox")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    while True:
        _reap()
        signal.sigwait([signal.SIGCHLD])


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return
