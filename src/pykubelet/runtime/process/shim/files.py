"""Who a process is, what runs below it, and facts written to disk so that they are there whole or not at all."""

from __future__ import annotations

import errno
import os
import time

from .light import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .spec import Identity


class CannotRun(Exception):
    """The program cannot be started; the text is for the pod's author."""


def identity(pid: int | str = "self") -> Identity:
    """The process as this machine's /proc shows it: its pid there is the one that the agent knows it by."""
    fields = stat_fields(pid)
    return {"pid": int(fields[0]), "start": int(fields[21]), "boot": boot_id()}


def stat_fields(pid: int | str) -> list[str]:
    """/proc/<pid>/stat, counted from 0. The name may hold anything, also spaces and parentheses."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        number, _, rest = file.read().partition(" (")
    name, _, others = rest.rpartition(") ")
    return [number, name, *others.split()]


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def is_same(known: Identity) -> bool:
    """Whether the process still is there, as itself."""
    try:
        return identity(known["pid"]) == known
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> dict[int, int]:
    """Everything that runs below a process: pid -> start time."""
    children: dict[int, list[int]] = {}
    starts: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = stat_fields(name)
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(fields[3]), []).append(int(name))
            starts[int(name)] = int(fields[21])
    found: dict[int, int] = {}
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        if child not in found:
            found[child] = starts[child]
            waiting += children.get(child, ())
    return found


def members(mounts: int) -> dict[int, int]:
    """Everything that runs in a mount namespace: pid -> start time. While we have it open, no other has its number."""
    number = os.fstat(mounts).st_ino
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}/ns/mnt").st_ino == number:
                    found[int(name)] = int(stat_fields(name)[21])
            except OSError:
                continue
    return found


def kill_descendants() -> None:
    """Everything that runs below us."""
    for pid, start in descendants(os.getpid()).items():
        kill(pid, start)


def kill(pid: int, start: int) -> None:
    """Through a handle: the pid may belong to somebody else by now."""
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            os.kill(pid, signal.SIGKILL)
        return
    try:
        if int(stat_fields(pid)[21]) == start:
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return
    finally:
        os.close(handle)


def take_streams(ends: list[int]) -> None:
    """As input, output and errors, instead of what those were."""
    for number, end in enumerate(ends):
        os.dup2(end, number)
    for end in set(ends):
        os.close(end)


def close_all_but(kept: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # it was the one that the list was read from


def say(report: int, what: str, facts: object) -> None:
    """A line to the agent, if it still listens."""
    try:
        os.write(report, json([what, facts]).encode("utf-8", "replace") + b"\n")
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EBADF):
            raise


def explain(error: BaseException) -> str:
    """One line for the pod's author."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    else:
        text = str(error) or type(error).__name__
    return text.replace("\n", " ")


def now() -> str:
    """RFC 3339 with nanoseconds."""
    moment = time.time_ns()
    seconds, nanoseconds = divmod(moment, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{nanoseconds:09d}Z"


def write_once(path: str, facts: Mapping[str, object]) -> None:
    """Write a file that must not be there yet: FileExistsError else."""
    partial = f"{path}.{os.getpid()}.partial"
    _write(partial, facts)
    try:
        os.link(partial, path)
    finally:
        os.unlink(partial)


def write_whole(path: str, facts: Mapping[str, object]) -> None:
    partial = f"{path}.{os.getpid()}.partial"
    _write(partial, facts)
    os.rename(partial, path)


def _write(path: str, facts: Mapping[str, object]) -> None:
    """Not synced: after a crash of the machine none of its processes is left, and a broken file means no more than
    that."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, json(facts).encode("utf-8", "replace"))
    finally:
        os.close(descriptor)


def json(value: object) -> str:
    """JSON of plain values. The module of that name costs more memory than all the rest of this."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json(str(key))}: {json(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(json(item) for item in value) + "]"
    if isinstance(value, str):
        escaped = "".join(c if c >= " " and c not in '"\\' else f"\\u{ord(c):04x}" for c in value)
        return f'"{escaped}"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, int) else json(str(value))
