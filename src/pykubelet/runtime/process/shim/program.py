"""The last steps before a container's program runs: whose it is, what it may do, where it starts."""

from __future__ import annotations

import errno
import os
import stat

from . import capabilities, kernel, namespaces, seccomp
from .files import CannotRun

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .spec import ProgramSpec, UserSpec


def set_oom_score(program: ProgramSpec) -> None:
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(program["oom_score_adj"]))
    except OSError:
        return  # only who may raise limits can lower it


def give_up(program: ProgramSpec, me: int = -1) -> None:
    """Be who the container's program is, and able to do what that may do: before anything is touched that the container
    has a say in. `me`: our folder in /proc, if the /proc that we see is that of others."""
    user = program["user"]
    if user is not None and user["mapped"]:
        namespaces.new_user_namespace(user["uid"], user["gid"], me)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    _renew_keyring()
    if program["scoped"]:
        kernel.scope_abstract_sockets()
    kept = capabilities.mask(program["capabilities"])
    capabilities.lower_bounds(kept)
    if program["seccomp"] is not None and not program["no_new_privileges"]:
        seccomp.install(program["seccomp"])  # while we may: its rules hold for what follows, too
    if user is not None and not user["mapped"]:
        _give_streams(user)
        _become(user)
    capabilities.keep(kept)
    if program["no_new_privileges"]:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)


def start(program: ProgramSpec, *, makes_folder: bool = False) -> NoReturn:
    """Become the program. Whatever is in the way is raised."""
    os.umask(0o022)
    for kind, most in program["limits"]:
        kernel.set_limit(kind, most)
    _enter_folder(program["cwd"], makes_it=makes_folder)
    path = _look_up(program["argv"][0], program["env"].get("PATH", ""))
    if program["seccomp"] is not None and program["no_new_privileges"]:
        seccomp.install(program["seccomp"])
    try:
        os.execve(path, program["argv"], program["env"])  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise CannotRun(f'exec: "{path}": {error.strerror}') from None


def _renew_keyring() -> None:
    """The one that we have is the agent's. Where the calls are forbidden to us, they are to the container."""
    try:
        kernel.new_session_keyring()
    except OSError as error:
        if error.errno == errno.EDQUOT:
            raise CannotRun(
                "this user has as many keys as the kernel allows: raise /proc/sys/kernel/keys/maxkeys"
            ) from None
        if error.errno not in (errno.ENOSYS, errno.EPERM):
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


def _enter_folder(path: str, *, makes_it: bool) -> None:
    """Links are followed, but not those of /proc, which lead anywhere."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if makes_it:
            os.makedirs(path, exist_ok=True)
        try:
            folder = kernel.open_inside(root, path, os.O_PATH | os.O_DIRECTORY)
            os.fchdir(folder)
            os.close(folder)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
            os.chdir(path)  # before Linux 5.6, where there are no roots of their own
        if not kernel.is_inside_root():
            raise CannotRun(f'working directory "{path}": it is outside of the container')
    except OSError as error:
        raise CannotRun(f'working directory "{path}": {os.strerror(error.errno or 0)}') from None
    finally:
        os.close(root)


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
