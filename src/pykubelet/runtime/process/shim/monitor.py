"""A container's parent: it starts the program, writes its log, reaps what it leaves behind, and notes how it ended.

It outlives the agent. With a pid namespace of the container's own it is the first process in there, so that all the
others die with it; else it is their subreaper, and finds them by walking down from itself. The agent tells it what to
do by signals: SIGTERM asks the program to stop, SIGUSR1 kills everything, SIGHUP opens the log anew.
"""

from __future__ import annotations

import os
import select

from . import files, handed, kernel, program, terminal
from .attached import Attached
from .light import signal, socket
from .logs import Log, Stream
from .root import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .spec import ContainerSpec

_HANDLED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGCHLD)
_CHUNK = 64 * 1024
START_ERROR = 128


def watch(spec: ContainerSpec, report: int) -> NoReturn:
    """Run the container to its end."""
    monitor = Monitor(spec)
    try:
        files.say(report, "pid", files.identity())
        failure = monitor.start()
        files.say(report, "failed" if failure else "started", {"message": failure})
        os.close(report)
        if not failure:
            monitor.follow()
        code = 0
    except FileExistsError:  # another monitor was faster: the container is its
        monitor.abandon()
        files.say(report, "failed", {"message": "it was started before"})
        code = 1
    except BaseException as error:  # the boundary: nobody above could tell
        monitor.abandon()
        message = f"the container's monitor failed: {type(error).__name__}: {error}"
        files.say(report, "failed", {"message": message})
        note_end(spec, START_ERROR, "StartError", message)
        code = 1
    os._exit(code)


def note_end(spec: ContainerSpec, code: int, reason: str, message: str = "") -> None:
    facts = {"exit_code": code, "reason": reason, "message": message, "finished_at": files.now()}
    files.write_whole(spec["folder"] + "/exit.json", facts)


class Monitor:
    def __init__(self, spec: ContainerSpec) -> None:
        self._spec = spec
        self._is_init = os.getpid() == 1
        self._main = 0
        self._status: int | None = None
        log = Log(spec["log"], size=spec["log_size"], files=spec["log_files"])
        self._log = log
        self._streams: dict[int, Stream] = {}
        self._open: set[int] = set()
        """Those of them that may still say something."""
        self._pipe_names: list[str] = []
        self._attached = Attached(spec["folder"], -1, -1)
        self._wake = -1

    # --- the beginning

    def start(self) -> str:
        """-> why the program cannot run; empty when it does."""
        kernel.set_name("pk:" + self._spec["name"])
        if not self._is_init:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        self._listen()
        inner, outer, program_input = _pipes(self._spec) if not self._spec["tty"] else _way_back()
        said, says = os.pipe()
        go, goes = os.pipe()
        self._main = os.fork()
        if self._main == 0:
            os.close(goes)  # else nobody could tell us by closing it that we are not wanted
            _become(self._spec, inner, says, go)
        for descriptor in (*inner, says, go):
            os.close(descriptor)
        if not self._spec["tty"]:
            self._take(outer, program_input, -1)
            self._pipe_names = [os.readlink(f"/proc/self/fd/{each}") for each in outer]
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # what is in the container has no business in here
        failure = self._let_go(said, goes, program_input)
        if failure:
            self.abandon()
            note_end(self._spec, START_ERROR, "StartError", failure)
        return failure

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._kill_all()
        self._reap_all()

    def _take(self, outer: list[int], program_input: int, program_terminal: int) -> None:
        self._streams = {each: Stream(name, self._log) for each, name in zip(outer, ("stdout", "stderr"), strict=False)}
        self._open = set(outer)
        self._attached = Attached(self._spec["folder"], program_input, program_terminal)

    def _let_go(self, said: int, goes: int, way_back: int) -> str:
        """The program's process says who it is when its root is built; once that is on disk it may go on."""
        first = _read_line(said)
        if not first.startswith("pid "):
            return first or "the process ended before the program could run"
        if self._spec["tty"]:  # it has sent that before it spoke
            connection = socket.socket(fileno=way_back)
            ours = (handed.receive(connection, 1) or [-1])[0]
            connection.close()
            self._take([ours], ours if self._spec["stdin"] else -1, ours)
        pid, start = first.split()[1:]
        main = {"pid": int(pid), "start": int(start), "boot": files.boot_id()}
        facts = {
            "monitor": files.identity(),
            "main": main,
            "own_pids": self._spec["own_pids"],
            "pipes": self._pipe_names,
            "started_at": files.now(),
        }
        files.write_once(self._spec["folder"] + "/run.json", facts)
        self._attached.listen()
        os.write(goes, b"!")
        os.close(goes)
        failure = _read_line(said)
        os.close(said)
        return failure

    def _listen(self) -> None:
        self._wake, waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in _HANDLED:
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    # --- the life

    def follow(self) -> None:
        while self._status is None:
            patience = self._attached.patience()
            wanted = self._attached.wanted()
            wanted[self._wake] = select.POLLIN
            readable = set() if self._attached.is_full else self._open
            for descriptor in readable:
                wanted[descriptor] = wanted.get(descriptor, 0) | select.POLLIN
            poll = select.poll()
            for descriptor, events in wanted.items():
                poll.register(descriptor, events)
            for descriptor, events in poll.poll(patience):
                if descriptor == self._wake:
                    self._heed(os.read(self._wake, 4096))
                    continue
                if descriptor in readable and events & ~select.POLLOUT and not self._pump(descriptor):
                    self._open.discard(descriptor)
                self._attached.heed(descriptor, events)
        self._finish()

    def _pump(self, descriptor: int) -> bool:
        """-> whether there may be more later."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False  # a terminal whose other end was closed
        if data:
            self._pass_on(descriptor, data)
        return bool(data)

    def _pass_on(self, descriptor: int, data: bytes) -> None:
        stream = self._streams[descriptor]
        stream.feed(data)
        self._attached.copy(stream.name, data)

    def _heed(self, numbers: bytes) -> None:
        if signal.SIGHUP in numbers:
            self._log.reopen()
        if signal.SIGTERM in numbers:
            os.kill(self._main, self._spec["stop_signal"])
        if signal.SIGUSR1 in numbers:
            self._kill_all()
        self._reap()

    # --- the end

    def _finish(self) -> None:
        """Only when nothing is left the container has ended; what it wrote is in the log before that is known."""
        self.abandon()
        for descriptor, stream in self._streams.items():
            self._drain(descriptor)
            stream.end()
        self._attached.end()
        status = self._status or 0
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        reason = "Completed" if code == 0 else "OOMKilled" if self._was_out_of_memory() else "Error"
        note_end(self._spec, code, reason)

    def _drain(self, descriptor: int) -> None:
        while True:
            try:
                data = os.read(descriptor, _CHUNK)
            except OSError:
                return
            if not data:
                return
            self._pass_on(descriptor, data)
            self._attached.wait()

    def _reap(self) -> bool:
        """-> whether there still are children."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._note(pid, status)

    def _reap_all(self) -> None:
        """A subreaper gets new children while it kills: so look again after each that has ended."""
        while self._reap():
            self._kill_all()
            try:
                self._note(*os.waitpid(-1, 0))
            except ChildProcessError:
                return

    def _note(self, pid: int, status: int) -> None:
        if pid == self._main:
            self._status = status

    def _kill_all(self) -> None:
        if self._is_init:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                return
            return
        files.kill_descendants()

    def _was_out_of_memory(self) -> bool:
        try:
            with open(self._spec["oom_events"], encoding="ascii") as file:
                counts = dict(line.split() for line in file)
        except (OSError, ValueError):
            return False
        return counts.get("oom_kill", "0") != "0"


