"""The schemas of all types that the API server knows, made of the Structs in pykubelet.api and of `type_text`.

The Structs say which fields there are and how they are spelled; `list_facts` says how they merge, `descriptions` what
they are for. A kind that is not in the catalogue is stored and patched as it comes.
"""

import re
import types
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec

from pykubelet.api.meta import ListMeta, ObjectMeta, Status
from pykubelet.api.node import Node
from pykubelet.api.objects import ConfigMap, Event, Lease, ObjectReference, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.struct import IntOrString, MicroTime, Struct
from pykubelet.apiserver.schema.descriptions import ENUMS
from pykubelet.apiserver.schema.descriptions import FIELDS as FIELD_DESCRIPTIONS
from pykubelet.apiserver.schema.descriptions import TYPES as TYPE_DESCRIPTIONS
from pykubelet.apiserver.schema.list_facts import ATOMIC_MAPS, ATOMIC_TYPES, DEFAULTS, GRANULAR_FIELDS, LISTS, ListFact
from pykubelet.apiserver.schema.schema import ANYTHING, Field, ListOf, MapOf, Record, Scalar, Schema
from pykubelet.apiserver.schema.type_text import TEXT

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
    "int32": Scalar("integer", "int32"),
    "int64": Scalar("integer", "int64"),
    "intOrString": INT_OR_STRING,
    "microTime": MICRO_TIME,
    "quantity": QUANTITY,
    "string": Scalar("string"),
    "time": TIME,
}
_STRUCTS: Final = (Pod, Node, Secret, ConfigMap, Event, Lease, ObjectReference, Status, ObjectMeta, ListMeta)
_META_TYPES: Final = {
    "LabelSelector",
    "LabelSelectorRequirement",
    "ListMeta",
    "ManagedFieldsEntry",
    "ObjectMeta",
    "OwnerReference",
    "Status",
    "StatusCause",
    "StatusDetails",
}
_SECTIONS: Final = {"Lease": "io.k8s.api.coordination.v1", "LeaseSpec": "io.k8s.api.coordination.v1"}

# Always written means required, except for these.
_NOT_REQUIRED: Final = {
    "ContainerImage.names",
    "Event.reportingComponent",
    "Event.reportingInstance",
    "NodeRuntimeHandler.name",
    "ProjectedVolumeSource.sources",
}
_REQUIRED: Final = {
    "ContainerRestartRule.action",
    "ContainerRestartRuleOnExitCodes.operator",
    "Event.involvedObject",
    "Event.metadata",
    "PersistentVolumeClaimTemplate.spec",
    "PodCertificateProjection.keyType",
    "PodCertificateProjection.signerName",
    "PreferredSchedulingTerm.preference",
    "ScaleIOVolumeSource.secretRef",
    "WeightedPodAffinityTerm.podAffinityTerm",
}
_LINE: Final = re.compile(r"([*+]?)(\w+): *(.*)")


@cache
def catalogue() -> Mapping[str, Record]:
    """Every type, by the name that OpenAPI gives it."""
    return types.MappingProxyType(_Catalogue().records)


@cache
def record_of(api_version: str, kind: str) -> Record | None:
    """The type of a kind; None for a kind that is not known and is stored as it comes."""
    group, _, version = api_version.rpartition("/")
    return catalogue().get(f"{section(group, version)}.{kind}")


def schema_of(api_version: str, kind: str) -> Schema:
    return record_of(api_version, kind) or ANYTHING


def section(group: str, version: str) -> str:
    """What comes before a kind in the names that OpenAPI gives to types."""
    if group == "metrics.k8s.io":
        return f"io.k8s.metrics.pkg.apis.metrics.{version}"
    return f"io.k8s.api.{group.partition('.')[0] or 'core'}.{version}"


