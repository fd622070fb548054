"""The log files of containers: rotated, found under the names that log collectors look for, and taken away when nothing
is left of what wrote them.

The files are `<log root>/<namespace>_<pod>_<uid>/<container>/<attempt>.log`; a rotated one has the time of its rotation
behind that name, and `.gz` once it is packed.
"""

import gzip
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.threads import in_thread
from pykubelet.pod.observed import ObservedPod, State

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_PACKED: Final = ".gz"
_HALF_PACKED: Final = ".tmp"
_LOG: Final = ".log"
_ATTEMPT: Final = re.compile(r"(0|[1-9][0-9]*)\.log(?:\..+)?")
_LONGEST_NAME: Final = 255
_SHORTEST_ID: Final = 6
_CHUNK: Final = 1 << 20
_SETTLED: Final = 60.0
"""Seconds after which nobody writes to the log of a container that is gone."""


class PodLogs:
    """`links` is the folder of links for log collectors, `/var/log/containers` on most nodes; None: there is none.

    Raises base.errors.
    """

    def __init__(self, log_root: str, *, links: str | None = None, now: Callable[[], float] = time.time) -> None:
        self._root = os.path.abspath(log_root)
        self._links = os.path.abspath(links) if links else None
        self._now = now
        self._complaints: list[str] = []

    def path(self, namespace: str, pod: str, uid: str, container: str, attempt: int) -> str:
        return os.path.join(self._root, _part(f"{namespace}_{pod}_{uid}"), _part(container), f"{attempt}{_LOG}")

    # --- rotation

    async def sizes(self, paths: Iterable[str]) -> Mapping[str, int | None]:
        """None for a file that is not there. What cannot be looked at is left out."""
        return await in_thread(_sizes, tuple(paths))

    async def make_room(self, path: str, most: int) -> None:
        """Before a rotation: pack what was rotated before, and remove the oldest, so that afterwards there are at most
        `most` files, the new one among them. What an agent that was killed left half done goes, too."""
        await _done(_make_room, path, most)

    async def move_away(self, path: str, stamp: str) -> str:
        """The file under its rotated name. -> that name"""
        moved = f"{path}.{stamp}"
        await _done(_move, path, moved)
        return moved

    async def put_back(self, moved: str, path: str) -> None:
        """Undo `move_away`, unless there is a new file: then somebody writes to that."""
        await _done(_put_back, moved, path)

    # --- links and leftovers

    async def link(self, namespace: str, pod: str, uid: str, container: str, attempt: int, container_id: str) -> None:
        """Let log collectors find the log of a container that was just started. If that fails, the container runs all
        the same, and `tidy` tries again."""
        if self._links is None:
            return
        try:
            path = self.path(namespace, pod, uid, container, attempt)
            await in_thread(_link, path, self._link_path(namespace, pod, container, container_id))
        except (OSError, Invalid) as error:
            log.warning("the log of container %s of pod %s/%s has no link: %s", container, namespace, pod, error)

    async def attempts(self, namespace: str, pod: str, uid: str, container: str) -> int:
        """How often a container was started, by the logs that there are of it: what cannot be told counts for 0."""
        try:
            return await in_thread(_attempts, os.path.dirname(self.path(namespace, pod, uid, container, 0)))
        except (OSError, Invalid) as error:
            log.warning("how often container %s of pod %s/%s has run is unknown: %s", container, namespace, pod, error)
            return 0

    async def forget(self, namespace: str, pod: str, uid: str, container: str, attempt: int, container_id: str) -> None:
        """A dead container was removed: so are its logs. Harmless twice."""
        path = self.path(namespace, pod, uid, container, attempt)
        link = self._link_path(namespace, pod, container, container_id) if self._links else ""
        await _done(_forget, path, link)

    async def tidy(self, pods: Iterable[ObservedPod]) -> None:
        """Given all that the runtime holds: remove the logs of attempts that were removed from it, make the links that
        are missing, and remove those that lead nowhere. Pods that the runtime does not hold are left alone."""
        complaints = await in_thread(self._tidy, tuple(pods))
        for text in complaints:  # loudly once: it is tried again every few seconds
            log.log(logging.DEBUG if text in self._complaints else logging.WARNING, "%s", text)
        self._complaints = complaints

    async def uids(self) -> frozenset[str]:
        """The pods that have logs here, also those that nobody knows any more."""
        folders = await _done(_files, self._root, folders=True)
        return frozenset(parts[2] for name in folders if len(parts := name.split("_")) == 3 and parts[2])

    # --- inside

    def _link_path(self, namespace: str, pod: str, container: str, container_id: str) -> str:
        name = f"{pod}_{namespace}_{container}-{container_id}"[: _LONGEST_NAME - len(_LOG)]
        return os.path.join(self._links or "", _part(name + _LOG))

    def _tidy(self, pods: tuple[ObservedPod, ...]) -> list[str]:
        """-> what could not be done"""
        links: dict[str, str] = {}
        complaints = []
        for pod in pods:
            if not pod.name:
                continue  # only a container is left of it, and nothing says what pod it was
            try:
                self._tidy_pod(pod, links)
            except (OSError, Invalid) as error:
                complaints.append(f"the logs of pod {pod.namespace}/{pod.name} cannot be tidied: {error}")
        if self._links is not None:
            alive = {each.id for pod in pods for each in pod.containers if each.state is not State.EXITED}
            try:
                _tidy_links(self._links, links, alive)
            except OSError as error:
                complaints.append(f"the links in {self._links} cannot be tidied: {error}")
        return complaints

    def _tidy_pod(self, pod: ObservedPod, links: dict[str, str]) -> None:
        """Adds the links that there should be to `links`: what they lead to, by their paths."""
        attempts: dict[str, set[int]] = {}
        for each in pod.containers:
            attempts.setdefault(each.name, set()).add(each.attempt)
            path = self.path(pod.namespace, pod.name, pod.uid, each.name, each.attempt)
            if self._links is not None and os.path.exists(path):
                links[self._link_path(pod.namespace, pod.name, each.name, each.id)] = path
        for name, there in attempts.items():
            folder = os.path.dirname(self.path(pod.namespace, pod.name, pod.uid, name, 0))
            for file in _files(folder):
                found = _ATTEMPT.fullmatch(file)
                # A later attempt than those that were seen is about to begin.
                if found and int(found[1]) not in there and int(found[1]) < max(there):
                    self._remove_settled(os.path.join(folder, file))

    def _remove_settled(self, path: str) -> None:
        """What was seen may be out of date: where all attempts were removed, they are counted from 0 again."""
        with suppress(FileNotFoundError):
            if self._now() - os.stat(path).st_mtime >= _SETTLED:
                os.unlink(path)