def _pipes(spec: ContainerSpec) -> tuple[list[int], list[int], int]:
    """-> the program's three ends, ours of its outputs, and ours of its input, if it has any."""
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    os.set_blocking(out, False)
    os.set_blocking(err, False)
    if not spec["stdin"]:
        return [os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC), out_end, err_end], [out, err], -1
    stdin, program_input = os.pipe()  # our end stays open, so that reading waits for somebody to attach
    os.set_blocking(program_input, False)
    return [stdin, out_end, err_end], [out, err], program_input


def _way_back() -> tuple[list[int], list[int], int]:
    """The program's process makes its terminal when its root is there, and hands our end of it back along this."""
    ours, theirs = socket.socketpair()
    return [theirs.detach()], [], ours.detach()


def _read_line(descriptor: int) -> str:
    data = b""
    while not data.endswith(b"\n"):
        more = os.read(descriptor, 4096)
        if not more:
            break
        data += more
    return data.decode("utf-8", "replace").rstrip("\n")


def _become(spec: ContainerSpec, ends: list[int], says: int, go: int) -> NoReturn:
    """In the new process."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (*_HANDLED, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        me = files.identity()
        program.enter_cgroups(spec["program"])
        if spec["root"] is not None:
            root = Root(spec["root"])
            root.build()
            root.finish()
        if spec["tty"]:
            ends = terminal.take(ends[0])
        os.write(says, f"pid {me['pid']} {me['start']}\n".encode())
        if os.read(go, 1) != b"!":
            os._exit(START_ERROR)
        for position, end in enumerate(ends):
            os.dup2(end, position)
        program.run(spec["program"], end_with_parent=not spec["own_pids"])
    except BaseException as error:  # the boundary: this process must not go on as a copy of its parent
        os.write(says, files.explain(error).encode("utf-8", "replace") + b"\n")
    os._exit(START_ERROR)
