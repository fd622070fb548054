"""Who is connected, and who has to go when there are too many: nobody keeps others out by holding connections.

Whoever has not said who he is may be anybody, and many may come from one address: of such strangers there are never
more than a few from one address, and the longest there makes room for the next. Who is known is counted by name,
wherever he comes from, and is asked to leave only when he rests. What is under way, a watch or an exec, is never cut.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

_STRANGERS: Final = 4
"""One connection in so many may be a stranger's."""
_OF_ADDRESS: Final = 2
"""One stranger in so many may come from one address."""
_OF_NAME: Final = 2
"""One connection in so many may be of one who is known."""


class Guest:
    """One connection."""

    def __init__(self, address: str, leave: Callable[[], object]) -> None:
        """`leave` ends it, whatever it is doing."""
        self.address = address
        self.leave = leave
        self.protocol: RequestHandler | None = None
        self.is_inside = False
        """It has come further than TLS."""
        self.name = ""
        """Of who is known."""

    @property
    def is_resting(self) -> bool:
        """Between two requests, or before the first."""
        if not self.is_inside:
            return True
        waiter = getattr(self.protocol, "_waiter", None)
        return waiter is not None and not waiter.done()


Group = OrderedDict[Guest, None]
"""Who is to leave first comes first."""


class Guests:
    """`most` connections at a time. Who is not known after `patience` seconds, and says nothing, goes."""

    def __init__(self, most: int, patience: float) -> None:
        self._most = most
        self._patience = patience
        self._strangers = max(1, most // _STRANGERS)
        self._of_address = max(1, self._strangers // _OF_ADDRESS)
        self._of_name = max(1, most // _OF_NAME)
        self._by_address: dict[str, Group] = {}
        self._by_name: dict[str, Group] = {}
        self._by_protocol: dict[RequestHandler, Guest] = {}
        self._unknown = 0
        self._known = 0

    def __len__(self) -> int:
        return self._unknown + self._known

    def come(self, guest: Guest) -> bool:
        """A stranger comes, and another may have to go for him. -> whether he may stay"""
        if len(self._by_address.get(guest.address, ())) >= self._of_address:
            self._send_away_stranger(self._by_address[guest.address])
        elif self._unknown >= self._strangers:
            self._send_away_stranger(max(self._by_address.values(), key=len))
        elif len(self) >= self._most and not self._send_away_resting():
            return False
        self._by_address.setdefault(guest.address, Group())[guest] = None
        self._unknown += 1
        return True

    def seated(self, guest: Guest, protocol: RequestHandler) -> None:
        """What will speak HTTP with it."""
        guest.protocol = protocol
        self._by_protocol[protocol] = guest

    def left(self, guest: Guest) -> None:
        """It is over."""
        if guest.protocol is not None:
            self._by_protocol.pop(guest.protocol, None)
        if guest.name:
            self._known -= _removed(self._by_name, guest.name, guest)
        else:
            self._unknown -= _removed(self._by_address, guest.address, guest)

    def left_by(self, protocol: RequestHandler) -> None:
        if (guest := self._by_protocol.get(protocol)) is not None:
            self.left(guest)

    def recognised(self, protocol: RequestHandler, name: str) -> bool:
        """It is known now whose it is. -> whether he may have one more"""
        guest = self._by_protocol.get(protocol)
        if guest is None or guest.name == name:
            return True
        if len(self._by_name.get(name, ())) >= self._of_name and not self._send_away_resting(name):
            return False
        if not guest.name and self._known >= self._most - self._strangers and not self._send_away_resting():
            return False
        self.left(guest)
        guest.name = name
        self._by_protocol[protocol] = guest
        self._by_name.setdefault(name, Group())[guest] = None
        self._known += 1
        return True

    def turned_down(self, protocol: RequestHandler) -> None:
        """It could not say who it is: the first to go, whoever it was before."""
        guest = self._by_protocol.get(protocol)
        if guest is None:
            return
        if guest.name:
            self.left(guest)
            guest.name = ""
            self._by_protocol[protocol] = guest
            self._by_address.setdefault(guest.address, Group())[guest] = None
            self._unknown += 1
            self.look_again(guest)
        self._by_address[guest.address].move_to_end(guest, last=False)

    def look_again(self, guest: Guest) -> None:
        """Later requests of who is known are the library's own care; a stranger would rest as long as he likes."""
        asyncio.get_running_loop().call_later(self._patience, self._close_if_resting, guest)

    def _close_if_resting(self, guest: Guest) -> None:
        if guest.name or guest.protocol not in self._by_protocol:
            return
        if guest.is_resting:
            self._send_away(guest)
        else:
            self.look_again(guest)

    def _send_away(self, guest: Guest) -> None:
        self.left(guest)
        guest.leave()

    def _send_away_stranger(self, group: Group) -> None:
        """One who rests, if there is one; else the first, for all of them could pretend."""
        self._send_away(next((guest for guest in group if guest.is_resting), next(iter(group))))

    def _send_away_resting(self, name: str = "") -> bool:
        """One of those who are known, of the one who has most, but nobody who is in the middle of something."""
        groups = [self._by_name[name]] if name else sorted(self._by_name.values(), key=len, reverse=True)
        for group in groups:
            for guest in group:
                if guest.is_resting:
                    self._send_away(guest)
                    return True
        return False


def _removed(groups: dict[str, Group], key: str, guest: Guest) -> int:
    group = groups.get(key)
    if group is None or guest not in group:
        return 0
    del group[guest]
    if not group:
        del groups[key]
    return 1


GUESTS: Final = web.AppKey("guests", Guests)


def recognised(request: web.Request, name: str) -> bool:
    """To be called once it is known who asks. -> whether he may have this connection, besides those that he has"""
    guests = request.app.get(GUESTS)
    return guests is None or guests.recognised(request.protocol, name)


def turned_down(request: web.Request) -> None:
    """To be called when nobody knows who asks."""
    if (guests := request.app.get(GUESTS)) is not None:
        guests.turned_down(request.protocol)
