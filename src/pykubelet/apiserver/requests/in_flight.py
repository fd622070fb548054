"""How much may be under way at a time: requests that read, that write, that last, and the bytes of their bodies.

One user has no more than a part of each, so that the others find room; the owner of the cluster and its nodes find some
when all others have filled theirs, though no node so much that the others find none. Who is one too many is told to
come back.
"""

from typing import Final

import msgspec

from pykubelet.apiserver.requests.users import MASTERS, NODES, User
from pykubelet.apiserver.status import ApiError

_SMALL: Final = 64 << 10
_AFTER: Final = 1
_NODES_PART: Final = 4
"""One in so many may be one node's."""


class Room(msgspec.Struct, frozen=True):
    """For so many at a time, of which one user may have a part, and all but the trusted together another."""

    most: int
    of_user: int
    of_others: int


def _room(most: int) -> Room:
    return Room(most, most // 2, most * 3 // 4)


READING: Final = "reading"
WRITING: Final = "writing"
LASTING: Final = "lasting"
_BYTES: Final = "bytes"
ROOMS: Final = {
    READING: _room(400),
    WRITING: _room(200),
    LASTING: Room(most=8192, of_user=2048, of_others=6144),
    _BYTES: _room(64 << 20),
}
"""The first two as upstream has them."""


class InFlight:
    def __init__(self, rooms: dict[str, Room] = ROOMS) -> None:
        self._rooms = rooms
        self._all = dict.fromkeys(rooms, 0)
        self._others = dict.fromkeys(rooms, 0)
        self._of_user: dict[tuple[str, str], int] = {}

    def under_way(self) -> dict[str, int]:
        """As upstream names them."""
        return {"readOnly": self._all[READING], "mutating": self._all[WRITING]}

    def enter(self, user: User, kind: str, size: int = 0) -> "Stay":
        """For one request, with a body of so many bytes, until the end of a `with` block. Raises 429."""
        is_owner = MASTERS in user.groups
        is_trusted = is_owner or NODES in user.groups
        if (
            is_trusted
            and not is_owner
            and self._of_user.get((user.name, kind), 0) >= self._rooms[kind].most // _NODES_PART
        ):
            raise _too_many()
        self._take(user.name, kind, 1, is_trusted)
        if size <= _SMALL:
            return Stay(self, user.name, kind, 0, is_trusted)
        try:
            self._take(user.name, _BYTES, size, is_trusted)
        except ApiError:
            self._give(user.name, kind, 1, is_trusted)
            raise
        return Stay(self, user.name, kind, size, is_trusted)

    def leave(self, who: str, kind: str, size: int, is_trusted: bool) -> None:
        self._give(who, kind, 1, is_trusted)
        if size:
            self._give(who, _BYTES, size, is_trusted)

    def _take(self, who: str, kind: str, amount: int, is_trusted: bool) -> None:
        room, key = self._rooms[kind], (who, kind)
        mine = self._of_user.get(key, 0) + amount
        is_full = self._all[kind] + amount > room.most
        if not is_trusted:
            is_full = is_full or mine > room.of_user or self._others[kind] + amount > room.of_others
        if is_full:
            raise _too_many()
        self._of_user[key] = mine
        self._all[kind] += amount
        self._others[kind] += 0 if is_trusted else amount

    def _give(self, who: str, kind: str, amount: int, is_trusted: bool) -> None:
        key = who, kind
        self._of_user[key] -= amount
        if not self._of_user[key]:
            del self._of_user[key]
        self._all[kind] -= amount
        self._others[kind] -= 0 if is_trusted else amount


def _too_many() -> ApiError:
    message = "too many requests are under way, please try again later"
    details = {"retryAfterSeconds": _AFTER}
    return ApiError(429, "TooManyRequests", message, details, {"Retry-After": str(_AFTER)})


class Stay:
    """What one request takes, given back at the end of the block."""

    __slots__ = ("_room", "_what")

    def __init__(self, room: InFlight, who: str, kind: str, size: int, is_trusted: bool) -> None:
        self._room = room
        self._what = who, kind, size, is_trusted

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._room.leave(*self._what)
