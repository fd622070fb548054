"""What this kernel lets us do, found out by doing it once."""

from __future__ import annotations

import os

from . import files, kernel, namespaces, places
from .kernel import MS_REC, MS_SLAVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def probe(folder: str, with_user_namespace: bool, report: int) -> NoReturn:
    """Try everything that a container needs, in the order in which it needs it."""
    try:
        if with_user_namespace:
            namespaces.new_user_namespace()
        kernel.unshare("uts", "ipc", "pid", "mnt")
        child = os.fork()
        if child == 0:
            _inside(folder, with_user_namespace, report)
        os.waitpid(child, 0)
    except OSError as error:
        files.say(report, "refused", {"message": files.explain(error)})
    os._exit(0)


def _inside(folder: str, with_user_namespace: bool, report: int) -> NoReturn:
    try:
        kernel.mount("none", "/", flags=MS_REC | MS_SLAVE)
        stage = folder + "/root"
        for path in (stage, folder + "/upper", folder + "/work"):
            os.mkdir(path)
        kernel.mount("tmpfs", stage, "tmpfs")
        for name in ("layer", "proc", "sys"):
            os.mkdir(f"{stage}/{name}")
        inside = os.open(stage, os.O_PATH | os.O_CLOEXEC)
        machine = os.open("/sys", os.O_PATH | os.O_CLOEXEC)
        places.put(places.copy(machine, kernel.MS_RDONLY), places.point(inside, "sys", folder=True))
        layers = (["/usr"], folder + "/upper", folder + "/work")
        overlay = _failure(lambda: kernel.overlay(stage + "/layer", *layers, user_attributes=with_user_namespace))
        proc = _failure(lambda: kernel.mount("proc", stage + "/proc", "proc"))
        kernel.pivot_root(stage)
        scope = _failure(kernel.scope_abstract_sockets)
        files.say(report, "allowed", {"overlay": overlay, "proc": proc, "scope": scope})
    except OSError as error:
        files.say(report, "refused", {"message": files.explain(error)})
    os._exit(0)


def _failure(attempt: Callable[[], None]) -> str:
    try:
        attempt()
    except OSError as error:
        return files.explain(error)
    return ""