def _part(name: str) -> str:
    """Names come from outside; each may be one step of a path and no more."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise Invalid(f"{name!r} cannot be part of the name of a log")
    return name


async def _done(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """In a thread, with what went wrong in our own words."""
    try:
        return await in_thread(work, *args, **kwargs)
    except OSError as error:
        raise Retry(f"logs: {error.filename}: {error.strerror}") from error


def _attempts(folder: str) -> int:
    return max((int(found[1]) + 1 for file in _files(folder) if (found := _ATTEMPT.fullmatch(file))), default=0)


# --- rotation


def _sizes(paths: tuple[str, ...]) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for path in paths:
        try:
            found[path] = os.stat(path).st_size
        except FileNotFoundError:
            found[path] = None
        except OSError as error:
            log.debug("the log %s cannot be looked at: %s", path, error.strerror)
    return found


def _make_room(path: str, most: int) -> None:
    folder, name = os.path.split(path)
    there = {file for file in _files(folder) if file.startswith(f"{name}.")}
    # Packing ends with removing what was packed: where both are there, the packed one is whole.
    spare = {file for file in there if file.endswith(_HALF_PACKED) or file + _PACKED in there}
    rotated = sorted(there - spare)
    many = max(len(rotated) - max(most - 2, 0), 0)  # the one that is to be rotated, and the new one, will come to it
    for file in (*spare, *rotated[:many]):
        _unlink(os.path.join(folder, file))
    for file in rotated[many:]:
        if not file.endswith(_PACKED):
            _pack(os.path.join(folder, file))


def _pack(path: str) -> None:
    """What cannot be packed, as on a full disk, stays as it is: the rotation itself has to go on."""
    half = path + _HALF_PACKED
    try:
        with open(path, "rb") as plain:
            mode = stat.S_IMODE(os.fstat(plain.fileno()).st_mode)
            descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with open(descriptor, "wb") as file:
                with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6) as packed:
                    shutil.copyfileobj(plain, packed, _CHUNK)
                file.flush()
                os.fsync(file.fileno())
            written = os.fstat(plain.fileno())
            os.utime(
                half, ns=(written.st_atime_ns, written.st_mtime_ns)
            )  # who reads the plain file still finds its place
        os.rename(half, path + _PACKED)
        os.unlink(path)
    except OSError as error:
        log.warning("the rotated log %s cannot be packed: %s", path, error.strerror)
        with suppress(OSError):
            os.unlink(half)


def _move(path: str, moved: str) -> None:
    if os.path.exists(moved) or os.path.exists(moved + _PACKED):
        raise Retry(f"{moved} is there already: the clock was put back, or the last rotation was just now")
    os.rename(path, moved)


def _put_back(moved: str, path: str) -> None:
    with suppress(FileExistsError):
        os.link(moved, path)  # which never replaces a file
        os.unlink(moved)


# --- links and leftovers


def _link(path: str, link: str) -> None:
    """A log that is not there, since the runtime writes it somewhere else, gets no link."""
    if not os.path.exists(path):
        return
    os.makedirs(os.path.dirname(link), mode=0o755, exist_ok=True)
    try:
        os.symlink(path, link)
    except FileExistsError:
        if not os.path.islink(link) or os.readlink(link) == path:
            return
        os.unlink(link)
        os.symlink(path, link)


def _forget(path: str, link: str) -> None:
    folder, name = os.path.split(path)
    for file in _files(folder):
        if file == name or file.startswith(f"{name}."):
            _unlink(os.path.join(folder, file))
    if link and os.path.islink(link):
        _unlink(link)


def _tidy_links(folder: str, wanted: Mapping[str, str], alive: set[str]) -> None:
    there = {os.path.join(folder, name) for name in _files(folder) if name.endswith(_LOG)}
    for link, path in wanted.items():
        if link not in there:
            _link(path, link)
    for link in there:
        if _leads_nowhere(link) and not _is_of(link, alive):
            _unlink(link)


def _leads_nowhere(link: str) -> bool:
    try:
        os.stat(link)
    except FileNotFoundError:
        return os.path.islink(link)
    except OSError:
        return False
    return False


def _is_of(link: str, alive: set[str]) -> bool:
    """Whether its container may still write: while a log is rotated, there is for a moment no file. In a very long name
    the id is cut short."""
    short = os.path.basename(link).removesuffix(_LOG).rpartition("-")[2]
    return len(short) >= _SHORTEST_ID and any(each.startswith(short) for each in alive)


def _files(folder: str, *, folders: bool = False) -> list[str]:
    """The names of what is in a folder: of the folders in it, or of all else."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) == folders]
    except FileNotFoundError:
        return []


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
