"""The objects behind the requests, as they are read from the cache or the store: plain JSON for whoever decides."""

import asyncio
import copy
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, cast

from pykubelet.apiserver import status
from pykubelet.apiserver.objects import UNREADABLE, Object, encode, listed, loaded, sent
from pykubelet.apiserver.requests.access import AccessControl, AllowAll
from pykubelet.apiserver.requests.admission import Admission, AdmitAll
from pykubelet.apiserver.requests.beside import Across, Beside
from pykubelet.apiserver.schema.kinds import Resources
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.settings import ApiSettings
from pykubelet.apiserver.store.port import Entry, Store
from pykubelet.apiserver.store.watch_cache import WatchCache
from pykubelet.apiserver.strategies.all import strategy_for
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.quota_rules import Charge

T = TypeVar("T")

LIGHT: Final = 32 << 10
"""Bytes of an object that are worked on at once. What is larger would keep everybody else waiting."""


class Backend:
    """The store as objects. Also the `Lookup` of admission."""

    def __init__(
        self,
        store: Store,
        cache: WatchCache,
        settings: ApiSettings,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.store = store
        self.cache = cache
        self.settings = settings
        self.resources = Resources()
        self.now = now
        self.access: AccessControl = AllowAll()
        self.admission: Admission = AdmitAll()
        self._strategies = {each.path: strategy_for(each) for each in (*self.resources, *self.resources.own_use)}
        self.quotas: dict[str, dict[str, Entry]] = {}
        """By namespace and key; most namespaces have none."""
        cache.mirror(self.resources.of("", "resourcequotas").prefix, self._tell_quota)
        self.charges: dict[str, list[Charge]] = {}
        """What quotas were charged for, by namespace, that is not written yet."""
        self.on_change: Callable[[Resource], None] = lambda resource: None
        """Told of each version of a resource that is no longer served as it was."""
        self._beside: Beside | None = Beside()
        """None: this is the one for the thread."""

    # --- resources

    def strategy(self, resource: Resource) -> Strategy:
        """Raises 404 for a resource that was withdrawn in the meantime."""
        found = self._strategies.get(resource.path)
        if found is None:
            raise status.unknown_path()
        return found

    def serve(self, versions: Sequence[Resource], make: Callable[[Resource], Strategy] = Strategy) -> None:
        """Serve a resource that was defined at runtime, in all its versions, from now on."""
        made = {each.path: make(each) for each in versions}
        before = self._removed(versions[0].group, versions[0].plural)
        self.resources.add(versions)
        self._strategies |= made
        self._tell_changed([each for each in before if each not in versions])

    def withdraw(self, group: str, plural: str) -> None:
        self._tell_changed(self._removed(group, plural))

    def _removed(self, group: str, plural: str) -> list[Resource]:
        gone = self.resources.remove(group, plural)
        for each in gone:
            self._strategies.pop(each.path, None)
        return gone

    def _tell_changed(self, resources: Sequence[Resource]) -> None:
        for each in resources:
            self.on_change(each)

    async def aside(self, who: str, weight: int, work: Callable[["Backend"], Coroutine[Any, Any, T]]) -> T:
        """Do it at once when it is about so many bytes only, else beside the loop, with the backend that goes there."""
        if weight <= LIGHT or self._beside is None:
            return await work(self)
        there = self._across(asyncio.get_running_loop())
        return await self._beside.run(who, lambda: work(there))

    def _across(self, loop: asyncio.AbstractEventLoop) -> "Backend":
        made = copy.copy(self)
        made.store = cast(Store, Across(self.store, loop))
        made.cache = cast(WatchCache, Across(self.cache, loop))
        made.access = cast(AccessControl, Across(self.access, loop))
        made.admission = cast(Admission, Across(self.admission, loop))
        made._beside = None
        return made

    # --- forms

    def object_of(self, resource: Resource, value: bytes, revision: int) -> Object:
        """Raises 500 for what cannot be read, whoever has written it."""
        strategy = self.strategy(resource)
        try:
            return strategy.from_storage(loaded(value, revision))
        except UNREADABLE as error:
            raise status.internal(f"an object of {resource.plural} cannot be read: {error}") from None

    def wire(self, resource: Resource, value: bytes, revision: int) -> bytes:
        """As the answer to a get."""
        if self.strategy(resource).converts:
            return encode(self.object_of(resource, value, revision))
        return sent(value, revision, resource.head)

    def wire_item(self, resource: Resource, value: bytes, revision: int) -> bytes:
        """As the item of a list."""
        strategy = self.strategy(resource)
        if resource.is_custom:  # whose clients know nothing of it but what it says itself
            return self.wire(resource, value, revision)
        if strategy.converts:
            obj = self.object_of(resource, value, revision)
            return encode({key: inner for key, inner in obj.items() if key not in ("apiVersion", "kind")})
        return listed(value, revision, resource.head)

    def _tell_quota(self, key: str, entry: Entry | None) -> None:
        namespace = key.rsplit("/", 2)[-2]
        found = self.quotas.setdefault(namespace, {})
        if entry is not None:
            found[key] = entry
        else:
            found.pop(key, None)
        if not found:
            self.quotas.pop(namespace)

    # --- reading

    async def ready(self, resource: Resource, entries: Sequence[Entry]) -> None:
        """Have them ready to be shown. Raises ApiError."""
        strategy = self.strategy(resource)
        if strategy.waits:
            await strategy.ready([(entry.value, entry.revision) for entry in entries])

    async def read(self, resource: Resource, namespace: str, name: str) -> Entry:
        """The newest there is. Raises 404."""
        entry = await self.cache.get_newest(resource.key(namespace, name)) if name else None
        if entry is None:
            raise status.not_found(resource.plural, name, resource.group)
        await self.ready(resource, (entry,))
        return entry

    async def live(self, plural: str, namespace: str, name: str) -> Object:
        """An object of the core group as it is now. Raises 404."""
        resource = self.resources.of("", plural)
        entry = await self.read(resource, namespace, name)
        return self.object_of(resource, entry.value, entry.revision)

    async def find(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        resource = self.resources.of(group, plural)
        key = resource.key(namespace, name)
        entry = await self.cache.get(key) or await self.cache.get_newest(key)
        if entry is None:
            return None
        await self.ready(resource, (entry,))
        return self.object_of(resource, entry.value, entry.revision)

    async def all(self, group: str, plural: str, namespace: str = "") -> list[Object]:
        resource = self.resources.of(group, plural)
        listing = await self.cache.list_newest(resource.folder(namespace))
        await self.ready(resource, listing.entries)
        return [self.object_of(resource, entry.value, entry.revision) for entry in listing.entries]

    async def known(self, group: str, plural: str, namespace: str = "") -> list[Object]:
        resource = self.resources.of(group, plural)
        listing = await self.cache.list(resource.folder(namespace))
        await self.ready(resource, listing.entries)
        return [self._known(resource, entry) for entry in listing.entries]

    def _known(self, resource: Resource, entry: Entry) -> Object:
        """Decoded once."""
        found: Object | None = entry.cache.get("object")
        if found is None:
            found = entry.cache["object"] = self.object_of(resource, entry.value, entry.revision)
        return found
