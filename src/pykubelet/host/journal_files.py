"""The journal on disk: what was noted of each pod, for days and within a size, also of pods that are gone.

Lines of JSON in segments, the oldest of which go first. Written in groups by a thread, so that nobody waits for a disk;
what a killed agent was in the middle of is one torn line, which readers pass over.
"""

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from pykubelet.base.journal import About, Noted, Rule
from pykubelet.host.threads import in_thread
from pykubelet.pod import moments as m

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

TOTAL: Final = 64 << 20
_SEGMENTS: Final = 16
_GROUP: Final = 0.5
"""Seconds for which moments are gathered before they are written."""
_MOST_WAITING: Final = 20_000
"""Moments that may wait for a disk that does not take them."""
_BURST: Final = 1000
_REFILL: Final = 10.0
"""What one pod may write: so many moments at once, and then one in so many seconds. A pod that crashes for a week must
not push out what was noted of the others."""
_AGAIN: Final = 60.0
"""Seconds after which a moment that says what was said before is written again."""
_MOST_KEPT: Final = 4096
_SUFFIX: Final = ".jsonl"


class _Line(msgspec.Struct, frozen=True):
    t: datetime
    m: m.Moment
    u: str = ""
    s: str = ""
    n: str = ""


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Line)


class JournalFiles:
    """`read` is a reader of the journal; `run` writes what it has seen, until cancelled, and `flush` the rest."""

    def __init__(self, folder: Path, rule: Callable[[m.Moment], Rule], *, total: int = TOTAL) -> None:
        self.folder = folder
        self._rule = rule
        self._total = total
        self._waiting: list[m.Noted] = []
        self._is_there = asyncio.Event()
        self._turn = asyncio.Lock()
        """Groups are written one after the other, whoever asks."""
        self._said: OrderedDict[tuple[str, Hashable], tuple[Hashable, datetime]] = OrderedDict()
        self._budgets: OrderedDict[str, tuple[float, datetime]] = OrderedDict()
        self._number = 0
        self._size = 0
        self._complaint = ""

    def read(self, noted: m.Noted) -> None:
        if not self._is_news(noted) or len(self._waiting) >= _MOST_WAITING:
            return
        self._waiting.append(noted)
        self._is_there.set()

    def _is_news(self, noted: m.Noted) -> bool:
        rule, uid = self._rule(noted.moment), noted.about.uid
        if not rule.keep or rule.opens:
            return False
        if rule.about is not None:
            key = uid, rule.about
            before = self._said.get(key)
            if before and before[0] == rule.says and (noted.at - before[1]).total_seconds() < _AGAIN:
                return False
            _remember(self._said, key, (rule.says, noted.at))
        left, at = self._budgets.get(uid, (float(_BURST), noted.at))
        left = min(float(_BURST), left + max(0.0, (noted.at - at).total_seconds()) / _REFILL)
        _remember(self._budgets, uid, (max(0.0, left - 1), noted.at))
        if rule.ends:
            self._forget(uid)
        return left >= 1

    def _forget(self, uid: str) -> None:
        """Of a pod that is gone nothing is said again."""
        self._budgets.pop(uid, None)
        for key in [key for key in self._said if key[0] == uid]:
            del self._said[key]

    async def run(self) -> None:
        while True:
            await self._is_there.wait()
            await asyncio.sleep(_GROUP)
            await self._write_waiting()

    async def flush(self) -> None:
        """What is noted up to now is on disk after this."""
        await self._write_waiting()

    async def history(
        self, *, namespace: str = "", name: str = "", uid: str = "", kinds: Sequence[type[m.Moment]] = ()
    ) -> list[m.Noted]:
        """What was noted of the pods that are meant, up to now (`read_journal`)."""
        await self.flush()
        return await in_thread(read_journal, self.folder, namespace=namespace, name=name, uid=uid, kinds=kinds)

    async def _write_waiting(self) -> None:
        async with self._turn:
            group, self._waiting = self._waiting, []
            self._is_there.clear()
            if not group:
                return
            try:
                await in_thread(self._write, group)
            except OSError as error:
                self._number = 0  # who knows what is in the segment now: the next group looks
                if str(error) != self._complaint:
                    log.warning("the journal cannot be written to %s: %s; pods do not need it", self.folder, error)
                self._complaint = str(error)
            else:
                self._complaint = ""

    # --- in a thread

    def _write(self, group: list[m.Noted]) -> None:
        data = b"".join(map(_written, group))
        if not self._number:
            self._resume()
        if self._size and self._size + len(data) > self._total // _SEGMENTS:
            self._number, self._size = self._number + 1, 0
            self._make_room()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self._path(self._number), flags, 0o600)
        try:
            os.fchmod(file, 0o600)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)
        self._size += len(data)

    def _resume(self) -> None:
        """Go on where an agent of before was, after its last whole line."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = segments(self.folder)
        self._number = int(there[-1].stem) if there else 1
        path = self._path(self._number)
        self._size = path.stat().st_size if there else 0
        if self._size:
            with path.open("r+b") as file:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")  # the torn line is passed over, and the next one is whole
        self._make_room()

    def _make_room(self) -> None:
        there = segments(self.folder)
        for old in there[: max(0, len(there) - _SEGMENTS + 1)]:
            old.unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:08}{_SUFFIX}"


def _remember(of: "OrderedDict[K, V]", key: K, value: V) -> None:
    """And forget what was not heard of for longest: a month brings many pods."""
    of[key] = value
    of.move_to_end(key)
    if len(of) > _MOST_KEPT:
        of.popitem(last=False)


def _written(noted: m.Noted) -> bytes:
    uid, namespace, name = noted.about
    return _ENCODER.encode(_Line(noted.at, _without_secrets(noted.moment), uid, namespace, name)) + b"\n"


def _without_secrets(moment: m.Moment) -> m.Moment:
    """What a hook or a command in a container has answered may hold anything: it is not for the disk."""
    match moment:
        case m.HookFailed() if moment.message:
            return msgspec.structs.replace(moment, message="")
        case m.StartFailed(reason="PostStartHookError"):
            return msgspec.structs.replace(moment, message="")
        case m.RuntimeCalled(method=method) if method.startswith("Exec"):
            return msgspec.structs.replace(moment, error="failed")
        case _:
            return moment


# --- reading


def segments(folder: Path) -> list[Path]:
    """The oldest first."""
    return sorted(path for path in folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal())


def read_journal(
    folder: Path, *, namespace: str = "", name: str = "", uid: str = "", kinds: Sequence[type[m.Moment]] = ()
) -> list[m.Noted]:
    """What was noted of the pods that are meant, the oldest first; of everything, when none is named; of these kinds,
    when some are. What cannot be read is passed over."""
    tags = [msgspec.json.encode(each.__name__) for each in kinds]
    needle = msgspec.json.encode(uid or name)
    return [
        noted
        for line in _lines(folder)
        if needle in line or not (uid or name)
        if not tags or any(tag in line for tag in tags)
        if (noted := _noted(line)) is not None
        if noted.about.uid == uid or not uid
        if noted.about.name == name or not name
        if noted.about.namespace == namespace or not namespace
    ]


def _lines(folder: Path) -> Iterator[bytes]:
    for path in segments(folder):
        try:
            with path.open("rb") as file:
                yield from file
        except OSError:
            continue  # it was removed just now, being the oldest


def _noted(line: bytes) -> m.Noted | None:
    try:
        read = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return Noted(read.t, About(read.u, read.s, read.n), read.m)
