"""The last steps before a container's program runs: whose it is, what it may do, where it starts."""

from __future__ import annotations

import errno
import os
import stat

from . import kernel, namespaces, seccomp
from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .spec import ProgramSpec, UserSpec

_HIGHEST_CAPABILITY = 63
_IGNORED_BY_PYTHON = (13, 25)  # SIGPIPE, SIGXFSZ


class CannotRun(Exception):
    """The program cannot be started; the text is for the pod's author."""


def enter_cgroups(program: ProgramSpec) -> None:
    """Before anything of weight is done on the container's account."""
    for path in program["cgroups"]:
        with open(path, "w", encoding="ascii") as file:
            file.write("0")
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(program["oom_score_adj"]))
    except OSError:
        return  # only who may raise limits can lower it


def run(program: ProgramSpec, *, end_with_parent: bool) -> NoReturn:
    """Become the program. Whatever is in the way is raised."""
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    user, filter_ = program["user"], program["seccomp"]
    _drop_capabilities(program["capabilities"])
    if user is not None and user["mapped"]:
        namespaces.new_user_namespace(user["uid"], user["gid"])
    if filter_ is not None and not program["no_new_privileges"]:
        seccomp.install(filter_)  # while we may: its rules hold for what follows, too
    if user is not None and not user["mapped"]:
        _give_streams(user)
        _become(user)
    if program["no_new_privileges"]:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if end_with_parent:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, 9)
    _enter_folder(program["cwd"])
    path = _look_up(program["argv"][0], program["env"].get("PATH", ""))
    if filter_ is not None and program["no_new_privileges"]:
        seccomp.install(filter_)
    try:
        os.execve(path, program["argv"], program["env"])  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise CannotRun(f'exec: "{path}": {error.strerror}') from None


def _drop_capabilities(kept: list[int] | None) -> None:
    """From the bounding set: nothing that is executed later can have the others."""
    if kept is None:
        return
    for number in range(_HIGHEST_CAPABILITY + 1):
        if number not in kept:
            try:
                kernel.prctl(kernel.PR_CAPBSET_DROP, number)
            except OSError as error:
                if error.errno in (errno.EINVAL, errno.EPERM):
                    return  # the kernel knows no higher ones; or we have no more rights than we may give
                raise


def _give_streams(user: UserSpec) -> None:
    """Its pipes or its terminal are its own: else it could write to its output, but not open /dev/stdout."""
    for descriptor in (0, 1, 2):
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
            try:
                os.fchown(descriptor, user["uid"], -1)
            except OSError:
                continue  # whom it cannot belong to, it serves all the same


def _become(user: UserSpec) -> None:
    if user["groups"] is not None:
        os.setgroups(user["groups"])
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])


def _enter_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
        os.chdir(path)
    except OSError as error:
        raise CannotRun(f'working directory "{path}": {error.strerror}') from None


def _look_up(name: str, path: str) -> str:
    if "/" in name:
        if not os.path.exists(name):
            raise CannotRun(f'exec: "{name}": stat {name}: no such file or directory')
        return name
    for folder in path.split(":"):
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise CannotRun(f'exec: "{name}": executable file not found in $PATH')
