"""Whose turn it is: where more requests come at once than the loop can look at in a moment, each user has his turn, and
what keeps nodes alive comes first.

Everything runs on one loop: who sends a hundred requests at once would have the next one wait for all of them. So only
a few begin in each round of the loop, and the others wait for the next one. Nothing is held: who waits for a disk, a
webhook or a slow client is in nobody's way.
"""

import asyncio
from collections import deque
from typing import Final

from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import MASTERS, NODES, SERVICE_ACCOUNT_PREFIX, User

HEARTBEATS: Final = 0
SYSTEM: Final = 1
OTHERS: Final = 2
_LEVELS: Final = (HEARTBEATS, SYSTEM, OTHERS)
_COMPONENTS: Final = ("system:kube-controller-manager", "system:kube-scheduler")
_IN_A_ROW: Final = 4
"""Turns of those who come first, while others wait: then it is one of the others'."""
_AT_ONCE: Final = 8
"""In one round of the loop: some two or three milliseconds of work."""

Waiting = dict[str, deque[asyncio.Future[None]]]
"""By user; whose turn is next comes first."""


def level_of(user: User, info: RequestInfo) -> int:
    if NODES in user.groups:
        is_lease = info.resource == "leases" and info.namespace == "kube-node-lease"
        is_status = info.resource == "nodes" and info.subresource == "status"
        return HEARTBEATS if is_lease or is_status else SYSTEM
    is_system = (
        MASTERS in user.groups
        or user.name in _COMPONENTS
        or user.name.startswith(f"{SERVICE_ACCOUNT_PREFIX}kube-system:")
    )
    return SYSTEM if is_system else OTHERS


class FairTurns:
    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._at_once = at_once
        self._begun = 0
        """Since the last round that was looked at: in this one, or some of them before."""
        self._is_next_due = False
        self._waiting: tuple[Waiting, ...] = ({}, {}, {})
        self._count = 0
        self._in_a_row = 0

    async def turn(self, user: User, info: RequestInfo) -> None:
        """Return when it is this request's turn, which is at once unless many have come."""
        if self._begun < self._at_once and not self._count:
            self._begun += 1
            if self._begun > self._at_once // 2:  # a few are no crowd, and a round for each would cost as much as they
                self._have_next_round()
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[level_of(user, info)].setdefault(user.name, deque()).append(mine)
        self._count += 1
        await mine

    def _have_next_round(self) -> None:
        if not self._is_next_due:
            self._is_next_due = True
            asyncio.get_running_loop().call_soon(self._next_round)

    def _next_round(self) -> None:
        self._is_next_due, self._begun = False, 0
        while self._count and self._begun < self._at_once:
            first = self._first()
            if not first.done():  # who has gone in the meantime is passed over
                first.set_result(None)
                self._begun += 1
        if self._begun:
            self._have_next_round()

    def _first(self) -> asyncio.Future[None]:
        levels = [level for level in _LEVELS if self._waiting[level]]
        level = levels[-1] if self._in_a_row >= _IN_A_ROW else levels[0]
        self._in_a_row = self._in_a_row + 1 if level == levels[0] and len(levels) > 1 else 0
        waiting = self._waiting[level]
        who = next(iter(waiting))
        queue = waiting.pop(who)
        first = queue.popleft()
        if queue:
            waiting[who] = queue  # behind all others
        self._count -= 1
        return first
