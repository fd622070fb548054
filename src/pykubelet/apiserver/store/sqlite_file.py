"""The file of the SQLite store: whose it is, who may read it, and what it says about itself."""

import errno
import fcntl
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from pykubelet.apiserver.store import sqlite_log
from pykubelet.base.errors import Invalid, Retry

VERSION: Final = 1
_APPLICATION: Final = 0x70796B75
_BUSY_MS: Final = 10_000
_PAGE: Final = 16_384
"""Objects are some KB: in smaller pages most would be spread over several."""
_CHECKPOINT_PAGES: Final = 1_000
_FULL: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
_WAL_LIMIT: Final = 64 * 1024 * 1024


class StoreFile:
    """Held by this process alone, until it is closed. Everything here blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(path.with_name(f"{path.name}.lock"), path)
        except OSError as error:
            raise Invalid(f"the store {path} cannot be opened: {error.strerror}") from None
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def connect(self, *, readonly: bool = False) -> sqlite3.Connection:
        """Transactions are begun and ended by hand. One thread at a time may use it."""
        db = sqlite3.connect(self.path, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        db.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")
        if readonly:
            db.execute("PRAGMA query_only = ON")
        return db

    def close(self) -> None:
        os.close(self._lock)

    def _prepare(self) -> None:
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self.path.chmod(0o600)  # those beside it, -wal and -shm, are made with the same
            db = self.connect()
        except OSError as error:
            raise Invalid(f"the store {self.path} cannot be opened: {error.strerror}") from None
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from None
        try:
            self._introduce(db)
        except sqlite3.DatabaseError as error:
            raise self._unusable(error) from None
        finally:
            db.close()
        _sync_folder(self.path.parent)

    def _introduce(self, db: sqlite3.Connection) -> None:
        application = db.execute("PRAGMA application_id").fetchone()[0]
        version = db.execute("PRAGMA user_version").fetchone()[0]
        is_empty = not db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if not is_empty and application != _APPLICATION:
            raise Invalid(f"{self.path} is a database of another program: name another file for the store")
        if version > VERSION:
            raise Invalid(
                f"the store {self.path} was written by a newer version (layout {version}, known is {VERSION}): "
                "run that version, or name another file"
            )
        if is_empty:
            db.execute(f"PRAGMA page_size = {_PAGE}")
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("PRAGMA journal_mode = WAL")
            marks = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {VERSION};"
            db.executescript(f"BEGIN IMMEDIATE; {sqlite_log.SCHEMA} {marks} COMMIT;")
        if db.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise Invalid(
                f"the store {self.path} is on a disk that cannot keep SQLite's log: name a file on a local one"
            )

    def _unusable(self, error: sqlite3.DatabaseError) -> Exception:
        if is_full(error):
            return Retry(unwritable(self.path, error))
        return Invalid(f"{self.path} cannot be used as a store: {error}; restore it, or name another file")


def is_full(error: sqlite3.Error) -> bool:
    """Whether the disk did not take or give what it should; an ill-formed file or statement is something else."""
    code: int = getattr(error, "sqlite_errorcode", 0) or 0
    return code & 0xFF in _FULL


def unwritable(path: Path, error: sqlite3.Error) -> str:
    """One sentence for who wanted to write."""
    room = ""
    with suppress(OSError):
        free = os.statvfs(path.parent)
        room = f"; {free.f_bavail * free.f_frsize // 1024} KiB are free there"
    if is_full(error):
        return f"nothing can be written to the store {path}: {error}{room}; make room on its disk"
    return f"nothing can be written to the store {path}: {error}"


def _lock(path: Path, store: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        os.close(descriptor)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        whose = f"process {holder}" if holder else "another process"
        raise Invalid(f"the store {store} is in use by {whose}: end that, or name another file") from None
    with suppress(OSError):  # on a full disk the lock holds without its holder's name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
