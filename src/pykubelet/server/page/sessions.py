"""Who may see the page by a word of the machine's own people: a one-time token becomes a session, once.

A session is a cookie and a key. Browsers send cookies to every port of a host, and a pod may serve on one of them: a
cookie alone shows the page's files, which say nothing of pods; all else takes the key, too, which no other origin can
read. Tokens, cookies and keys are kept as hashes, in memory alone: they are of this process and no other.
"""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from pykubelet.pod.ports.server import Identity

KEY_PREFIX: Final = "pykubelet-page."
"""By which a key is told from a bearer token, which would be shown to the API server."""
TOKEN_SECONDS: Final = 900.0
_IDLE_SECONDS: Final = 3600.0
_LONGEST_SECONDS: Final = 12 * 3600.0
_MOST_TOKENS: Final = 16
_MOST_SESSIONS: Final = 64
_BYTES: Final = 32


class Entry(Struct, frozen=True):
    """What a browser is given when it comes in."""

    cookie: str
    key: str


class _Session:
    def __init__(self, identity: Identity, key: bytes, until: float) -> None:
        self.identity = identity
        self.key = key
        self.until = until
        self.used = 0.0


class Sessions:
    """`now` is a clock that only goes forward."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tokens: OrderedDict[bytes, tuple[Identity, float, float]] = OrderedDict()
        """By hash: whose, until when, and how long a session of it lasts."""
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    def invite(self, identity: Identity, *, lasts: float = _LONGEST_SECONDS) -> str:
        """-> a token that lets one browser in, once and soon, for at most so many seconds."""
        token = secrets.token_urlsafe(_BYTES)
        self._tokens[_hash(token)] = identity, self._now() + TOKEN_SECONDS, lasts
        while len(self._tokens) > _MOST_TOKENS:
            self._tokens.popitem(last=False)
        return token

    def enter(self, token: str) -> Entry | None:
        """None: it was never given, it has been used, or it is too old."""
        identity, until, lasts = self._tokens.pop(_hash(token), (None, 0.0, 0.0))
        now = self._now()
        if identity is None or now >= until:
            return None
        cookie, key = secrets.token_urlsafe(_BYTES), KEY_PREFIX + secrets.token_urlsafe(_BYTES)
        session = self._sessions[_hash(cookie)] = _Session(identity, _hash(key), now + lasts)
        session.used = now
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return Entry(cookie, key)

    def whose(self, cookie: str, key: str | None) -> Identity | None:
        """None: nobody's. Without a key only that it is somebody's is known, which is enough for files."""
        session = self._live(cookie)
        if session is None or (key is not None and not hmac.compare_digest(session.key, _hash(key))):
            return None
        session.used = self._now()
        return session.identity

    def leave(self, cookie: str) -> None:
        self._sessions.pop(_hash(cookie), None)

    def _live(self, cookie: str) -> _Session | None:
        name, now = _hash(cookie), self._now()
        session = self._sessions.get(name)
        if session is None:
            return None
        if now >= session.until or now >= session.used + _IDLE_SECONDS:
            del self._sessions[name]
            return None
        self._sessions.move_to_end(name)
        return session


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
