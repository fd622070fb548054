"""Running one more program in a container that runs already."""

from __future__ import annotations

import os
import select

from . import files, kernel, program, terminal
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
    sandbox_user = open_all(spec["holder"]["identity"], ["user"])["user"]
    if not files.is_same(spec["main"]):
        raise ProcessLookupError("the container's program is gone")
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    wake = _listen()
    for path in spec["program"]["cgroups"]:
        with open(path, "w", encoding="ascii") as file:
            file.write("0")
    if is_other(sandbox_user, "user"):
        kernel.setns(sandbox_user, "user")
    if is_other(handles["pid"], "pid"):
        kernel.setns(handles["pid"], "pid")
    said, says = os.pipe()
    child = os.fork()
    if child == 0:
        _become(spec, handles, ends or way_back, says)
    for descriptor in (says, *(ends or [way_back]), *handles.values()):
        os.close(descriptor)
    failure = os.read(said, 65536).decode("utf-8", "replace")
    if not failure:
        files.say(report, "started", {})
    status = _wait(child, wake, lifeline)
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
    while True:
        files.kill_descendants()
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _become(spec: ExecSpec, handles: dict[str, int], ends: list[int] | int, says: int) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the spawner ignores it; a terminal's user must not be ignored
        os.setsid()
        nested = is_other(handles["user"], "user")
        for kind in ("uts", "ipc", "mnt"):
            if is_other(handles[kind], kind):
                kernel.setns(handles[kind], kind)
        if isinstance(ends, int):
            ends = terminal.take(ends)
        if nested:
            kernel.setns(handles["user"], "user")
        for number, end in enumerate(ends):
            os.dup2(end, number)
        wanted = spec["program"]
        if nested:
            wanted["user"] = None  # the namespace already gives us the container's name
        program.run(wanted, end_with_parent=True)
    except BaseException as error:  # the boundary: this process must not go on as a copy of its parent
        os.write(says, files.explain(error).encode("utf-8", "replace"))
    os._exit(_CANNOT_RUN)
