"""A container's parent: it starts the program, writes its log, reaps what it leaves behind, and notes how it ended.

It outlives the agent, and stays outside of the container: with a pid namespace of the container's own the program is
the first process in there, and all the others die with it. Else the monitor is their subreaper, and finds them by
walking down from itself. The agent tells it what to do by signals: SIGTERM asks the program to stop, SIGUSR1 kills
everything, SIGHUP opens the log anew.
"""

from __future__ import annotations

import os
import select
import time

from . import files, handed, kernel, namespaces, program, terminal
from .attached import Attached
from .birth import Birth
from .files import CannotRun
from .light import signal, socket
from .logs import Log, Stream
from .root import Root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .spec import ContainerSpec, ProgramSpec

_HANDLED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGCHLD)
_CHUNK = 64 * 1024
START_ERROR = 128
_PAUSE = 0.002


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


def note_end(spec: ContainerSpec, code: int, reason: str, message: str = "", peak: int = 0) -> None:
    facts = {"exit_code": code, "reason": reason, "message": message, "finished_at": files.now(), "peak": peak}
    files.write_whole(spec["folder"] + "/exit.json", facts)


class Monitor:
    def __init__(self, spec: ContainerSpec) -> None:
        self._spec = spec
        self._shares_pids = "pid" in spec["holder"]["namespaces"] or spec["target"] is not None
        self._main = 0
        self._mounts = -1
        """The mount namespace of a container that shares its pid namespace."""
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
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        self._listen()
        inner, outer, way_in = _pipes(self._spec) if not self._spec["tty"] else _way_back()
        birth = Birth()
        if birth.start(inner):
            _become(self._spec, inner, birth)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # other people's containers have no business in here
        if not self._spec["tty"]:
            self._take(outer, way_in, -1)
            self._pipe_names = [os.readlink(f"/proc/self/fd/{each}") for each in outer]
        failure = self._let_go(birth, way_in)
        if failure:
            self.abandon()
            note_end(self._spec, START_ERROR, "StartError", failure)
        return failure

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._kill_all()
        self._reap_all()
        while self._mounts >= 0 and files.members(self._mounts):
            self._kill_all()
            time.sleep(_PAUSE)

    def _take(self, outer: list[int], program_input: int, program_terminal: int) -> None:
        self._streams = {each: Stream(name, self._log) for each, name in zip(outer, ("stdout", "stderr"), strict=False)}
        self._open = set(outer)
        self._attached = Attached(self._spec["folder"], program_input, program_terminal)

    def _let_go(self, birth: Birth, way_back: int) -> str:
        """Once it is on disk who the program's process is, it may go on."""
        try:
            birth.place(self._spec["program"]["cgroups"])
            self._main = birth.child()
        except (CannotRun, OSError) as error:
            return files.explain(error)
        if self._spec["tty"]:
            connection = socket.socket(fileno=way_back)
            ours = (handed.receive(connection, 1) or [-1])[0]  # -1: it has failed, and will say why
            connection.close()
            if ours >= 0:
                self._take([ours], ours if self._spec["stdin"] else -1, ours)
        facts = {
            "monitor": files.identity(),
            "main": files.identity(self._main),
            "own_pids": self._spec["own_pids"],
            "pipes": self._pipe_names,
            "started_at": files.now(),
        }
        files.write_once(self._spec["folder"] + "/run.json", facts)
        self._attached.listen()
        self._hold_mounts()
        failure = birth.let_go()
        self._hold_mounts()
        return failure

    def _hold_mounts(self) -> None:
        """Root may at once; an ordinary user's monitor when the program runs, which is not ours any more."""
        if self._shares_pids and self._mounts < 0:
            try:
                self._mounts = os.open(f"/proc/{self._main}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return

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
            readable = [] if self._attached.is_full else [each for each in self._streams if each in self._open]
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
        note_end(self._spec, code, reason, peak=self._peak() if reason == "OOMKilled" else 0)

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
        """In a pid namespace of its own all of it ends with the program. In one that it shares those whose parent has
        ended belong to the sandbox: but they have the container's files."""
        if self._main and self._status is None:
            os.kill(self._main, signal.SIGKILL)
        if not (self._main and self._spec["own_pids"]):
            files.kill_descendants()
        if self._mounts >= 0:
            for pid, start in files.members(self._mounts).items():
                files.kill(pid, start)

    def _was_out_of_memory(self) -> bool:
        try:
            with open(self._spec["oom_events"], encoding="ascii") as file:
                counts = dict(line.split() for line in file)
        except (OSError, ValueError):
            return False
        return counts.get("oom_kill", "0") != "0"

    def _peak(self) -> int:
        """The most memory that it had; 0: this kernel does not tell."""
        for name in ("memory.peak", "memory.max_usage_in_bytes"):
            try:
                with open(f"{os.path.dirname(self._spec['oom_events'])}/{name}", encoding="ascii") as file:
                    return int(file.read())
            except (OSError, ValueError):
                continue
        return 0


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


def _become(spec: ContainerSpec, ends: list[int], birth: Birth) -> NoReturn:
    """In the new process."""
    try:
        wanted = spec["program"]
        program.set_oom_score(wanted)
        if not spec["tty"]:
            files.take_streams(ends)
        target = namespaces.open_all(spec["target"], ["pid", "mnt"]) if spec["target"] is not None else {}
        pids, proc = namespaces.join_sandbox(spec["holder"])
        if spec["target"] is not None:
            pids, proc = namespaces.join_target(spec["target"], target)
        me = os.open("/proc/self", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        root = Root(spec["root"], wanted["cwd"]) if spec["root"] is not None else None
        if root is not None:
            root.build()
        if pids >= 0:
            kernel.setns(pids, "pid")
            os.close(pids)
        elif spec["own_pids"]:
            kernel.unshare("pid")
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        is_alone = pids < 0 or (spec["root"] is not None and spec["root"]["fresh_proc"] and proc < 0)
        if not is_alone:  # others are there already: they see nobody but the program that it becomes
            _complete(root, proc, wanted, me)
        os.close(me)
        birth.announce(forks=pids >= 0 or spec["own_pids"])
        os.setsid()
        if is_alone:
            _complete(root, -1, wanted, -1)
        if spec["tty"]:
            files.take_streams(terminal.take(ends[0]))
        birth.wait()
        program.start(wanted, makes_folder=root is None)
    except BaseException as error:  # the boundary: this process must not go on as a copy of its parent
        birth.fail(error, START_ERROR)


def _complete(root: Root | None, proc: int, wanted: ProgramSpec, me: int) -> None:
    if root is not None:
        root.finish(proc)
    program.give_up(wanted, me)
