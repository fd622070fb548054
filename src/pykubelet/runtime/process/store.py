"""What the runtime knows, on disk: a folder for each sandbox and each container, each fact in a file with one writer.

`state.json` is the agent's, written when the thing is made. `run.json` and `exit.json` are the shim's: that it runs,
and how it ended. The process that wrote `run.json` is alive, or what it says is history. What may be made of secrets,
a container's environment and command, is not among these: it is kept in memory, and gone with the machine.
"""

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from pykubelet.api.codec import DecodeError, decode, encode
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Retry
from pykubelet.base.removal import sweep
from pykubelet.pod.ports.runtime import ContainerConfig, Limits, SandboxConfig
from pykubelet.runtime.process.cgroups import Placement
from pykubelet.runtime.process.memory import memory_folder
from pykubelet.runtime.process.process import Identity, Process

log = logging.getLogger(__name__)
T = TypeVar("T")


class SandboxRecord(Struct, frozen=True, kw_only=True):
    id: str
    config: SandboxConfig
    created_at: datetime


class SandboxRun(Struct, frozen=True, kw_only=True):
    holder: Identity
    namespaces: tuple[str, ...] = ()


class ContainerRecord(Struct, frozen=True, kw_only=True):
    id: str
    sandbox_id: str
    config: ContainerConfig
    image_id: str
    image_ref: str = ""
    """By which the same image can be pulled again."""
    log: str
    created_at: datetime
    placement: Placement = Placement()
    is_whole: bool = True
    """Whether what was kept in memory is there: if not, nothing more can be started with it."""


