"""The agent's arm: one small process that forks all the others, so that none has to start a Python of its own.

It listens on a socket that the agent holds the other end of, and ends with the agent. What it has started goes on.
"""

from __future__ import annotations

import marshal
import os

from . import execute, files, handed, hold, kernel, monitor, probe
from .light import signal, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_MOST_DESCRIPTORS = 8


def main() -> None:
    """The socket is our standard input."""
    connection = socket.socket(fileno=os.dup(0))
    quiet = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(quiet, number)
    files.close_all_but({0, 1, 2, connection.fileno()})
    os.chdir("/")
    kernel.set_name("pk:spawner")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that nobody has to be waited for
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)  # nor by the machine's first process, which may be slow to do so
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection.send(b"!")
    while True:
        descriptors = handed.receive(connection, _MOST_DESCRIPTORS)
        if descriptors is None:
            return
        if os.fork() == 0:
            connection.close()
            _serve(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _serve(descriptors: list[int]) -> NoReturn:
    """In a new process: do what is asked, and never return."""
    question, report, *others = descriptors
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        verb, spec = _read(question)
        os.setsid()
        _VERBS[verb](spec, report, others)
    except BaseException as error:  # the boundary: this process must not go on as a copy of its parent
        files.say(report, "failed", {"message": files.explain(error)})
    os._exit(1)


def _read(descriptor: int) -> tuple[str, Any]:
    """A file in memory, because a message on a socket cannot be as long as an environment can."""
    with open(descriptor, "rb") as file:
        file.seek(0)
        verb, spec = marshal.loads(file.read())  # noqa: S302 - only the agent can write to it
    return verb, spec


def _sandbox(spec: Any, report: int, _: list[int]) -> None:
    hold.enter(spec)
    _leave_to_init()
    hold.hold(spec, report)


def _container(spec: Any, report: int, _: list[int]) -> None:
    _leave_to_init()
    monitor.watch(spec, report)


def _exec(spec: Any, report: int, others: list[int]) -> None:
    lifeline, *ends = others
    execute.execute(spec, report, lifeline, ends)


def _exec_terminal(spec: Any, report: int, others: list[int]) -> None:
    """With a terminal, our end of which is handed back along the socket."""
    lifeline, way_back = others
    execute.execute(spec, report, lifeline, [], way_back)


def _probe(spec: Any, report: int, _: list[int]) -> None:
    probe.probe(spec["folder"], spec["with_user_namespace"], report)


_VERBS = {
    "sandbox": _sandbox,
    "container": _container,
    "exec": _exec,
    "exec-terminal": _exec_terminal,
    "probe": _probe,
}


def _leave_to_init() -> None:
    """The second fork: the child has no parent that waits for it, and is in the new pid namespace if there is one."""
    if os.fork():
        os._exit(0)
