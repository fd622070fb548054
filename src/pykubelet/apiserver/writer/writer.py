"""Creates, changes and deletes objects: admitted, checked, with an owner for each field, and so that no change is lost.

Requests, controllers, the scheduler and the server's own start all write by way of this; nobody else writes into the
store.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from pykubelet.api.codec import to_builtins
from pykubelet.api.field_errors import FieldError
from pykubelet.api.validation import names
from pykubelet.api.validation.pod import MOST_FAULTS
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import LIGHT, Backend
from pykubelet.apiserver.objects import Object, at, loaded, name_suffix, new_uid, stored, timestamp
from pykubelet.apiserver.patch.server_side_apply import track_update
from pykubelet.apiserver.requests.options import DeleteOptions, Preconditions
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.settings import ApiSettings
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import AlreadyExists, Entry, Stale
from pykubelet.apiserver.strategies.base import Strategy, normal
from pykubelet.apiserver.strategies.disabled_fields import drop_disabled
from pykubelet.apiserver.writer.attempts import attempt_of
from pykubelet.apiserver.writer.author import KUBE_APISERVER, Author
from pykubelet.apiserver.writer.checks import (
    check_preconditions,
    check_version,
    hold_of,
    identity_faults,
    is_emptied,
    is_same,
    update_faults,
)
from pykubelet.apiserver.writer.quotas import charging
from pykubelet.base.errors import NotFound

T = TypeVar("T")
Change = Callable[[Object], Object | None]
"""What becomes of an object: None leaves it as it is. Asked again whenever somebody else was faster."""

_LONGEST_BASE: Final = 58
_TRIES: Final = 8
_FROM_SERVER: Final = ("resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_FIXED: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)


class Writer:
    """Of one author. Also the `Claims` of the strategies."""

    def __init__(self, backend: Backend, author: Author) -> None:
        self.backend = backend
        self.author = author

    @property
    def settings(self) -> ApiSettings:
        return self.backend.settings

    # --- creating

    async def create(self, resource: Resource, obj: Object, *, is_tracked: bool = True) -> Object:
        """Store a new object, which has its defaults. `is_tracked`: whoever creates it comes to own its fields.

        Raises 403, 404 (of its namespace), 409 and 422.
        """
        metadata = obj["metadata"]
        if metadata.get("resourceVersion") and not self.author.dry_run:  # which upstream lets pass
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        prefix = metadata.get("generateName", "") if not metadata.get("name") else ""
        if resource.namespaced:
            await self._check_namespace(resource, metadata)
        if is_tracked:  # before anything is added that the author did not ask for
            obj = self._tracked(resource, None, obj, "")
        for attempt in range(_TRIES if prefix else 1):
            if prefix:
                obj["metadata"]["name"] = prefix[:_LONGEST_BASE] + name_suffix()
            try:
                return await self._create_once(resource, obj)
            except ApiError as error:
                if error.reason != "AlreadyExists" or not prefix or attempt == _TRIES - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def ensure(self, resource: Resource, given: Object) -> bool:
        """Create an object as a component gives it, unless its name is taken; whether it was created."""
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **given}
        try:
            await self.create(resource, normal(self.backend.strategy(resource), whole))
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return False
            raise
        return True

    async def _create_once(self, resource: Resource, obj: Object) -> Object:
        backend, author, strategy = self.backend, self.author, self.backend.strategy(resource)
        strategy.attribute(obj, author.user)
        await strategy.admit(obj, None, "", backend)
        given = obj
        obj = await self._mutated(strategy, given, None, "")
        if obj is not given:
            strategy.attribute(obj, author.user)  # whoever has changed it: who makes it is not his to say
        metadata = obj["metadata"]
        await backend.access.check_body(author.user, self._info(resource, "create", metadata), obj, None)
        for name in _FROM_SERVER:
            metadata.pop(name, None)
        metadata["uid"], metadata["creationTimestamp"] = new_uid(), timestamp(backend.now())
        drop_disabled(resource, obj, None)
        strategy.prepare_create(obj, backend.now())

        def faults() -> list[FieldError]:
            return list(islice(strategy.validate(obj), MOST_FAULTS))

        if errors := await self.beside(faults) if strategy.is_heavy(obj) else faults():
            raise status.invalid(resource.kind, resource.group, metadata.get("name", ""), errors)
        await self._validated(strategy, obj, None, "")
        key = resource.key(metadata.get("namespace", ""), metadata["name"])
        if (strategy.allocates or author.dry_run) and await backend.cache.get_newest(key):
            raise status.already_exists(resource.plural, metadata["name"], resource.group)
        async with charging(backend, self._replace, resource, obj, None, "", dry_run=author.dry_run):
            await strategy.allocate(obj, None, self)
            if author.dry_run:
                await strategy.release(obj, None, self)
                return obj
            try:
                revision = await backend.store.create(key, stored(await strategy.storable(obj)))
            except AlreadyExists as taken:
                await strategy.release(obj, None, self)
                error = status.already_exists(resource.plural, metadata["name"], resource.group)
                if at(loaded(taken.entry.value, 0), "metadata.deletionTimestamp"):
                    error.message = f"object is being deleted: {error.message}"
                raise error from None
        created = _at_revision(obj, revision)
        await strategy.after_create(created, self)
        return created

    async def _check_namespace(self, resource: Resource, metadata: dict[str, Any]) -> None:
        """Nothing is made in a namespace that does not exist, or is about to go."""
        name = metadata.get("namespace") or ""
        namespace = None if names.dns_label(name) else await self.backend.find("", "namespaces", "", name)
        if namespace is None:
            raise status.not_found("namespaces", name)
        if at(namespace, "metadata.deletionTimestamp"):
            why = f"unable to create new content in namespace {name} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
            raise status.forbidden(resource.plural, metadata.get("name", ""), why, resource.group, (cause,))

    # --- changing

    async def change(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        how: Change,
        *,
        part: str = "",
        is_tracked: bool = True,
        is_patch: bool = False,
    ) -> Object:
        """Change an object, or a part of it such as its status; it goes when that was the last that it waited for.

        `how` gives it with its defaults. `is_tracked`: whoever changes a field comes to own it. Raises 403, 404, 409
        and 422.
        """
        entry = await self.backend.read(resource, namespace, name)

        async def changed(backend: Backend) -> Object:
            writer = Writer(backend, self.author)
            return await writer._change(resource, entry, how, part=part, is_tracked=is_tracked, is_patch=is_patch)

        waits = self.backend.admission.waits(resource) or self.backend.strategy(resource).waits
        weight = 0 if waits else len(entry.value)
        return await self.backend.aside(self.author.user.name, weight, changed)

    async def _change(
        self, resource: Resource, entry: Entry, how: Change, *, part: str, is_tracked: bool, is_patch: bool
    ) -> Object:
        backend, strategy = self.backend, self.backend.strategy(resource)
        while True:
            await backend.ready(resource, (entry,))
            old = backend.object_of(resource, entry.value, entry.revision)
            given = how(old)
            if given is None:
                return old
            new = await self._admit(strategy, given, old, part, is_tracked=is_tracked, is_patch=is_patch)
            goes = is_emptied(strategy, new)
            if not goes and is_same(new, old):
                return old
            if self.author.dry_run:
                await strategy.release(new, old, self)
                async with charging(backend, self._replace, resource, new, old, part, dry_run=True):
                    return _at_revision(new, entry.revision)
            try:
                if goes:
                    await self._remove(resource, entry)
                    return new
                async with charging(backend, self._replace, resource, new, old, part):
                    revision = await self._replace(resource, entry, stored(await strategy.storable(new)))
            except Stale as stale:
                await strategy.release(new, old, self)
                entry = stale.entry
            except ApiError:
                await strategy.release(new, old, self)
                raise
            else:
                await strategy.release(old, new, self)
                return _at_revision(new, revision)

    async def _admit(
        self, strategy: Strategy, obj: Object, old: Object, part: str, *, is_tracked: bool, is_patch: bool
    ) -> Object:
        """`obj` as it may replace `old`."""
        backend, resource = self.backend, strategy.resource
        check_version(strategy, obj, old, is_patch=is_patch)
        obj = {**obj, "metadata": {**obj["metadata"]}}  # what is changed here may be a part of `old`
        metadata = obj["metadata"]
        identity = identity_faults(metadata, old["metadata"])
        for name in _FIXED:
            metadata.pop(name, None)
            if name in old["metadata"]:
                metadata[name] = old["metadata"][name]
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        if is_tracked:
            obj = self._tracked(resource, old, obj, part)
        await strategy.admit(obj, old, part, backend)
        obj = await self._mutated(strategy, obj, old, part)
        metadata = obj["metadata"]
        info = self._info(resource, "update", old["metadata"], part)
        await backend.access.check_body(self.author.user, info, obj, old)
        drop_disabled(resource, obj, old)
        strategy.prepare_update(obj, old, part)
        errors = update_faults(strategy, identity, obj, old, part)
        if errors:
            raise status.invalid(resource.kind, resource.group, metadata.get("name") or old["metadata"]["name"], errors)
        await self._validated(strategy, obj, old, part)
        await strategy.allocate(obj, old, self)
        return obj

    # --- those who have a word in it

    async def _mutated(self, strategy: Strategy, obj: Object, old: Object | None, part: str) -> Object:
        """As it is after all who may change it."""
        backend = self.backend
        if not backend.admission.asks(strategy.resource, mutating=True):
            return obj
        attempt = attempt_of(self.author, strategy.resource, obj, old, part)
        changed = None if attempt is None else await backend.admission.mutate(attempt)
        if attempt is None or changed is None:
            return obj
        new = copied(changed.obj)
        await strategy.admit(new, old, part, backend)
        return await backend.admission.mutate_again(msgspec.structs.replace(attempt, obj=new), changed)

    async def _validated(self, strategy: Strategy, obj: Object | None, old: Object | None, part: str) -> None:
        if not self.backend.admission.asks(strategy.resource, mutating=False):
            return
        attempt = attempt_of(self.author, strategy.resource, obj, old, part)
        if attempt is not None:
            await self.backend.admission.validate(attempt)

    def _tracked(self, resource: Resource, old: Object | None, obj: Object, part: str) -> Object:
        return track_update(
            old,
            obj,
            manager=self.author.manager,
            kind=resource.kind,
            api_version=resource.api_version,
            schema=resource.schema,
            subresource=part,
            now=self.backend.now(),
        )

    # --- deleting

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions | None = None
    ) -> tuple[Object, bool]:
        """-> the object as it was last, and whether it is gone. Raises 403, 404 and 409."""
        backend, strategy, wanted = self.backend, self.backend.strategy(resource), options or DeleteOptions()
        strategy.check_delete(name)
        entry = await backend.read(resource, namespace, name)
        while True:
            await backend.ready(resource, (entry,))
            old = backend.object_of(resource, entry.value, entry.revision)
            check_preconditions(resource, old, wanted.preconditions)
            info = self._info(resource, "delete", old["metadata"])
            await backend.access.check_body(self.author.user, info, None, old)
            await self._check_deletion(resource, old, wanted)
            hold = hold_of(strategy, wanted)
            marked, goes = strategy.marked(old, wanted.grace_period_seconds, backend.now(), hold=hold)
            if self.author.dry_run:
                return marked, goes
            try:
                if marked is not old:
                    data = stored(await strategy.storable(marked))
                    entry = Entry(entry.key, data, await self._replace(resource, entry, data), entry.created)
                if goes:
                    await self._remove(resource, entry)
                return _at_revision(marked, entry.revision), goes
            except Stale as stale:
                entry = stale.entry

    async def _check_deletion(self, resource: Resource, old: Object, options: DeleteOptions) -> None:
        attempt = attempt_of(self.author, resource, None, old, "", to_builtins(options))
        if attempt is not None:
            await self.backend.admission.mutate(attempt)
            await self.backend.admission.validate(attempt)

    # --- claims

    async def beside(self, work: Callable[[], T]) -> T:
        async def done(backend: Backend) -> T:
            return work()

        return await self.backend.aside(self.author.user.name, LIGHT + 1, done)

    async def claim(self, group: str, plural: str, obj: Object) -> bool:
        return await Writer(self.backend, KUBE_APISERVER).ensure(self.backend.resources.of(group, plural), obj)

    async def unclaim(self, group: str, plural: str, namespace: str, name: str, uid: str | None = None) -> None:
        writer, resource = Writer(self.backend, KUBE_APISERVER), self.backend.resources.of(group, plural)
        try:
            await writer.delete(resource, namespace, name, DeleteOptions(preconditions=Preconditions(uid=uid)))
        except ApiError as error:
            if error.reason not in ("NotFound", "Conflict"):
                raise

    # --- the store

    async def _replace(self, resource: Resource, entry: Entry, data: bytes) -> int:
        """-> its new revision. Raises Stale, and 404."""
        try:
            return await self.backend.store.update(entry.key, data, revision=entry.revision)
        except NotFound:
            raise self._gone(resource, entry) from None

    async def _remove(self, resource: Resource, entry: Entry) -> None:
        """Raises Stale, and 404."""
        try:
            gone = await self.backend.store.delete(entry.key, revision=entry.revision)
        except NotFound:
            raise self._gone(resource, entry) from None
        await self.backend.ready(resource, (gone,))
        last = self.backend.object_of(resource, gone.value, gone.revision)
        await self.backend.strategy(resource).release(last, None, self)

    def _gone(self, resource: Resource, entry: Entry) -> ApiError:
        return status.not_found(resource.plural, entry.key.rpartition("/")[2], resource.group)

    def _info(self, resource: Resource, verb: str, metadata: dict[str, Any], part: str = "") -> RequestInfo:
        """What access control is asked about."""
        return self.author.info or RequestInfo(
            verb=verb,
            path="",
            is_resource=True,
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            subresource=part,
            namespace=metadata.get("namespace", ""),
            name=metadata.get("name", ""),
        )


def _at_revision(obj: Object, revision: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