class Private(Struct, frozen=True, kw_only=True):
    """What a container's configuration may have of secrets: values, and where they are put into its command."""

    env: tuple[tuple[str, str], ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


class ContainerRun(Struct, frozen=True, kw_only=True):
    monitor: Identity
    main: Identity
    own_pids: bool = False
    """Whether all of the container dies with its monitor."""
    pipes: tuple[str, ...] = ()
    """What its output goes to. Whoever holds one of them belongs to the container."""
    started_at: datetime


class ContainerEnd(Struct, frozen=True, kw_only=True):
    exit_code: int
    reason: str
    finished_at: datetime
    message: str = ""
    peak: int = 0
    """Bytes of memory, of one that was ended for want of more."""


class Store:
    """All of it blocks: it is called in threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.sandboxes = root / "sandboxes"
        self.containers = root / "containers"
        self.memory: Path | None = None
        """None: there is no such place, and what is private lies on disk with the rest."""

    def open(self) -> None:
        """Raises Invalid."""
        for folder in (self.sandboxes, self.containers):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in folder.glob(".gone-*"):
                remove_tree(path)
        self.memory = memory_folder(self._root)
        for path in self.memory.iterdir() if self.memory is not None else ():
            if not (self.containers / path.stem).is_dir():
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """What has ended needs its environment no more."""
        for path in self.memory.glob("*.json") if self.memory is not None else ():
            if (self.containers / path.stem / "exit.json").exists():
                path.unlink(missing_ok=True)
        if self.memory is not None:
            with suppress(OSError):  # containers go on, and theirs with them
                self.memory.rmdir()

    def read_sandboxes(self) -> Iterator[tuple[SandboxRecord, SandboxRun | None]]:
        for folder, record in self._read_all(self.sandboxes, SandboxRecord):
            yield record, read(folder / "run.json", SandboxRun)

    def read_containers(self) -> Iterator[tuple[ContainerRecord, ContainerRun | None, ContainerEnd | None]]:
        for folder, record in self._read_all(self.containers, ContainerRecord):
            private = read(self._private(record), Private) or self._taken_over(record)
            known = msgspec.structs.asdict(private) if private is not None else {}
            config = msgspec.structs.replace(record.config, **known)
            record = msgspec.structs.replace(record, config=config, is_whole=private is not None)
            yield record, read(folder / "run.json", ContainerRun), read(folder / "exit.json", ContainerEnd)

    def _taken_over(self, record: ContainerRecord) -> Private | None:
        """From an agent of before, which had it on disk."""
        private = _private_part(record)
        if private == Private():
            return None
        write(self._private(record), private)
        write(self.folder(record) / "state.json", _public(record))
        return private

    def add(self, record: SandboxRecord | ContainerRecord) -> Path:
        """-> its folder"""
        folder = self.folder(record)
        folder.mkdir(mode=0o700)
        if isinstance(record, ContainerRecord):
            write(self._private(record), _private_part(record))
            record = _public(record)
        write(folder / "state.json", record)
        return folder

    def renew(self, record: SandboxRecord, pod: Pod) -> SandboxRecord:
        """Of a pod that has got more containers since."""
        renewed = msgspec.structs.replace(record, config=msgspec.structs.replace(record.config, pod=pod))
        write(self.folder(renewed) / "state.json", renewed)
        return renewed

    def change(
        self, record: ContainerRecord, *, placement: Placement | None = None, limits: Limits | None = None
    ) -> ContainerRecord:
        config = record.config
        if limits is not None:
            config = msgspec.structs.replace(config, limits=config.limits.updated(limits))
        changed = msgspec.structs.replace(record, placement=placement or record.placement, config=config)
        write(self.folder(changed) / "state.json", _public(changed))
        return changed

    def folder(self, record: SandboxRecord | ContainerRecord) -> Path:
        return (self.sandboxes if isinstance(record, SandboxRecord) else self.containers) / record.id

    def remove(self, record: SandboxRecord | ContainerRecord) -> None:
        """Forget it at once, then take the files away: that may be broken off, and is done when next opened."""
        folder = self.folder(record)
        if isinstance(record, ContainerRecord):
            self._private(record).unlink(missing_ok=True)
        gone = folder.with_name(f".gone-{record.id}-{secrets.token_hex(4)}")
        try:
            folder.rename(gone)
        except FileNotFoundError:
            return
        remove_tree(gone)

    def _private(self, record: ContainerRecord) -> Path:
        return (self.memory / f"{record.id}.json") if self.memory is not None else self.folder(record) / "private.json"

    def _read_all(self, parent: Path, kind: type[T]) -> Iterator[tuple[Path, T]]:
        for folder in sorted(parent.iterdir()):
            path = folder / "state.json"
            try:
                record = decode(kind, path.read_bytes())
            except (FileNotFoundError, NotADirectoryError, DecodeError) as error:
                log.warning("%s holds nothing that can be used, it is removed: %s", folder, error)
                _end(folder)
                if self.memory is not None:
                    (self.memory / f"{folder.name}.json").unlink(missing_ok=True)
                remove_tree(folder)
            except OSError as error:  # it may be whole: the disk has to be mended first
                raise Retry(f"{path} cannot be read: {error.strerror}") from None
            else:
                yield folder, record


def _end(folder: Path) -> None:
    """What runs there nobody would know of: it must not go on beside what takes its place."""
    container, sandbox = read(folder / "run.json", ContainerRun), read(folder / "run.json", SandboxRun)
    known = (container.monitor, container.main) if container else (sandbox.holder,) if sandbox else ()
    for identity in known:
        process = Process.open(identity)
        if process is not None:
            process.kill_and_close()


def _private_part(record: ContainerRecord) -> Private:
    return Private(env=record.config.env, command=record.config.command, args=record.config.args)


def _public(record: ContainerRecord) -> ContainerRecord:
    """The sandbox has a record of its own."""
    config = msgspec.structs.replace(record.config, **msgspec.structs.asdict(Private()), sandbox=None)
    return msgspec.structs.replace(record, config=config)


def read(path: Path, kind: type[T]) -> T | None:
    """None also for what a crash of the machine has left half written."""
    try:
        return decode(kind, path.read_bytes())
    except (OSError, DecodeError):
        return None


def write(path: Path, value: object) -> None:
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(encode(value))
    partial.rename(path)


def remove_tree(path: Path) -> None:
    """Whatever programs have left in there."""
    try:
        sweep(str(path))
    except (OSError, Retry) as error:
        log.warning("cannot remove %s: %s", path, error)
