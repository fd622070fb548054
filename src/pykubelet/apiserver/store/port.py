"""What the API server needs from a store, as a contract. Every implementation passes the same suite of tests.

A store is one history: each change gets the next revision, and a revision is the resourceVersion of an object. Values
are bytes that nobody here looks into. Keys are upstream's, such as `/registry/pods/default/web`, in the order of their
UTF-8.
"""

from collections.abc import AsyncGenerator
from typing import Any, Final, Literal, Protocol

import msgspec

from pykubelet.base.errors import Conflict, Invalid, Retry

FIRST_REVISION: Final = 1
"""Of a store in which nothing was ever written, as in etcd: clients take revision 0 for `any`."""


class Entry(msgspec.Struct, frozen=True):
    """One key and what it holds."""

    key: str
    value: bytes
    revision: int
    """Of its last change."""
    created: int
    """The revision that made it."""
    cache: dict[str, Any] = msgspec.field(default_factory=dict)
    """Where readers may keep what they made of the value, so that it is made once: no part of the entry itself."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and _plain(self) == _plain(other)

    def __hash__(self) -> int:
        return hash((self.key, self.revision))


class Listing(msgspec.Struct, frozen=True):
    """The entries of one moment, in the order of their keys."""

    entries: tuple[Entry, ...]
    revision: int
    """That moment: a watch since then misses nothing."""
    more: bool = False
    remaining: int = 0
    """How many entries come after these."""

    @property
    def next_key(self) -> str:
        """Where the next page starts: the first key that could come after the last one here."""
        return f"{self.entries[-1].key}\0" if self.more else ""


class Event(msgspec.Struct, frozen=True):
    """One change. A `put` whose revision is its `created` made the key; a `delete` has an empty value."""

    kind: Literal["put", "delete"]
    key: str
    value: bytes
    previous: bytes | None
    """The value before; None: there was none, or the store has already forgotten it."""
    revision: int
    created: int
    """0: of a deleted key whose beginning the store has forgotten."""
    cache: dict[str, Any] = msgspec.field(default_factory=dict)
    """Where readers may keep what they made of the event, so that a thousand share one encoding."""

    @property
    def is_new(self) -> bool:
        return self.kind == "put" and self.revision == self.created

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and _plain(self) == _plain(other)

    def __hash__(self) -> int:
        return hash((self.key, self.revision))


class Bookmark(msgspec.Struct, frozen=True):
    """Every change up to this revision has been told."""

    revision: int


class AlreadyExists(Conflict):
    """The key is taken. `entry` is what it holds."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(f"{entry.key} already exists")
        self.entry = entry


class Stale(Conflict):
    """The key has changed since that revision. `entry` is what it holds now: decide again from that."""

    def __init__(self, entry: Entry, revision: int) -> None:
        super().__init__(f"{entry.key} was changed: it is at revision {entry.revision}, no longer at {revision}")
        self.entry = entry


class Expired(Conflict):
    """This part of the history is forgotten: list again. Clients see it as 410 Gone."""


class Future(Invalid):
    """The store has not come to this revision yet."""


class Lost(Retry):
    """There was no answer: what was asked for may have been done, or may still be."""


class TooSlow(Retry):
    """The watcher did not take its events in time, and was let go: watch again from the last revision seen."""


class Store(Protocol):
    """Keys and their history. Raises base.errors, and Retry for whatever may get better by itself."""

    @property
    def progress_on_request(self) -> bool:
        """Whether `request_progress` can be relied on."""
        ...

    @property
    def newest(self) -> int | None:
        """The same as `revision`, where that is known without asking anybody; None: it is not."""
        ...

    async def get(self, key: str) -> Entry | None:
        """What the key holds: never older than the last write that was acknowledged before."""
        ...

    async def list(self, prefix: str, *, limit: int = 0, start_key: str = "", revision: int = 0) -> Listing:
        """The entries below a prefix, from `start_key` on, at most `limit` of them if that is not 0.

        With `revision`, exactly as they were then: Expired when that is forgotten, Future when it is yet to come. Pages
        that are continued with the first page's revision and the last one's `next_key` are of one moment.
        """
        ...

    async def create(self, key: str, value: bytes) -> int:
        """The revision of the new key. AlreadyExists when there is one."""
        ...

    async def update(self, key: str, value: bytes, *, revision: int) -> int:
        """The revision of the change. Stale unless the key is still at `revision`; NotFound when it is gone."""
        ...

    async def delete(self, key: str, *, revision: int) -> Entry:
        """What the key held last, with the revision of the deletion. Stale and NotFound as for `update`."""
        ...

    def watch(self, prefix: str, *, since: int) -> AsyncGenerator[Event | Bookmark, None]:
        """Every change below a prefix after the revision `since`: in order, none left out, none twice.

        From time to time, and soon after `request_progress`, a bookmark tells how far it has come. Endless;
        Expired when the changes after `since` are no longer known.
        """
        ...

    def request_progress(self) -> None:
        """Have every watch that is open tell a bookmark soon."""
        ...

    async def revision(self) -> int:
        """Of the last change of all, never older than the last write that was acknowledged before."""
        ...

    async def compact(self, revision: int) -> None:
        """Forget what came before this revision; what was current then stays. Future when that is yet to come."""
        ...

    async def healthy(self) -> bool:
        """Whether the store can be read and written, as far as can be told without writing. Never raises."""
        ...

    async def close(self) -> None:
        """Let go of everything. Watches end with Retry, and so does whatever is asked later."""
        ...


def prefix_end(prefix: str) -> str:
    """The first key after all that begin with the prefix; empty: there is none."""
    for place in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[place]) + 1
        if code == 0xD800:  # the codes up to here cannot be written as UTF-8
            code = 0xE000
        if code < 0x110000:
            return prefix[:place] + chr(code)
    return ""


def check_key(key: str) -> None:
    if not key or "\0" in key:
        raise Invalid(f"{key!r} cannot be a key of the store: it has to be some text without a zero byte")


def _plain(value: Entry | Event) -> tuple[Any, ...]:
    return msgspec.structs.astuple(value)[:-1]
