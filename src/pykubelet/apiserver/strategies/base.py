"""The rules that hold for every kind, and the places where a kind may have its own.

A strategy is a set of plain functions on plain objects. `admit` alone may look at other objects, through `Lookup`; what
an object needs beside itself, such as an address, is claimed by `allocate` and given back by `release`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Protocol, TypeVar

from pykubelet.api.codec import DecodeError, convert, to_builtins
from pykubelet.api.field_errors import FieldError, forbidden, invalid, required
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.struct import rfc3339
from pykubelet.api.validation import names
from pykubelet.api.validation.meta import validate_object_meta
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at, clean, overlay
from pykubelet.apiserver.requests.users import User
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.schema.schema import Record, Schema, copied, same, unknown_fields
from pykubelet.apiserver.settings import ApiSettings

T = TypeVar("T")

FOREGROUND: Final = "foregroundDeletion"
"""Holds an object until the garbage collector has seen that all that belonged to it is gone."""
ORPHAN: Final = "orphan"
"""Holds an object until the garbage collector has set free all that belonged to it."""
_NAME_FIELDS: Final = ("metadata.name", "metadata.generateName")


class Lookup(Protocol):
    """Other objects, as admission sees them."""

    @property
    def now(self) -> Callable[[], datetime]: ...

    @property
    def settings(self) -> ApiSettings: ...

    async def find(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object, or None."""
        ...

    async def all(self, group: str, plural: str, namespace: str = "") -> list[Object]:
        """All objects of a kind."""
        ...

    async def known(self, group: str, plural: str, namespace: str = "") -> list[Object]:
        """The same as of a moment ago. Only to be looked at: others look at the same objects."""
        ...


class Claims(Protocol):
    """Objects that the server keeps beside those that are written."""

    @property
    def settings(self) -> ApiSettings: ...

    @property
    def backend(self) -> Lookup: ...

    async def claim(self, group: str, plural: str, obj: Object) -> bool:
        """Create an object unless its name is taken; whether it was created."""
        ...

    async def beside(self, work: Callable[[], T]) -> T:
        """Do what takes long where it keeps nobody else waiting."""
        ...

    async def unclaim(self, group: str, plural: str, namespace: str, name: str, uid: str | None = None) -> None:
        """Delete an object, if it is there: any of this name, or the one with this uid."""
        ...


