"""The one thread that writes to the SQLite store.

While one transaction is on its way to the disk, further writes gather, and the next transaction takes them all: so the
wait for the disk is shared by as many as there are. Between transactions it forgets old history, a bit at a time.
"""

import asyncio
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pykubelet.apiserver.store import sqlite_log
from pykubelet.apiserver.store.port import Event
from pykubelet.apiserver.store.sqlite_file import unwritable
from pykubelet.apiserver.store.sqlite_log import Write
from pykubelet.base.errors import PykubeletError, Retry

_LARGEST_BATCH: Final = 512
_SWEPT_AT_ONCE: Final = 250
_VACUUMED_AT_ONCE: Final = 256
_SPARE_PAGES: Final = 1_000


class History(msgspec.Struct, frozen=True):
    """How much of the past is kept: both so long and so many."""

    seconds: float = 300.0
    revisions: int = 1_000
    look_every: float = 30.0


class _Compact(msgspec.Struct, frozen=True):
    revision: int


_Wish = tuple[Write | _Compact, "asyncio.Future[Event | None]"]
_Said = tuple["asyncio.Future[Event | None]", Event | Exception | None]
_STOP: Final = None


class Writer:
    """Made and used in the event loop; `published` is called there, in the order of the log."""

    def __init__(
        self,
        db: sqlite3.Connection,
        path: Path,
        *,
        history: History,
        published: Callable[[Sequence[Event]], None],
    ) -> None:
        self._db = db
        self._path = path
        self._history = history
        self._published = published
        self._loop = asyncio.get_running_loop()
        self._wishes: queue.SimpleQueue[_Wish | None] = queue.SimpleQueue()
        self._compacting: list[asyncio.Future[Event | None]] = []
        self._marks: deque[tuple[float, int]] = deque()
        self._looked = -1e9
        self._is_sweeping = True  # the last process may not have come to its end
        self._is_closed = False
        self.trouble = ""
        """Why the last write failed; empty: it did not."""
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    # --- in the event loop

    async def write(self, write: Write) -> Event:
        event = await self._ask(write)
        assert event is not None
        return event

    async def compact(self, revision: int) -> None:
        await self._ask(_Compact(revision))

    async def close(self) -> None:
        """What was asked before is still done."""
        self._is_closed = True
        self._wishes.put(_STOP)
        await asyncio.to_thread(self._thread.join)

    async def _ask(self, wish: Write | _Compact) -> Event | None:
        if self._is_closed:
            raise Retry("the store is closed")
        answer: asyncio.Future[Event | None] = self._loop.create_future()
        self._wishes.put((wish, answer))
        return await answer

    def _tell(self, answers: Sequence[_Said]) -> None:
        events = [said for _, said in answers if isinstance(said, Event)]
        if events:
            self._published(events)
        for answer, said in answers:
            if answer.done():  # who asked was cancelled; what was asked is done all the same
                continue
            if isinstance(said, Exception):
                answer.set_exception(said)
            else:
                answer.set_result(said)

    # --- in the thread

    def _run(self) -> None:
        going = True
        while going:
            batch, going = self._gather()
            writes = [(wish, answer) for wish, answer in batch if isinstance(wish, Write)]
            if writes:
                self._commit(writes)
            for wish, answer in batch:
                if isinstance(wish, _Compact):
                    self._begin(wish.revision, answer)
            self._keep_house()
        self._post([(answer, Retry("the store is closed")) for answer in self._compacting])

    def _gather(self) -> tuple[list[_Wish], bool]:
        """Everything that was asked for by now; it waits for something unless there is housekeeping to do."""
        batch: list[_Wish] = []
        try:
            wish = self._wishes.get(timeout=0 if self._is_sweeping else self._history.look_every)
            while wish is not _STOP:
                batch.append(wish)
                if len(batch) == _LARGEST_BATCH:
                    return batch, True
                wish = self._wishes.get_nowait()
        except queue.Empty:
            return batch, True
        return batch, False

    def _commit(self, wishes: Sequence[tuple[Write, "asyncio.Future[Event | None]"]]) -> None:
        answers: list[_Said] = []

        def append_all() -> None:
            for write, answer in wishes:
                try:
                    answers.append((answer, sqlite_log.apply(self._db, write)))
                except PykubeletError as error:
                    answers.append((answer, error))

        failure = self._transact(append_all)
        if failure is not None:
            answers = [(answer, Retry(str(failure))) for _, answer in wishes]
        self._post(answers)

    def _transact(self, work: Callable[[], None]) -> Exception | None:
        """All of it or nothing. What kept it from being done, as the caller should hear it."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            work()
            self._db.execute("COMMIT")
        except PykubeletError as error:
            self._roll_back()
            return error
        except Exception as error:  # the boundary: whatever happens to one transaction, the thread goes on
            self._roll_back()
            self.trouble = unwritable(self._path, error) if isinstance(error, sqlite3.Error) else repr(error)
            return Retry(self.trouble)
        self.trouble = ""
        return None

    def _roll_back(self) -> None:
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error as error:
            self.trouble = unwritable(self._path, error)

    def _post(self, answers: Sequence[_Said]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._tell, answers)
        except RuntimeError:
            self._is_closed = True  # the loop has ended, and with it everybody who could have asked

    # --- housekeeping

    def _begin(self, revision: int, answer: "asyncio.Future[Event | None] | None") -> None:
        failure = self._transact(lambda: sqlite_log.begin_compaction(self._db, revision))
        if failure is None:
            self._is_sweeping = True
            if answer is not None:
                self._compacting.append(answer)
        elif answer is not None:
            self._post([(answer, failure)])

    def _keep_house(self) -> None:
        if self._is_sweeping:
            self._sweep()
            return
        now = time.monotonic()
        if now - self._looked < self._history.look_every:
            return
        self._looked = now
        if self.trouble:
            self._transact(lambda: sqlite_log.touch(self._db))  # nobody may dare to write before it is known to work
        try:
            revision = sqlite_log.revision_of(self._db)
            compacted = sqlite_log.compacted_revision(self._db)
        except sqlite3.Error as error:
            self.trouble = unwritable(self._path, error)
            return
        self._marks.append((now, revision))
        while len(self._marks) > 1 and self._marks[1][0] <= now - self._history.seconds:
            self._marks.popleft()
        at, old = self._marks[0]
        target = min(old, revision - self._history.revisions)
        if at <= now - self._history.seconds and target > compacted:
            self._begin(target, None)

    def _sweep(self) -> None:
        more = False

        def work() -> None:
            nonlocal more
            more = sqlite_log.sweep(self._db, _SWEPT_AT_ONCE)

        failure = self._transact(work)
        self._is_sweeping = failure is None and (more or self._shrink())
        if not more:
            waiting, self._compacting = self._compacting, []
            self._post([(answer, failure) for answer in waiting])

    def _shrink(self) -> bool:
        """Give pages back to the disk when a good part of the file is unused. Whether there is more to give."""
        try:
            spare = self._db.execute("PRAGMA freelist_count").fetchone()[0]
            pages = self._db.execute("PRAGMA page_count").fetchone()[0]
            if spare <= max(_SPARE_PAGES, pages // 4):
                return False
            self._db.execute(f"PRAGMA incremental_vacuum({_VACUUMED_AT_ONCE})").fetchall()
        except sqlite3.Error as error:
            self.trouble = unwritable(self._path, error)
            return False
        return True
