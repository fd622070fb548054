"""What of this machine's files no container sees: what not everybody here may read, and where credentials are kept.

A container's root often is root of the machine, to whom every file opens. So its view leaves out what others could not
read either. To find that takes a walk, a long one in /usr: what is known of it serves for a while.
"""

import asyncio
import os
import stat
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.runtime.process.shim.root import SHOWN

_CREDENTIALS: Final = frozenset(
    f"/etc/{name}"
    for name in (
        *(
            "cni",
            "containerd",
            "containers",
            "crictl.yaml",
            "crio",
            "docker",
            "k0s",
            "kubernetes",
            "pykubelet",
            "rancher",
        ),
        *("gshadow", "gshadow-", "security/opasswd", "shadow", "shadow-", "ssl/private", "sudoers", "sudoers.d"),
    )
)
"""Some of it is readable to all on machines that were set up in a hurry."""
_HOME: Final = (".aws", ".azure", ".config", ".docker", ".gnupg", ".kube", ".netrc", ".ssh")
_FOR_ALL: Final = stat.S_IROTH | stat.S_IXOTH
_LARGE: Final = "usr"
_SMALL: Final = (*(name for name in SHOWN if name != _LARGE), "usr/local/etc")
_FRESH: Final = 60.0
"""Seconds for which what is known of the small folders holds, unless something comes or goes there."""
_STALE: Final = 600.0
"""Seconds after which the large one is walked again, while containers start with what is known of it."""
_TOO_OLD: Final = 3600.0
"""And after which they wait for that."""


class _Seen(Struct, frozen=True):
    at: float
    private: tuple[str, ...] = ()
    folders: tuple[tuple[str, int], ...] = ()
    """With the time of their last change."""

    @property
    def age(self) -> float:
        return time.monotonic() - self.at


_seen: dict[str, _Seen] = {}  # this machine's, so the same for every runtime of this process


class MachineFiles:
    """`hidden` are places of credentials beyond the usual ones."""

    def __init__(self, hidden: Iterable[Path]) -> None:
        home = os.environ.get("HOME", "")
        own = (os.path.join(home, name) for name in _HOME if home.startswith("/"))
        self._named = (*_CREDENTIALS, *own, *(str(path) for path in hidden))
        self._named_seen: _Seen | None = None
        self._walk: asyncio.Task[_Seen] | None = None
        self._is_closed = threading.Event()

    def look(self) -> "asyncio.Task[_Seen] | None":
        """Begin with the long walk, if it is time for one; who asks meanwhile shares it."""
        seen = _seen.get(_LARGE)
        if (self._walk is None or self._walk.done()) and (seen is None or seen.age >= _STALE):
            self._walk = asyncio.create_task(asyncio.to_thread(_look, _LARGE, self._is_closed))
        return self._walk

    async def ready(self) -> None:
        """Before the first container there is a long walk to be waited for, else hardly ever."""
        walk, seen = self.look(), _seen.get(_LARGE)
        if walk is not None and (seen is None or seen.age >= _TOO_OLD):
            await asyncio.shield(walk)

    def hidden(self) -> list[str]:
        """Paths without links, also of what is not there yet. It blocks, but not for long. Raises KeyError before it is
        `ready`."""
        found = list(_seen[_LARGE].private)
        for top in _SMALL:
            found += _current(top, self._is_closed).private
        if self._named_seen is None or self._named_seen.age >= _FRESH:
            self._named_seen = _Seen(at=time.monotonic(), private=_real(self._named))
        return [*found, *self._named_seen.private]

    async def close(self) -> None:
        self._is_closed.set()
        if self._walk is not None:
            await asyncio.gather(self._walk, return_exceptions=True)


def _current(top: str, is_closed: threading.Event) -> _Seen:
    seen = _seen.get(top)
    if seen is not None and seen.age < _FRESH and not _has_changed(seen):
        return seen
    return _look(top, is_closed)


def _has_changed(seen: _Seen) -> bool:
    try:
        return any(os.stat(folder).st_ctime_ns != changed for folder, changed in seen.folders)
    except OSError:
        return True


def _look(top: str, is_closed: threading.Event) -> _Seen:
    """Links count for nothing: what they lead to is elsewhere in the container, or not at all."""
    at, private, folders = time.monotonic(), list[str](), list[tuple[str, int]]()
    waiting = [f"/{top}"] if os.path.isdir(f"/{top}") and not os.path.islink(f"/{top}") else []
    while waiting:
        folder = waiting.pop()
        if is_closed.is_set():
            raise InterruptedError("nobody waits for it any more")
        try:
            folders.append((folder, os.stat(folder, follow_symlinks=False).st_ctime_ns))
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_symlink() or entry.path in _CREDENTIALS:
                        continue
                    mode = entry.stat(follow_symlinks=False).st_mode
                    if stat.S_ISDIR(mode) and mode & _FOR_ALL == _FOR_ALL:
                        waiting.append(entry.path)
                    elif not stat.S_ISREG(mode) or not mode & stat.S_IROTH:
                        private.append(entry.path)
        except FileNotFoundError:  # it went away meanwhile
            continue
        except OSError:  # what we cannot look into we cannot vouch for
            private.append(folder)
    kept = () if top == _LARGE else tuple(folders)  # there are too many of them to ask each
    seen = _seen[top] = _Seen(at=at, private=tuple(private), folders=kept)
    return seen


def _real(paths: Iterable[str]) -> tuple[str, ...]:
    """Both where a name is and what it leads to, as far as containers could see it."""
    found = set()
    for path in paths:
        parent, name = os.path.split(os.path.abspath(path))
        found |= {os.path.join(os.path.realpath(parent), name), os.path.realpath(path)}
    return tuple(path for path in sorted(found) if any(f"{path}/".startswith(f"/{top}/") for top in SHOWN))