class Strategy:
    """Of any kind that has no rules of its own."""

    creates_on_update: ClassVar[bool] = False
    orphans_by_default: ClassVar[bool] = False
    """Whether what belongs to an object stays when the object is deleted and nobody says what is to become of it."""
    updates_unconditionally: ClassVar[bool] = True
    converts: bool = False
    """Whether what is stored differs from what clients see."""
    waits: ClassVar[bool] = False
    """Whether somebody outside has to be asked before what is stored can be shown."""
    allocates: ClassVar[bool] = False
    """Whether an object has something that no other may have, as long as it exists."""
    has_plain_finalizers: ClassVar[bool] = False
    """Whether finalizers may be names without a domain before them."""
    selectable: ClassVar[Mapping[str, str]] = {}
    """Fields that may be selected by, besides name and namespace, each with its path in the object."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.has_status = resource.subresource("status") is not None
        self.counts_generations = resource.counts_generations

    # --- between clients and the store

    async def ready(self, stored: Sequence[tuple[bytes, int]]) -> None:
        """Have what is stored, with its revisions, ready for `from_storage`. Raises ApiError."""

    async def storable(self, obj: Object) -> Object:
        """As it is stored. Raises ApiError."""
        return self.to_storage(obj)

    def from_storage(self, obj: Object) -> Object:
        return obj

    def to_storage(self, obj: Object) -> Object:
        return obj

    def normal(self, obj: Object) -> Object:
        """The object as its type has it, with its defaults. May raise DecodeError."""
        cleaned: Object = clean(obj, self.resource.schema)
        kind = self.resource.type
        if kind is None:
            return cleaned
        known: Object = overlay(cleaned, to_builtins(convert(kind, cleaned)))
        return known

    @property
    def identity(self) -> str:
        """What tells it from another of the same objects: what one has found out of them says nothing to the other."""
        return ""

    @property
    def shape(self) -> Schema:
        """What the form of an object that a client sends has to be: what is not is refused before it is looked at."""
        return self.resource.schema

    def unknown(self, obj: Object) -> Iterable[str]:
        """The fields that nobody knows."""
        return unknown_fields(obj, self.resource.schema)

    # --- creating

    def attribute(self, obj: Object, user: User) -> None:
        """Write down who makes the object, where that matters."""

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        """Fill in what depends on other objects, or raise ApiError. `old` is None when the object is created."""

    def prepare_create(self, obj: Object, now: datetime) -> None:
        if self.has_status:
            obj.pop("status", None)
            self.give_status(obj)
        if self.counts_generations:
            obj["metadata"]["generation"] = 1

    def give_status(self, obj: Object) -> None:
        """What a new object's status says."""
        schema = self.resource.schema
        field = schema.fields.get("status") if isinstance(schema, Record) else None
        if field is not None and field.is_filled:
            obj["status"] = clean({}, field.type)

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        yield from self.content_faults(obj)

    async def allocate(self, obj: Object, old: Object | None, claims: Claims) -> None:
        """Claim what `obj` needs and `old` has not, now that nothing else speaks against `obj`. Raises ApiError."""

    async def after_create(self, obj: Object, claims: Claims) -> None:
        """Make what comes with it."""

    # --- updating

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        """`obj` may change what this way of updating is for, and nothing else."""
        if subresource == "status":
            keep_all_but(obj, old, ("status",))
            return
        if self.has_status:
            keep(obj, old, "status")
        self.count_generation(obj, old)

    def count_generation(self, obj: Object, old: Object) -> None:
        if self.counts_generations:
            generation = at(old, "metadata.generation", 0)
            changed = not same(_content(obj), _content(old))
            obj["metadata"]["generation"] = generation + 1 if changed else generation

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        yield from self.content_faults(obj)

    # --- deleting

    def grace(self, obj: Object, wanted: int | None) -> int | None:
        """The seconds that the object gets to end; None: it goes at once."""
        return None

    def check_delete(self, name: str) -> None:
        """Raises 403 for an object that has to stay."""

    def is_held(self, obj: Object) -> bool:
        """Whether somebody has to let go of it before it may go."""
        return bool(obj["metadata"].get("finalizers"))

    def marked(self, obj: Object, wanted: int | None, now: datetime, *, hold: str = "") -> tuple[Object, bool]:
        """-> the object as it is to be written first (itself: as it is), and whether it is then to go.

        `wanted` is the grace that was asked for; `hold`: a finalizer, for something has to happen before it goes.
        """
        metadata = obj["metadata"]
        hold = "" if metadata.get("deletionTimestamp") else hold
        is_held = bool(hold) or self.is_held(obj)
        wanted = 1 if wanted is not None and wanted < 0 else wanted
        if metadata.get("deletionTimestamp"):
            left = metadata.get("deletionGracePeriodSeconds", 0)
            if not left:
                return obj, not is_held
            if wanted is None or wanted >= left:
                return obj, False
            return _shortened(obj, left, wanted, now), wanted == 0 and not is_held
        grace = self.grace(obj, wanted)
        if grace is None and not is_held:
            return obj, True
        new = copied(obj)
        new["metadata"]["deletionTimestamp"] = rfc3339(now + timedelta(seconds=grace or 0))
        new["metadata"]["deletionGracePeriodSeconds"] = grace or 0
        if hold and hold not in new["metadata"].get("finalizers", ()):
            new["metadata"]["finalizers"] = [*new["metadata"].get("finalizers", ()), hold]
        if metadata.get("generation"):
            new["metadata"]["generation"] = metadata["generation"] + 1
        return new, not grace and not is_held

    async def release(self, obj: Object, kept: Object | None, claims: Claims) -> None:
        """Give back what `obj` had and `kept` has not: the object that is there now, or None."""

    # --- reading

    def fields(self, obj: Object) -> dict[str, str]:
        """What field selectors may ask for."""
        metadata = obj.get("metadata", {})
        found = {"metadata.name": metadata.get("name", "")}
        if self.resource.namespaced:
            found["metadata.namespace"] = metadata.get("namespace", "")
        for label, path in self.selectable.items():
            found[label] = _shown(at(obj, path, ""))
        for path in self.resource.selectable:
            found[path] = _shown(at(obj, path, ""))
        return found

    def stored_fields(self, obj: Object) -> dict[str, str]:
        """The same of an object as it is stored."""
        return self.fields(self.from_storage(obj))

    def is_selectable(self, field: str) -> bool:
        if field == "metadata.namespace":
            return True
        return field == "metadata.name" or field in self.selectable or field in self.resource.selectable

    # --- for subclasses

    def is_heavy(self, obj: Object) -> bool:
        """Whether it takes long to find what is wrong with a new object, small as it may be."""
        return False

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        """What is wrong with an object however it is written."""
        return iter(())

    def name_faults(self, name: str) -> Iterable[str]:
        return names.dns_subdomain(name)

    def validate_meta(self, obj: Object) -> Iterator[FieldError]:
        metadata: dict[str, Any] = obj["metadata"]
        try:
            typed = convert(ObjectMeta, metadata)
        except DecodeError as error:
            yield invalid(f"metadata.{error.field}" if error.field else "metadata", None, error.reason)
            return
        for found in validate_object_meta(typed, "metadata"):
            about_scope = found.field == "metadata.namespace" and not self.resource.namespaced
            about_domain = self.has_plain_finalizers and found.field.startswith("metadata.finalizers[")
            if not about_scope and not about_domain and found.field not in _NAME_FIELDS:
                yield found
        if not self.resource.namespaced and typed.namespace:
            yield forbidden("metadata.namespace", "not allowed on this type")
        prefix = typed.generate_name
        for fault in self.name_faults(prefix[:-1] + "a" if prefix.endswith("-") else prefix) if prefix else ():
            yield invalid("metadata.generateName", prefix, fault)
        if not typed.name:
            yield required("metadata.name", "name or generateName is required")
        for fault in self.name_faults(typed.name) if typed.name else ():
            yield invalid("metadata.name", typed.name, fault)