class _Catalogue:
    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        for struct in _STRUCTS:
            self._of_struct(struct)
        lines = {f"{where}.{name}": (mark, where, fields) for where, mark, name, fields in _lines()}
        self._pending = {name: line for name, line in lines.items() if name not in self.records}
        for name in list(self._pending):
            self._of_text(name)

    # --- from Structs

    def _of_struct(self, struct: type[Any]) -> Record:
        short = struct.__name__
        name = f"{_SECTIONS.get(short) or (META if short in _META_TYPES else CORE)}.{short}"
        if name not in self.records:
            fields = {field.encode_name: self._struct_field(short, field) for field in msgspec.structs.fields(struct)}
            self.records[name] = _record(name, dict(sorted(fields.items())))
        return self.records[name]

    def _struct_field(self, owner: str, field: msgspec.structs.FieldInfo) -> Field:
        path = f"{owner}.{field.encode_name}"
        factory = field.default_factory
        is_written = factory is not msgspec.NODEFAULT and factory is not dict  # which is the default of every map
        is_required = is_written and not isinstance(factory(), Struct) and path not in _NOT_REQUIRED
        omits_empty = field.type is str and not is_written  # else it may be None, which an empty text is not
        return _field(path, self._of_type(field.type), is_required or path in _REQUIRED, is_written, omits_empty)

    def _of_type(self, hint: Any) -> Schema:
        if hint == IntOrString:
            return INT_OR_STRING
        origin, arguments = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            chosen = [each for each in arguments if each is not type(None)]
            return self._of_type(chosen[0]) if len(chosen) == 1 else INT_OR_STRING
        if origin is Annotated:
            inner, meta = arguments[0], arguments[1]
            if inner is int:
                return _NAMED["int32" if meta.ge == -(2**31) else "int64"]
            return self._of_type(inner)
        if origin is tuple:
            return ListOf(self._of_type(arguments[0]))
        if origin is not None:  # a mapping
            return MapOf(self._of_type(arguments[1]))
        return self._of_class(hint)

    def _of_class(self, hint: Any) -> Schema:
        simple: dict[Any, Schema] = {
            Any: ANYTHING,
            MicroTime: MICRO_TIME,
            Quantity: QUANTITY,
            bool: _NAMED["bool"],
            bytes: _NAMED["bytes"],
            datetime: TIME,
            float: Scalar("number", "double"),
            int: _NAMED["int64"],
            str: _NAMED["string"],
        }
        return simple[hint] if hint in simple else self._of_struct(hint)

    # --- from text

    def _of_text(self, name: str) -> Record:
        if name in self.records:
            return self.records[name]
        mark, where, text = self._pending[name]
        owner = name.rpartition(".")[2]
        fields = {}
        for part in filter(None, map(str.strip, text.split(","))):
            spelled, _, kind = part.partition(" ")
            label = spelled.rstrip("!")
            schema, is_required = self._named(kind.strip(), where), spelled.endswith("!")
            is_written = is_required or (bool(mark) and label in ("spec", "status"))
            fields[label] = _field(f"{owner}.{label}", schema, is_required, is_written)
        if mark:
            for label in ("apiVersion", "kind"):
                fields[label] = _field(f"{owner}.{label}", _NAMED["string"], False, False)
        if mark == "*":
            fields["metadata"] = _field(f"{owner}.metadata", self.records[f"{META}.ObjectMeta"], False, True)
        self.records[name] = _record(name, dict(sorted(fields.items())))
        return self.records[name]

    def _named(self, kind: str, where: str) -> Schema:
        if kind.startswith("["):
            return ListOf(self._named(kind[1:-1], where))
        if kind.startswith("{"):
            return MapOf(self._named(kind[1:-1], where))
        if kind in _NAMED:
            return _NAMED[kind]
        for section_ in (where, CORE, META):
            name = f"{section_}.{kind}"
            if name in self.records or name in self._pending:
                return self._of_text(name)
        raise LookupError(f"no type is called {kind}")


def _lines() -> Iterator[tuple[str, str, str, str]]:
    """-> the section, mark, name and fields of each type in the text"""
    where = ""
    for line in re.sub(r"\n +", " ", TEXT).split("\n"):
        if line.startswith("["):
            where = line.strip("[]")
        elif found := _LINE.fullmatch(line):
            yield where, found[1], found[2], found[3]


def _record(name: str, fields: dict[str, Field]) -> Record:
    short = name.rpartition(".")[2]
    return Record(name, fields, TYPE_DESCRIPTIONS.get(short, ""), short in ATOMIC_TYPES)


def _field(path: str, schema: Schema, is_required: bool, is_written: bool, omits_empty: bool = False) -> Field:
    path = path.removeprefix("Ephemeral")  # its containers have the fields of any other
    fact = LISTS.get(path)
    if isinstance(schema, ListOf) and fact is not None:
        schema = _merging(schema, fact)
    elif isinstance(schema, MapOf) and path in ATOMIC_MAPS:
        schema = MapOf(schema.items, is_atomic=True)
    elif isinstance(schema, Record) and path in GRANULAR_FIELDS:
        schema = msgspec.structs.replace(schema, is_atomic=False)
    label = path.rpartition(".")[2]
    description = FIELD_DESCRIPTIONS.get(path) or FIELD_DESCRIPTIONS.get(label, "")
    default, enum = DEFAULTS.get(path), ENUMS.get(path, ())
    return Field(schema, description, is_required, is_written, omits_empty, default, enum)


def _merging(schema: ListOf, fact: ListFact) -> ListOf:
    relation: Literal["atomic", "set", "map"] = "map" if fact.keys else "set" if fact.is_set else "atomic"
    return ListOf(schema.items, relation, fact.keys, fact.is_merged, fact.merge_key, fact.retains_keys)
