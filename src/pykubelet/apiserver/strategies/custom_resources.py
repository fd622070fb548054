"""Objects of custom resources: pruned, defaulted and checked by the schema of their version."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cached_property
from typing import Final

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.apiserver import status
from pykubelet.apiserver.cel.program import Budget
from pykubelet.apiserver.cel.values import TooExpensive
from pykubelet.apiserver.custom.definition import CustomResource, VersionSchema
from pykubelet.apiserver.custom.pruning import Room, TooMuch, pruned
from pykubelet.apiserver.custom.rules import RuleTree, out_of_budget, rule_faults
from pykubelet.apiserver.custom.validation import faults
from pykubelet.apiserver.objects import Object, at, clean
from pykubelet.apiserver.schema.catalogue import META, catalogue
from pykubelet.apiserver.schema.resources import Resource, ScalePaths
from pykubelet.apiserver.schema.schema import ANYTHING, Field, Record, Scalar, Schema, copied, same, unknown_fields
from pykubelet.apiserver.strategies.base import Claims, Lookup, Strategy

_BLOCKING: Final = (
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
)
_UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_MOST_REPLICAS: Final = 2**31 - 1


class CustomResourceStrategy(Strategy):
    has_plain_finalizers = True
    updates_unconditionally = False

    def __init__(self, resource: CustomResource) -> None:
        super().__init__(resource)
        self.custom = resource
        self.version = resource.definition

    @property
    def converts(self) -> bool:  # type: ignore[override]
        """What is stored may be of another version, or from before the schema was changed."""
        custom = self.custom
        return custom.others > 0 or custom.was_changed

    @property
    def identity(self) -> str:
        return str(self.version)

    @cached_property
    def shape(self) -> Schema:
        """What is wrong inside is told as faults of fields, not of the form."""
        text, parts = Field(Scalar("string")), self.version.given.get("properties") or {}
        head = {"apiVersion": text, "kind": text, "metadata": Field(catalogue()[f"{META}.ObjectMeta"])}
        return Record("", {**{name: Field(ANYTHING) for name in parts}, **head})

    def unknown(self, obj: Object) -> Iterable[str]:
        yield from unknown_fields(obj.get("metadata"), catalogue()[f"{META}.ObjectMeta"], ".metadata")
        found: list[str] = []
        pruned(obj, self.version.given, found)
        yield from found

    # --- between clients and the store

    def from_storage(self, obj: Object) -> Object:
        if not self.converts:
            return obj
        obj = pruned({**obj, "apiVersion": self.resource.api_version}, self.custom.stored_as.given)
        obj = self._with_defaults(obj, self.custom.stored_as)
        return obj if self.version is self.custom.stored_as else pruned(obj, self.version.given)

    def to_storage(self, obj: Object) -> Object:
        version = f"{self.resource.group}/{self.custom.storage}"
        if obj["apiVersion"] == version:
            return obj
        return pruned({**obj, "apiVersion": version}, self.custom.stored_as.given)

    def normal(self, obj: Object) -> Object:
        kept = pruned(obj, self.version.given)
        kept["metadata"] = clean(obj.get("metadata") or {}, catalogue()[f"{META}.ObjectMeta"])
        return self._with_defaults(kept, self.version)

    def _with_defaults(self, obj: Object, version: VersionSchema) -> Object:
        if version.put_defaults is None:
            return obj
        made: Object = copied(obj)
        try:
            version.put_defaults(made, Room())
        except TooMuch as error:
            raise status.ApiError(413, "RequestEntityTooLarge", f"the object is too large: {error}") from None
        return made

    # --- writing

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        if old is None and self.custom.is_terminating:
            raise status.ApiError(
                405, "MethodNotAllowed", "create not allowed while custom resource definition is terminating"
            )

    def prepare_create(self, obj: Object, now: datetime) -> None:
        if self.has_status:
            obj.pop("status", None)
            if self.version.status_has_defaults and self.version.put_defaults is not None:
                self.version.put_defaults(obj, Room())
        obj["metadata"]["generation"] = 1

    def count_generation(self, obj: Object, old: Object) -> None:
        apart = ("metadata", "status") if self.has_status else ("metadata",)
        one, other = ({name: part[name] for name in part if name not in apart} for part in (obj, old))
        generation = at(old, "metadata.generation", 1)
        obj["metadata"]["generation"] = generation if same(one, other) else generation + 1

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        yield from self._faults(obj, None)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        yield from self._faults(obj, old)

    def _faults(self, obj: Object, old: Object | None) -> list[FieldError]:
        """What the schema says, and the rules as well if there is something that they can look at."""
        found = [*faults(self.version.check, obj, old), *scale_faults(self.resource.scale, obj)]
        rules = self.version.rules if found else None
        if rules is None:
            return found
        if any(each.type in _BLOCKING for each in found):
            return [*found, FieldError("FieldValueInvalid", "<nil>", _UNCHECKED)]
        try:
            return [*found, *rule_faults(rules, obj, old, Budget.trial())]
        except TooExpensive:
            return found

    async def allocate(self, obj: Object, old: Object | None, claims: Claims) -> None:
        """Only what fits its schema is shown to the rules."""
        rules = self.version.rules
        if rules is None:
            return
        try:
            found = rule_faults(rules, obj, old, Budget.trial())
        except TooExpensive:
            found = await claims.beside(lambda: _all_faults(rules, obj, old))
        if found:
            raise status.invalid(self.resource.kind, self.resource.group, obj["metadata"]["name"], found)


def scale_faults(scale: ScalePaths | None, obj: Object) -> Iterator[FieldError]:
    """Numbers that other programs write and read by way of `scale` have to be numbers."""
    if scale is None:
        return
    for path in (scale.spec_replicas, scale.status_replicas):
        value = at(obj, path)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            yield invalid(f".{path}", value, "should be an integer")
        elif not 0 <= value <= _MOST_REPLICAS:
            yield invalid(f".{path}", value, f"should be from 0 to {_MOST_REPLICAS}")


def custom_strategy(resource: Resource) -> Strategy:
    assert isinstance(resource, CustomResource)
    return CustomResourceStrategy(resource)


def _all_faults(rules: RuleTree, obj: Object, old: Object | None) -> list[FieldError]:
    try:
        return rule_faults(rules, obj, old, Budget())
    except TooExpensive:
        return [out_of_budget()]
