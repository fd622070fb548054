"""How a controller sees the cluster and changes it: always from what is there now, never from what was told before."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Final, TypeVar

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.controllers.informer import Informer, Wanted, informing
from pykubelet.apiserver.objects import UNREADABLE, Object, at, of_entry
from pykubelet.apiserver.requests.options import DeleteOptions, Preconditions
from pykubelet.apiserver.schema.misfits import misfits
from pykubelet.apiserver.schema.resources import ROOT, Resource
from pykubelet.apiserver.schema.schema import member
from pykubelet.apiserver.schema.shapes import fits
from pykubelet.apiserver.status import ApiError, internal
from pykubelet.apiserver.store.port import Entry
from pykubelet.apiserver.strategies.base import normal
from pykubelet.apiserver.writer.author import KUBE_CONTROLLER_MANAGER, Author
from pykubelet.apiserver.writer.writer import Change, Writer
from pykubelet.base.errors import Retry

log = logging.getLogger(__name__)

T = TypeVar("T")
Kind = tuple[str, str]
"""group, plural"""

PODS: Final[Kind] = ("", "pods")
NODES: Final[Kind] = ("", "nodes")
CLAIMS: Final[Kind] = ("", "persistentvolumeclaims")
VOLUMES: Final[Kind] = ("", "persistentvolumes")
NAMESPACES: Final[Kind] = ("", "namespaces")
LEASES: Final[Kind] = ("coordination.k8s.io", "leases")
EVENTS: Final[Kind] = ("", "events")
_TOLD: Final = 1_024
_AT_ONCE: Final = 256 << 10
"""Bytes of objects that are made something of before others get their turn."""


def view_name(view: Callable[[Object], object]) -> str:
    return f"{view.__module__}.{view.__qualname__}"


class ControllerClient:
    """What the server refuses of one object is logged and left: it stands in nobody else's way, and is tried again when
    the controller looks again. What the store cannot do now ends the look: Retry."""

    def __init__(self, backend: Backend, author: Author = KUBE_CONTROLLER_MANAGER) -> None:
        self.backend = backend
        self.writer = Writer(backend, author)
        self.now = backend.now
        self.resources = backend.resources
        self._told: set[str] = set()
        """What the log has said of objects that nothing can be done about."""

    # --- looking

    def resource(self, kind: Kind) -> Resource:
        return self.resources.of(*kind)

    async def everything(self, mark: bytes = b"") -> list[tuple[Resource, Entry]]:
        """All that is stored, of every kind that is served now, in the version that it is stored in; with a mark, only
        what has that in it somewhere."""
        listing = await self.backend.cache.list_newest(ROOT)
        marked = [entry for entry in listing.entries if mark in entry.value] if mark else listing.entries
        found = ((self.resources.at(entry.key), entry) for entry in marked)
        return [(resource, entry) for resource, entry in found if resource is not None]

    async def entries(self, kind: Kind, namespace: str = "") -> tuple[Entry, ...]:
        listing = await self.backend.cache.list_newest(self.resource(kind).folder(namespace))
        return listing.entries

    async def names(self, kind: Kind) -> set[str]:
        """Of all that are there, whether or not they can be read."""
        return {entry.key.rpartition("/")[2] for entry in await self.entries(kind)}

    async def views(
        self, kind: Kind, view: Callable[[Object], T], namespace: str = "", *, whole: bool = False
    ) -> list[T]:
        """Each object as the controller needs it. It is made once for each version, and kept with it.

        One that cannot be read is left out, and the log says so once. `whole`: for who decides by what is not there,
        and has to know all or nothing; raises ApiError."""
        entries, name, new = await self.entries(kind, namespace), view_name(view), 0
        for entry in entries:
            if name not in entry.cache:
                new += len(entry.value)
                if new > _AT_ONCE:  # there may be very many, or very large ones, of which nobody has made anything yet
                    new = 0
                    await asyncio.sleep(0)
                self.seen(kind, (entry,), view, whole=whole)
        return self.seen(kind, entries, view, whole=whole)

    def seen(
        self, kind: Kind, entries: Iterable[Entry], view: Callable[[Object], T], *, whole: bool = False
    ) -> list[T]:
        """The same, of some."""
        name = view_name(view)
        found: list[T] = []
        for entry in entries:
            if name in entry.cache:
                found.append(entry.cache[name])
                continue
            with self.apart(entry.key, is_needed=whole):
                found.append(entry.cache.setdefault(name, view(self.read(self.resource(kind), entry))))
        return found

    async def all(self, kind: Kind, namespace: str = "", *, whole: bool = False) -> list[Object]:
        """The same, as they are."""
        found: list[Object] = []
        for entry in await self.entries(kind, namespace):
            with self.apart(entry.key, is_needed=whole):
                found.append(self.read(self.resource(kind), entry))
        return found

    def read(self, resource: Resource, entry: Entry) -> Object:
        """As it is stored. Raises one of UNREADABLE if it is none of its kind, or another than its key says."""
        obj = of_entry(entry)
        if not entry.cache.get("is_sound"):
            own = next((each for each in self.resources.versions(resource.group, resource.plural)
                        if each.api_version == obj["apiVersion"]), resource)  # fmt: skip
            part, schema = (obj["metadata"], member(own.schema, "metadata")) if own.is_custom else (obj, own.schema)
            if not fits(part, schema):  # of a custom one the rest is its owner's: it may be older than its definition
                for fault in misfits(part, schema):
                    raise ValueError(fault)
            metadata = obj["metadata"]
            if resource.key(metadata.get("namespace") or "", metadata.get("name") or "") != entry.key:
                raise ValueError("its name is not the one that it is stored by")
            entry.cache["is_sound"] = True
        return obj

    @contextmanager
    def apart(self, what: str, *, is_needed: bool = False) -> Iterator[None]:
        """What is wrong with one stands in nobody else's way: it is told once, and left as it is. `is_needed`: nothing
        can be decided without this one; raises ApiError."""
        try:
            yield
        except Retry:
            raise
        except (ApiError, *UNREADABLE) as error:
            text = f"{what} is left as it is: {error if isinstance(error, ApiError) else repr(error)}"
            if is_needed:
                raise internal(text) from None
            if text not in self._told:
                if len(self._told) >= _TOLD:
                    self._told.clear()
                self._told.add(text)
                log.warning("%s", text)

    async def known(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """As the cache knows it: as new as the last that was listed."""
        resource = self.resource(kind)
        return self._object(resource, await self.backend.cache.get(resource.key(namespace, name)))

    async def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """As it is in the store, not as the cache remembers it from before."""
        resource = self.resource(kind)
        return self._object(resource, await self.backend.cache.get_newest(resource.key(namespace, name)))

    def _object(self, resource: Resource, entry: Entry | None) -> Object | None:
        """Raises ApiError when it is there, and cannot be read."""
        if entry is None:
            return None
        with self.apart(entry.key, is_needed=True):
            self.read(resource, entry)
            return self.backend.object_of(resource, entry.value, entry.revision)

    def informer(self, *kinds: Kind, wanted: Wanted | None = None) -> AbstractAsyncContextManager[Informer]:
        """Tells whenever an object of one of the kinds has changed; without kinds, of any that there is or will be."""
        prefixes = tuple(self.resource(kind).prefix for kind in kinds) or (ROOT,)
        return informing(self.backend.cache, prefixes, wanted)

    async def follow(
        self,
        sync: Callable[[], Awaitable[None]],
        *kinds: Kind,
        wanted: Wanted | None = None,
        most: float | None = None,
    ) -> None:
        """Look now, and again when an object of one of the kinds has changed, or after `most` seconds."""
        async with self.informer(*kinds, wanted=wanted) as informer:
            while True:
                await informer.wait(most)
                await sync()

    # --- changing

    async def create(self, kind: Kind, obj: Object) -> bool:
        """Whether it was not there yet, and is now."""
        try:
            return await self.writer.ensure(self.resource(kind), obj)
        except ApiError as error:
            _log_refusal("created", kind, obj, error)
            return False

    async def make(self, kind: Kind, obj: Object) -> Object:
        """Create an object, for one who wants to know why it was refused: raises ApiError."""
        resource = self.resource(kind)
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self.writer.create(resource, normal(self.backend.strategy(resource), whole))

    async def change(self, kind: Kind, obj: Object, how: Change, *, part: str = "") -> Object | None:
        """Change the object that this one was, or a part of it; None when it is no longer there."""
        resource, metadata = self.resource(kind), obj["metadata"]
        strategy = self.backend.strategy(resource)
        is_other = False

        def change(live: Object) -> Object | None:
            nonlocal is_other
            is_other = at(live, "metadata.uid") != metadata.get("uid")
            new = None if is_other else how(live)
            return None if new is None else normal(strategy, new)

        try:
            changed = await self.writer.change(
                resource, metadata.get("namespace", ""), metadata["name"], change, part=part
            )
        except ApiError as error:
            if error.code != 404:
                _log_refusal("changed", kind, obj, error)
            return None
        return None if is_other else changed

    async def remove(self, kind: Kind, obj: Object, *, grace: int | None = None, policy: str = "Background") -> None:
        """Delete the object that this one was, with its grace, and only once its finalizers are gone."""
        try:
            await self.delete(kind, obj, grace=grace, policy=policy)
        except ApiError as error:
            if error.code not in (404, 409):  # another one has its name by now, or it is on its way out
                _log_refusal("deleted", kind, obj, error)

    async def delete(
        self,
        kind: Kind,
        obj: Object,
        *,
        grace: int | None = None,
        policy: str = "Background",
        unchanged: bool = False,
    ) -> None:
        """The same, for one who wants to know why it was refused: raises ApiError. `unchanged`: just as it is given."""
        metadata = obj["metadata"]
        version = metadata["resourceVersion"] if unchanged else None
        meant = Preconditions(uid=metadata.get("uid", ""), resource_version=version)
        options = DeleteOptions(grace_period_seconds=grace, preconditions=meant, propagation_policy=policy)
        await self.writer.delete(self.resource(kind), metadata.get("namespace", ""), metadata["name"], options)


def as_it_is(obj: Object) -> Object:
    """The view of one who needs all of it, and changes nothing in it."""
    return obj


def _log_refusal(what: str, kind: Kind, obj: Object, error: ApiError) -> None:
    metadata = obj["metadata"]
    where = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
    log.warning("%s %s is not %s: %s", kind[1], where, what, error.message)
