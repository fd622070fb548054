"""The table is a log: one row for each change, its number the revision. Plain functions on a connection, in SQL.

`UNIQUE (key, prev)` says that each row has at most one successor of its key, so no update can be lost even if the code
that looks first were wrong. AUTOINCREMENT never gives out a number twice, even when the newest rows are gone. Along
one key `prev` only grows, so the same index finds the newest row of a key.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final

import msgspec

from pykubelet.apiserver.store.port import (
    AlreadyExists,
    Entry,
    Event,
    Expired,
    Future,
    Listing,
    Stale,
    prefix_end,
)
from pykubelet.base.errors import NotFound

SCHEMA: Final = """
CREATE TABLE log (
  revision INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL,
  prev INTEGER NOT NULL,     -- the row before of the same key; 0: it is the first
  created INTEGER NOT NULL,  -- the revision that made the key; 0: this one
  deleted INTEGER NOT NULL,
  value BLOB NOT NULL,
  UNIQUE (key, prev)
);
CREATE TABLE forgotten (
  compacted INTEGER NOT NULL,  -- what came before is no longer told
  swept INTEGER NOT NULL       -- up to here, rows that nobody needs are gone
);
INSERT INTO forgotten VALUES (0, 0);
INSERT INTO sqlite_sequence VALUES ('log', 1);  -- FIRST_REVISION
"""
_NEWEST: Final = "SELECT revision, created, deleted, value FROM log WHERE key = ? ORDER BY prev DESC LIMIT 1"
_APPEND: Final = "INSERT INTO log (key, prev, created, deleted, value) VALUES (?, ?, ?, ?, ?)"
_CURRENT: Final = """
FROM (
  SELECT MAX(revision) AS newest FROM log
  WHERE key >= ? AND key < ? AND revision <= ? GROUP BY key ORDER BY key
) CROSS JOIN log ON log.revision = newest WHERE NOT deleted
"""
_HISTORY: Final = """
SELECT log.revision, log.key, log.created, log.deleted, log.value, before.deleted, before.value
FROM log LEFT JOIN log AS before ON before.revision = log.prev
WHERE log.revision > ? AND log.revision <= ? AND log.key >= ? AND log.key < ?
ORDER BY log.revision LIMIT ?
"""


class Write(msgspec.Struct, frozen=True):
    """One change that somebody wants: `value` is None to delete, `revision` None to create."""

    key: str
    value: bytes | None
    revision: int | None


def revision_of(db: sqlite3.Connection) -> int:
    row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'log'").fetchone()
    return int(row[0])


def compacted_revision(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT compacted FROM forgotten").fetchone()[0])


def apply(db: sqlite3.Connection, write: Write) -> Event:
    """Append it to the log; AlreadyExists, Stale or NotFound when it does not fit there."""
    row = db.execute(_NEWEST, (write.key,)).fetchone()
    at, made, deleted, value = row or (0, 0, 1, b"")
    created = 0 if deleted else made or at
    if write.revision is None:
        if not deleted:
            raise AlreadyExists(Entry(write.key, value, at, created))
    elif deleted:
        raise NotFound(f"{write.key} does not exist")
    elif at != write.revision:
        raise Stale(Entry(write.key, value, at, created), write.revision)
    gone = write.value is None
    cursor = db.execute(_APPEND, (write.key, at, created, gone, write.value or b""))
    revision = int(cursor.lastrowid or 0)
    previous = None if deleted else value
    return Event("delete" if gone else "put", write.key, write.value or b"", previous, revision, created or revision)


def get(db: sqlite3.Connection, key: str) -> Entry | None:
    row = db.execute(_NEWEST, (key,)).fetchone()
    if row is None or row[2]:
        return None
    revision, created, _, value = row
    return Entry(key, value, revision, created or revision)


def listing(db: sqlite3.Connection, prefix: str, limit: int, start_key: str, revision: int) -> Listing:
    """Called within a transaction, so that all of it is of one moment."""
    newest = revision_of(db)
    if revision > newest:
        raise Future(f"the store is at revision {newest}, and has not come to {revision} yet")
    if revision and revision < compacted_revision(db):
        raise Expired(f"revision {revision} is forgotten: list again")
    at, end = revision or newest, _end(prefix)
    columns = "SELECT key, value, log.revision, created"
    span = (max(prefix, start_key), end, at)
    rows = db.execute(f"{columns} {_CURRENT} LIMIT ?", (*span, limit + 1 if limit else -1)).fetchall()
    entries = tuple(Entry(key, value, number, made or number) for key, value, number, made in rows)
    if not limit or len(entries) <= limit:
        return Listing(entries, at)
    rest = (entries[-1].key, end, at)
    remaining = db.execute(f"SELECT COUNT(*) {_CURRENT}", rest).fetchone()[0]
    return Listing(entries[:limit], at, more=True, remaining=remaining)


def history(db: sqlite3.Connection, prefix: str, after: int, up_to: int, limit: int) -> tuple[Sequence[Event], int]:
    """The oldest changes of that span, and how far they go. Called within a transaction."""
    if after < compacted_revision(db):
        raise Expired(f"the changes after revision {after} are forgotten: list again")
    rows = db.execute(_HISTORY, (after, up_to, prefix, _end(prefix), limit)).fetchall()
    events = [_event(*row) for row in rows]
    return events, events[-1].revision if len(events) == limit else up_to


def _event(
    revision: int, key: str, created: int, deleted: int, value: bytes, was_deleted: int | None, before: bytes | None
) -> Event:
    previous = None if was_deleted else before
    return Event("delete" if deleted else "put", key, value, previous, revision, created or revision)


def _end(prefix: str) -> str | bytes:
    return prefix_end(prefix) or b""  # for SQLite, every text comes before every blob


# --- forgetting


def begin_compaction(db: sqlite3.Connection, revision: int) -> None:
    """From here on nobody is told of what came before; `sweep` takes it away bit by bit."""
    newest = revision_of(db)
    if revision > newest:
        raise Future(f"the store is at revision {newest}, and has not come to {revision} yet")
    db.execute("UPDATE forgotten SET compacted = MAX(compacted, ?)", (revision,))


def sweep(db: sqlite3.Connection, rows: int) -> bool:
    """Take away what some rows have superseded, and those that are deletions. Whether there is more to do.

    In the order of the log: so a deletion goes only after all that came before it, and its key may begin anew.
    """
    compacted, swept = db.execute("SELECT compacted, swept FROM forgotten").fetchone()
    if swept >= compacted:
        return False
    span = "SELECT revision, prev, deleted FROM log WHERE revision > ? AND revision <= ? ORDER BY revision LIMIT ?"
    found = db.execute(span, (swept, compacted, rows)).fetchall()
    gone = {prev for _, prev, _ in found if prev} | {revision for revision, _, deleted in found if deleted}
    db.executemany("DELETE FROM log WHERE revision = ?", [(revision,) for revision in sorted(gone)])
    reached = found[-1][0] if len(found) == rows else compacted
    db.execute("UPDATE forgotten SET swept = ?", (reached,))
    return bool(reached < compacted)


def touch(db: sqlite3.Connection) -> None:
    """Write something that changes nothing."""
    db.execute("UPDATE forgotten SET swept = swept")
