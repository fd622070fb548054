"""Running one more program in a container that runs already."""

from __future__ import annotations

import os
import select

from . import files, kernel, program, terminal
from .birth import Birth
from .files import CannotRun
from .light import signal
from .namespaces import is_other, open_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .spec import ExecSpec

_CANNOT_RUN = 126


def execute(spec: ExecSpec, report: int, lifeline: int, ends: list[int], way_back: int = -1) -> NoReturn:
    """Until the program has ended, or nobody holds the other end of the lifeline any more: then it is killed.

    `ends` are its input and outputs. Without them it gets a terminal, our end of which goes along the `way_back`.
    """
    handles = open_all(spec["main"], ["user", "mnt", "pid", "uts", "ipc"])
    handles["sandbox"] = open_all(spec["holder"]["identity"], ["user"])["user"]
    if not files.is_same(spec["main"]):
        raise ProcessLookupError("the container's program is gone")
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    wake = _listen()
    birth = Birth()
    handed = ends or [way_back]
    if birth.start([*handed, *handles.values()]):
        _become(spec, handles, ends or way_back, birth)
    try:
        birth.place(spec["program"]["cgroups"])
        child = birth.child()
        failure = birth.let_go()
    except CannotRun as error:
        child, failure = 0, str(error)
    if not failure:
        files.say(report, "started", {})
    status = _wait(child, wake, lifeline) if child else _CANNOT_RUN << 8
    _end_descendants()
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    files.say(report, "failed" if failure else "ended", {"exit_code": code, "message": failure})
    os._exit(0)


def _listen() -> int:
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return wake


def _wait(child: int, wake: int, lifeline: int) -> int:
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    poll.register(lifeline, select.POLLIN)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        for descriptor, _ in poll.poll():
            if descriptor == wake:
                os.read(wake, 4096)
            else:
                files.kill_descendants()  # before their parent goes: in a pid namespace they would be lost to us
                _kill_group(child)
                _end_descendants()
                return signal.SIGKILL  # as waitpid would say it


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def _end_descendants() -> None:
    """What it left in the background: in a pid namespace that is the container's, and stays; else it is ours."""
    try:
        while True:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                files.kill_descendants()
                os.waitpid(-1, 0)
    except ChildProcessError:
        return


def _become(spec: ExecSpec, handles: dict[str, int], ends: list[int] | int, birth: Birth) -> NoReturn:
    """Nothing of what this machine lets us do is left when the container can see us."""
    try:
        wanted = spec["program"]
        program.set_oom_score(wanted)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        others = {kind for kind, handle in handles.items() if is_other(handle, "user" if kind == "sandbox" else kind)}
        is_nested = not os.path.sameopenfile(handles["user"], handles["sandbox"])
        for kind in ("sandbox", "uts", "ipc", "pid", "mnt"):
            if kind in others:
                kernel.setns(handles[kind], "user" if kind == "sandbox" else kind)
        if is_nested:
            kernel.setns(handles["user"], "user")
            wanted["user"] = None  # the namespace already gives us the container's name
        for handle in handles.values():
            os.close(handle)
        if not isinstance(ends, int):
            files.take_streams(ends)
        program.give_up(wanted)
        birth.announce(forks="pid" in others)
        os.setsid()
        if isinstance(ends, int):
            files.take_streams(terminal.take(ends))
        birth.wait()
        program.start(wanted)
    except BaseException as error:  # the boundary: this process must not go on as a copy of its parent
        birth.fail(error, _CANNOT_RUN)