def normal(strategy: Strategy, obj: Object) -> Object:
    """The object as its type has it, with its defaults. Raises 400."""
    resource = strategy.resource
    try:
        result = strategy.normal(obj)
    except DecodeError as error:
        raise status.unfit(resource.kind, resource.version, str(error)) from None
    result.setdefault("metadata", {})
    return result


def _content(obj: Object) -> Object:
    """What a generation is about."""
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def _shortened(obj: Object, left: int, wanted: int, now: datetime) -> Object:
    new = copied(obj)
    begun = datetime.fromisoformat(obj["metadata"]["deletionTimestamp"]) - timedelta(seconds=left)
    end = begun + timedelta(seconds=wanted)
    if end < now:
        end, wanted = now, min(wanted, 1)
    new["metadata"]["deletionTimestamp"] = rfc3339(end)
    new["metadata"]["deletionGracePeriodSeconds"] = wanted
    return dict(new)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def keep(obj: Object, old: Object, name: str) -> None:
    """Take one part of the object from the old one."""
    if name in old:
        obj[name] = old[name]
    else:
        obj.pop(name, None)


def keep_all_but(obj: Object, old: Object, names_: Iterable[str]) -> None:
    """Take everything from the old object but some parts, and what belongs to the write itself."""
    new = {name: obj[name] for name in names_ if name in obj}
    metadata = {**old["metadata"]}
    for name in ("resourceVersion", "managedFields"):
        if name in obj.get("metadata", {}):
            metadata[name] = obj["metadata"][name]
    kept = {name: value for name, value in old.items() if name not in names_}
    obj.clear()
    obj.update(kept, metadata=metadata, **new)
