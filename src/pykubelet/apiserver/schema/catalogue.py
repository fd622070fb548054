"""The schemas of all built-in types, made of the generated facts when they are first asked for.

`descriptions` has our words for the common ones. A kind that is not in the catalogue is stored and patched as it comes.
"""

import threading
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, Literal

import msgspec

from pykubelet.apiserver.schema.descriptions import FIELDS as FIELD_DESCRIPTIONS
from pykubelet.apiserver.schema.descriptions import TYPES as TYPE_DESCRIPTIONS
from pykubelet.apiserver.schema.facts import Extras, FieldFact, type_fact, type_names
from pykubelet.apiserver.schema.schema import ANYTHING, Anything, Field, ListOf, MapOf, Record, Scalar, Schema

CORE: Final = "io.k8s.api.core.v1"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"

QUANTITY: Final = Scalar("string", "quantity", "io.k8s.apimachinery.pkg.api.resource.Quantity")
INT_OR_STRING: Final = Scalar("string", "int-or-string", "io.k8s.apimachinery.pkg.util.intstr.IntOrString")
TIME: Final = Scalar("string", "date-time", f"{META}.Time")
MICRO_TIME: Final = Scalar("string", "date-time", f"{META}.MicroTime")

_NAMED: Final[dict[str, Schema]] = {
    "any": ANYTHING,
    "bool": Scalar("boolean"),
    "bytes": Scalar("string", "byte"),
    "double": Scalar("number", "double"),
    "int32": Scalar("integer", "int32"),
    "int64": Scalar("integer", "int64"),
    "intOrString": INT_OR_STRING,
    "microTime": MICRO_TIME,
    "quantity": QUANTITY,
    "string": Scalar("string"),
    "time": TIME,
}
_SECTIONS: Final = {
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "metrics.k8s.io": "io.k8s.metrics.pkg.apis.metrics",
}


def section(group: str, version: str) -> str:
    """What comes before a kind in the names that OpenAPI gives to types."""
    return f"{_SECTIONS.get(group) or 'io.k8s.api.' + (group.partition('.')[0] or 'core')}.{version}"


def catalogue() -> Mapping[str, Record]:
    """Every type, by the name that OpenAPI gives it."""
    return _CATALOGUE


@cache
def record_of(api_version: str, kind: str) -> Record | None:
    """The type of a kind; None for a kind that is not known and is stored as it comes."""
    group, _, version = api_version.rpartition("/")
    return _CATALOGUE.get(f"{section(group, version)}.{kind}")


def schema_of(api_version: str, kind: str) -> Schema:
    return record_of(api_version, kind) or ANYTHING


class _Catalogue(Mapping[str, Record]):
    """Types may be made of themselves, and threads may ask at the same time: nobody sees one that is half made."""

    def __init__(self) -> None:
        self._made: dict[str, Record] = {}
        self._begun: dict[str, Record] = {}
        self._lock = threading.RLock()

    def __getitem__(self, name: str) -> Record:
        found = self._made.get(name)
        if found is None:
            with self._lock:
                found = self._record(name)
                self._made.update(self._begun)
                self._begun.clear()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(type_names())

    def __len__(self) -> int:
        return len(type_names())

    def _record(self, name: str) -> Record:
        found = self._made.get(name) or self._begun.get(name)
        if found is not None:
            return found
        fact = type_fact(name)
        if fact is None:
            raise KeyError(name)
        where, _, short = name.rpartition(".")
        fields: dict[str, Field] = {}
        description = TYPE_DESCRIPTIONS.get(short, "")
        found = self._begun[name] = Record(name, fields, description, fact.extras.map == "atomic")
        for each in fact.fields:
            fields[each.name] = self._field(where, short, each)
        return found

    def _field(self, where: str, owner: str, fact: FieldFact) -> Field:
        schema = _merging(self._schema(fact.type, where), fact.extras)
        is_pointer, is_written = "p" in fact.flags, "w" in fact.flags
        plain = f"{owner.removeprefix('Ephemeral')}.{fact.name}"  # its containers have the fields of any other
        return Field(
            schema,
            FIELD_DESCRIPTIONS.get(plain) or FIELD_DESCRIPTIONS.get(fact.name, ""),
            is_required="r" in fact.flags,
            is_written=is_written,
            is_pointer=is_pointer,
            omits_empty=isinstance(schema, Scalar) and not is_pointer and not is_written,
            default=fact.extras.default,
            enum=fact.extras.enum,
            patch_strategy="" if isinstance(schema, ListOf) else fact.extras.patch,
            number=(fact.number,) if isinstance(fact.number, int) else fact.number,
        )

    def _schema(self, kind: str, where: str) -> Schema:
        if kind.startswith("["):
            return ListOf(self._schema(kind[1:], where))
        if kind.startswith("{"):
            return MapOf(self._schema(kind[1:], where))
        if kind.startswith("any:"):
            return Anything(kind[4:])
        return _NAMED.get(kind) or self._record(kind if "." in kind else f"{where}.{kind}")


_CATALOGUE: Final = _Catalogue()
_RELATIONS: Final[dict[str, Literal["set", "map"]]] = {"set": "set", "map": "map"}


def _merging(schema: Schema, extras: Extras) -> Schema:
    """The type of a field, with how this field of it merges."""
    if isinstance(schema, ListOf):
        strategies = extras.patch.split(",")
        return ListOf(
            schema.items,
            _RELATIONS.get(extras.list, "atomic"),
            extras.keys,
            is_merged="merge" in strategies,
            merge_key=extras.merge,
            retains_keys="retainKeys" in strategies,
        )
    if isinstance(schema, MapOf) and extras.map == "atomic":
        return MapOf(schema.items, is_atomic=True)
    if isinstance(schema, Record) and extras.map:
        return msgspec.structs.replace(schema, is_atomic=extras.map == "atomic")
    return schema
