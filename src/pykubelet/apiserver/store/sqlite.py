"""The store of a single machine: one SQLite file. What was acknowledged is on the disk, whatever happens next.

One thread writes (`sqlite_writer`), two others read, each on a connection of its own, and neither waits for the other.
"""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from pykubelet.apiserver.store import sqlite_log
from pykubelet.apiserver.store.followers import Followers
from pykubelet.apiserver.store.port import Bookmark, Entry, Event, Listing, check_key
from pykubelet.apiserver.store.sqlite_file import StoreFile
from pykubelet.apiserver.store.sqlite_log import Write
from pykubelet.apiserver.store.sqlite_writer import History, Writer
from pykubelet.base.errors import Retry

T = TypeVar("T")

_READERS: Final = 2
_PAGE_OF_HISTORY: Final = 500


class SqliteStore:
    """Made by `open`. Belongs to the event loop in which that was called."""

    progress_on_request = True

    def __init__(self, file: StoreFile, db: sqlite3.Connection, revision: int, history: History) -> None:
        self._file = file
        self._db = db
        self._followers = Followers(revision, self._older)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="store-reader")
        self._of_thread = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._is_closed = False
        self._writer = Writer(db, file.path, history=history, published=self._followers.publish)

    @classmethod
    async def open(cls, path: Path, *, history: History | None = None) -> "SqliteStore":
        """Invalid when the file is somebody else's, of another kind, or of a newer version than this."""

        def prepare() -> tuple[StoreFile, sqlite3.Connection, int]:
            file = StoreFile(path)
            try:
                db = file.connect()
                return file, db, sqlite_log.revision_of(db)
            except BaseException:
                file.close()
                raise

        file, db, revision = await asyncio.to_thread(prepare)
        return cls(file, db, revision, history or History())

    @property
    def newest(self) -> int | None:
        """Nobody else writes, and a write is published before it is acknowledged."""
        return None if self._is_closed else self._followers.revision

    async def get(self, key: str) -> Entry | None:
        return await self._read(lambda db: sqlite_log.get(db, key))

    async def list(self, prefix: str, *, limit: int = 0, start_key: str = "", revision: int = 0) -> Listing:
        return await self._read(lambda db: sqlite_log.listing(db, prefix, limit, start_key, revision))

    async def create(self, key: str, value: bytes) -> int:
        check_key(key)
        return (await self._writer.write(Write(key, value, None))).revision

    async def update(self, key: str, value: bytes, *, revision: int) -> int:
        return (await self._writer.write(Write(key, value, revision))).revision

    async def delete(self, key: str, *, revision: int) -> Entry:
        event = await self._writer.write(Write(key, None, revision))
        return Entry(key, event.previous or b"", event.revision, event.created)

    def watch(self, prefix: str, *, since: int) -> AsyncGenerator[Event | Bookmark, None]:
        return self._followers.follow(prefix, since)

    def request_progress(self) -> None:
        """It is always told."""

    async def revision(self) -> int:
        self._check_open()
        return self._followers.revision

    async def compact(self, revision: int) -> None:
        await self._writer.compact(revision)

    async def healthy(self) -> bool:
        try:
            await self._read(sqlite_log.revision_of)
        except Retry:
            return False
        return not self._writer.trouble

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._followers.close()
        await self._writer.close()
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        self._readers.shutdown()
        for db in (*self._connections, self._db):
            db.close()
        self._file.close()

    async def _older(self, prefix: str, after: int, up_to: int) -> tuple[Sequence[Event], int]:
        return await self._read(lambda db: sqlite_log.history(db, prefix, after, up_to, _PAGE_OF_HISTORY))

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._in_moment, work)

    def _in_moment(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """In a reader's thread: all that is read is of one moment."""
        try:
            db: sqlite3.Connection | None = getattr(self._of_thread, "db", None)
            if db is None:
                db = self._of_thread.db = self._file.connect(readonly=True)
                self._connections.append(db)
            db.execute("BEGIN")
            try:
                return work(db)
            finally:
                db.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise Retry(f"the store {self._file.path} cannot be read: {error}") from None

    def _check_open(self) -> None:
        if self._is_closed:
            raise Retry("the store is closed")
