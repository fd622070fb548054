"""The objects behind the requests: read from the cache or the store, and written so that no change is lost.

Everything that decides about an object gets it as plain JSON from here, and gives it back.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at, encode, listed, loaded, new_uid, sent, stored, timestamp
from pykubelet.apiserver.requests.access import AccessControl, AllowAll
from pykubelet.apiserver.schema.resources import Resource, Resources
from pykubelet.apiserver.settings import ApiSettings
from pykubelet.apiserver.store.port import AlreadyExists, Entry, Stale, Store
from pykubelet.apiserver.store.watch_cache import WatchCache
from pykubelet.apiserver.strategies.all import strategies
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.base.errors import NotFound

Change = Callable[[Object], Awaitable[Object]]


class Backend:
    """The store as objects. Also the `Lookup` of admission."""

    def __init__(
        self,
        store: Store,
        cache: WatchCache,
        settings: ApiSettings,
        resources: Resources,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.store = store
        self.cache = cache
        self.settings = settings
        self.resources = resources
        self.now = now
        self.gate: AccessControl = AllowAll()
        self._strategies = strategies(resources)

    def strategy(self, resource: Resource) -> Strategy:
        return self._strategies[resource]

    # --- forms

    def object_of(self, resource: Resource, value: bytes, revision: int) -> Object:
        return self.strategy(resource).from_storage(loaded(value, revision))

    def wire(self, resource: Resource, value: bytes, revision: int) -> bytes:
        """As the answer to a get."""
        if self.strategy(resource).converts:
            return encode(self.object_of(resource, value, revision))
        return sent(value, revision, resource.head)

    def wire_item(self, resource: Resource, value: bytes, revision: int) -> bytes:
        """As the item of a list."""
        strategy = self.strategy(resource)
        if strategy.converts:
            obj = self.object_of(resource, value, revision)
            return encode({key: inner for key, inner in obj.items() if key not in ("apiVersion", "kind")})
        return listed(value, revision, resource.head)

    # --- reading

    async def read(self, resource: Resource, namespace: str, name: str) -> Entry:
        """The newest there is. Raises 404."""
        entry = await self.store.get(resource.key(namespace, name)) if name else None
        if entry is None:
            raise status.not_found(resource.plural, name, resource.group)
        return entry

    async def find(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        resource = self.resources.of(group, plural)
        key = resource.key(namespace, name)
        entry = await self.cache.get(key) or await self.store.get(key)
        return None if entry is None else self.object_of(resource, entry.value, entry.revision)

    async def all(self, group: str, plural: str, namespace: str = "") -> list[Object]:
        resource = self.resources.of(group, plural)
        listing = await self.cache.list_newest(resource.folder(namespace))
        return [self.object_of(resource, entry.value, entry.revision) for entry in listing.entries]

    async def known(self, group: str, plural: str, namespace: str = "") -> list[Object]:
        resource = self.resources.of(group, plural)
        listing = await self.cache.list(resource.folder(namespace))
        return [self._known(resource, entry) for entry in listing.entries]

    def _known(self, resource: Resource, entry: Entry) -> Object:
        """Decoded once."""
        found: Object | None = entry.cache.get("object")
        if found is None:
            found = entry.cache["object"] = self.object_of(resource, entry.value, entry.revision)
        return found

    # --- writing

    def stamp(self, obj: Object) -> None:
        """What every new object gets."""
        metadata = obj["metadata"]
        for name in ("resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
            metadata.pop(name, None)
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = timestamp(self.now())

    async def create(self, resource: Resource, obj: Object) -> Object:
        """Store a new object. Raises 409."""
        metadata = obj["metadata"]
        data = stored(self.strategy(resource).to_storage(obj))
        try:
            revision = await self.store.create(resource.key(metadata.get("namespace", ""), metadata["name"]), data)
        except AlreadyExists as taken:
            error = status.already_exists(resource.plural, metadata["name"], resource.group)
            if at(loaded(taken.entry.value, 0), "metadata.deletionTimestamp"):
                error.message = f"object is being deleted: {error.message}"
            raise error from None
        return {**obj, "metadata": {**metadata, "resourceVersion": str(revision)}}

    async def update(
        self, resource: Resource, namespace: str, name: str, change: Change, *, dry_run: bool = False
    ) -> Object:
        """Change what is stored. `change` is asked again whenever somebody else was faster."""
        entry = await self.read(resource, namespace, name)
        while True:
            old = self.object_of(resource, entry.value, entry.revision)
            new = await change(old)
            data = stored(self.strategy(resource).to_storage(new))
            if dry_run or data == entry.value:
                return {**new, "metadata": {**new["metadata"], "resourceVersion": str(entry.revision)}}
            try:
                revision = await self.store.update(entry.key, data, revision=entry.revision)
            except Stale as stale:
                entry = stale.entry
            except NotFound:
                raise status.not_found(resource.plural, name, resource.group) from None
            else:
                return {**new, "metadata": {**new["metadata"], "resourceVersion": str(revision)}}

    async def remove(self, resource: Resource, obj: Object) -> Object:
        """Delete an object as it was read. Raises Stale when it has changed since."""
        metadata = obj["metadata"]
        key = resource.key(metadata.get("namespace", ""), metadata["name"])
        try:
            gone = await self.store.delete(key, revision=int(metadata["resourceVersion"]))
        except NotFound:
            raise status.not_found(resource.plural, metadata["name"], resource.group) from None
        result = self.object_of(resource, gone.value, gone.revision)
        await self.strategy(resource).deleted(result, self)
        return result

    async def claim(self, group: str, plural: str, obj: Object) -> bool:
        resource = self.resources.of(group, plural)
        new: dict[str, Any] = {**obj, "metadata": dict(obj["metadata"])}
        self.stamp(new)
        try:
            await self.create(resource, new)
        except status.ApiError as error:
            if error.reason == "AlreadyExists":
                return False
            raise
        return True

    async def release(self, group: str, plural: str, namespace: str, name: str) -> None:
        resource = self.resources.of(group, plural)
        entry = await self.store.get(resource.key(namespace, name))
        while entry is not None:
            try:
                await self.store.delete(entry.key, revision=entry.revision)
                return
            except Stale as stale:
                entry = stale.entry
            except NotFound:
                return
