"""Objects that pods use: had once for all who use them, watched while anybody does, and believed while the server does
not answer. A node with a hundred pods must not ask for the same one a hundred times."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from contextvars import Context
from typing import Final, Generic, TypeVar

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.struct import changed
from pykubelet.base.errors import NotFound, PykubeletError, Retry
from pykubelet.kube.before import Before
from pykubelet.kube.settings import ChangeDetection
from pykubelet.kube.watch import Changed, Deleted, Lost, Reflector, Relisted, Resumed
from pykubelet.pod.container.failures import MissingObject, ObjectKind

log = logging.getLogger(__name__)

_HOLDS: Final = 45.0
"""Less than the time between two syncs of a pod: each of them sees what has changed since the last."""


T = TypeVar("T", ConfigMap, Secret)
Key = tuple[str, str]
"""Namespace and name."""


class _Entry(Generic[T]):
    def __init__(self) -> None:
        self.users: dict[str, bool] = {}
        """By uid of a pod: whether its files follow the object."""
        self.value: T | None = None
        self.recalled: T | None = None
        """What it was for an earlier agent, until the server has told this one."""
        self.is_known = False
        """Whether anybody was ever told what it is, or that it is not there."""
        self.error: PykubeletError | None = None
        """What came of asking, when that was not the object."""
        self.until = 0.0
        self.asked = 0
        """The number of the newest question that was answered."""
        self.turn = asyncio.Lock()
        """Whoever holds it asks the server; it guards no state."""
        self.watch: asyncio.Task[None] | None = None
        self.is_followed = False
        """The value is what the server has, or the server has none."""
        self.settled = asyncio.Event()
        """The watch has told what there is, or that it cannot."""

    @property
    def is_immutable(self) -> bool:
        return self.value is not None and bool(self.value.immutable)


class ObjectCache(Generic[T]):
    """The objects of one kind. `what` names it, as upstream does when there is none. `fetch` and `reflector` get one
    object by its namespace and name. `changed` hears of the pods (by uid) that should look at an object again.

    Where nothing is watched, what was had is good for a while. `before` has what an earlier agent knew.
    """

    def __init__(
        self,
        what: ObjectKind,
        kind: type[T],
        fetch: Callable[[str, str], Awaitable[T]],
        reflector: Callable[[str, str], Reflector[T]],
        *,
        before: Before | None = None,
        detection: ChangeDetection = "Watch",
        changed: Callable[[Iterable[str]], None] = lambda uids: None,
    ) -> None:
        self._what: ObjectKind = what
        self._kind: type[T] = kind
        self._before = before or Before()
        self._fetch: Callable[[str, str], Awaitable[T]] = fetch
        self._reflector: Callable[[str, str], Reflector[T]] = reflector
        self._detection = detection
        self._changed = changed
        self._entries: dict[Key, _Entry[T]] = {}
        self._used: dict[str, Collection[Key]] = {}
        """By uid of a pod: what it uses."""
        self._questions = 0
        self._tasks: asyncio.TaskGroup | None = None

    def watch_in(self, tasks: asyncio.TaskGroup | None) -> None:
        """From now on watches go on in this group, whose owner ends them; None: it is about to end."""
        self._tasks = tasks
        for key, entry in self._entries.items():
            if entry.is_known:
                self._begin(key, entry)

    def use(self, uid: str, uses: Mapping[Key, bool]) -> None:
        """All that a pod uses from now on, and whether its files follow it. What nobody uses is forgotten."""
        for key, follows in uses.items():
            self._entries.setdefault(key, _Entry()).users[uid] = follows
        before = self._used.pop(uid, ())
        if uses:
            self._used[uid] = uses.keys()
        for key in [key for key in before if key not in uses]:
            entry = self._entries[key]
            del entry.users[uid]
            if not entry.users:
                del self._entries[key]
                self._before.drop(self._what, *key)
                if entry.watch is not None:
                    entry.watch.cancel()

    async def get(self, namespace: str, name: str, *, fresh: bool = False) -> T:
        """`fresh`: as it is now. Otherwise what was had lately will do, and what can never change for good."""
        if not name:  # without one, the path would be that of all objects
            raise MissingObject(self._what, "")
        key = namespace, name
        entry = self._entries.get(key)
        if entry is None:
            entry = _Entry()  # nobody's: it is not kept
        elif not entry.is_known:
            entry.value = entry.recalled = self._before.recall(self._kind, self._what, *key)
            entry.is_known = entry.value is not None
        if entry.recalled is not None:
            return await self._before.or_else(self._get(key, entry, fresh), entry.recalled)
        return await self._get(key, entry, fresh)

    # --- asking

    async def _get(self, key: Key, entry: _Entry[T], fresh: bool) -> T:
        question = self._next()
        self._begin(key, entry)
        if entry.watch is not None:
            await entry.settled.wait()
        if not entry.is_followed and not self._will_do(entry, fresh):
            async with entry.turn:
                if entry.asked < question:  # else somebody has asked after us, and that answer is good enough
                    await self._ask(key, entry)
            if entry.error is not None and not entry.is_followed:
                raise entry.error.with_traceback(None)
        if entry.value is None:
            raise MissingObject(self._what, key[1])
        return entry.value

    def _will_do(self, entry: _Entry[T], fresh: bool) -> bool:
        if fresh or entry.value is None or self._detection == "Get":
            return False
        return asyncio.get_running_loop().time() < entry.until or entry.is_immutable

    async def _ask(self, key: Key, entry: _Entry[T]) -> None:
        question = self._next()
        value, until = entry.value, 0.0
        error: PykubeletError | None = None
        is_told = True
        try:
            value = await self._fetch(*key)
            until = asyncio.get_running_loop().time() + _HOLDS
        except NotFound:
            value = None
        except Retry as failure:
            is_told = False
            if value is None:
                error = Retry(f"{failure}{self._before.unkept(self._what)}", after=failure.after)
            else:
                log.info("%s %s/%s is taken for what it was: %s", self._what, *key, failure)
        except PykubeletError as failure:
            error, is_told = failure, False
        if not entry.is_followed:  # else the watch has come back meanwhile, and knows better
            entry.error, entry.until, entry.asked = error, until, question
            self._keep(key, entry, value, is_told=is_told)

    def _next(self) -> int:
        self._questions += 1
        return self._questions

    # --- watching

    def _begin(self, key: Key, entry: _Entry[T]) -> None:
        """What nobody has asked for yet need not be watched, nor what can never change."""
        if self._detection != "Watch" or self._tasks is None or not entry.users:
            return
        if entry.watch is not None or entry.is_immutable:
            return

        def ended(task: asyncio.Task[None]) -> None:
            entry.watch, entry.is_followed = None, False
            entry.settled.set()  # whoever waits for it asks for himself

        entry.settled.clear()
        name = f"{self._what} {'/'.join(key)}"
        # Not in the context of the pod that happens to ask first: it may be gone long before the others.
        entry.watch = self._tasks.create_task(self._watch(key, entry), name=name, context=Context())
        entry.watch.add_done_callback(ended)

    async def _watch(self, key: Key, entry: _Entry[T]) -> None:
        try:
            await self._follow(key, entry)
        except Exception:  # the boundary: one object's trouble is not the others'
            log.exception("%s %s/%s cannot be watched", self._what, *key)

    async def _follow(self, key: Key, entry: _Entry[T]) -> None:
        """Until the object is one that can never change. A server that does not heed the selector tells of others too:
        they must not be taken for this one."""
        async with aclosing(self._reflector(*key).events()) as events:
            async for event in events:
                entry.is_followed = not isinstance(event, Lost)
                match event:
                    case Relisted(items, unread):
                        found = next((item for item in items if item.metadata.name == key[1]), None)
                        entry.is_followed = found is not None or not unread
                        if entry.is_followed:
                            entry.error, entry.asked = None, self._next()
                            self._keep(key, entry, found)
                    case Changed(item):
                        if item.metadata.name == key[1]:
                            self._keep(key, entry, item)
                    case Deleted(metadata):
                        if metadata.name in ("", key[1]):  # what cannot be read is taken for the worst
                            self._keep(key, entry, None)
                    case Lost():
                        entry.until = 0.0
                    case Resumed():
                        pass
                entry.settled.set()
                if entry.is_immutable:
                    return

    def _keep(self, key: Key, entry: _Entry[T], value: T | None, *, is_told: bool = True) -> None:
        """A change wakes the pods whose files follow the object; one that has come to be, also those that cannot start
        without it."""
        before, entry.value = entry.value, None if value is None else _slim(value)
        is_news = entry.is_known and _version(before) != _version(value)
        entry.is_known = True
        if is_told:
            self._save(key, entry, is_kept=entry.recalled is not None and not is_news)
            entry.recalled = None
        woken = [uid for uid, follows in entry.users.items() if follows or before is None] if is_news else []
        if woken and self._detection == "Watch":
            self._changed(woken)

    def _save(self, key: Key, entry: _Entry[T], *, is_kept: bool) -> None:
        """For the agent that comes after this one."""
        value = entry.value
        if value is None:
            self._before.drop(self._what, *key)
        elif entry.users and not is_kept:
            self._before.save(self._what, *key, value=lambda: value)


def _version(value: ConfigMap | Secret | None) -> tuple[str, str] | None:
    return None if value is None else (value.metadata.uid, value.metadata.resource_version)


def _slim(value: T) -> T:
    """Annotations often repeat a whole object, and nobody here reads them."""
    meta = value.metadata
    kept = ObjectMeta(namespace=meta.namespace, name=meta.name, uid=meta.uid, resource_version=meta.resource_version)
    return changed(value, metadata=kept)
