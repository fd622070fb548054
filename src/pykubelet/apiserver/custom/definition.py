"""The resources that a CustomResourceDefinition defines: one for each version that is served.

Of a thousand definitions few are ever used. What is needed to find a resource and to list it in discovery is read at
once; its schema is read from the stored definition when the first object, or whoever asks for OpenAPI, needs it.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec

from pykubelet.apiserver.custom.declarations import Schema as Given
from pykubelet.apiserver.custom.pruning import Default, defaulter
from pykubelet.apiserver.custom.rules import RuleTree, rule_tree
from pykubelet.apiserver.custom.trees import schema_tree
from pykubelet.apiserver.custom.validation import Check, checker
from pykubelet.apiserver.schema.resources import (
    ALL_VERBS,
    Column,
    Resource,
    ScalePaths,
    Subresource,
    storage_hash,
)
from pykubelet.apiserver.schema.schema import Schema

Object = dict[str, Any]

_CHANGING: Final = ("get", "patch", "update")
_VERSION: Final = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STAGES: Final = {None: 2, "beta": 1, "alpha": 0}
_AGE: Final = Column(
    name="Age",
    type="date",
    json_path=".metadata.creationTimestamp",
    description="When the object was made.",
)


class _Text(msgspec.Struct):
    spec: "_Spec"


class _Spec(msgspec.Struct):
    versions: "list[_Version]"


class _Version(msgspec.Struct):
    name: str
    schema: dict[str, Any] = {}


_versions: Final = msgspec.json.Decoder(_Text)


class VersionSchema(Mapping[str, Any]):
    """The schema of one version, and what is made of it. As a text it is what tells it from others of its name."""

    def __init__(self, definition: bytes, version: str, identity: str) -> None:
        self._definition: bytes | None = definition
        self._version = version
        self._identity = identity
        self.unread = len(definition)
        """Bytes of which nothing was made yet that objects are looked at with."""

    def read(self) -> None:
        """Make it now."""
        for made in ("check", "rules", "put_defaults"):
            getattr(self, made)
        self.unread = 0

    @cached_property
    def given(self) -> Given:
        """As its author wrote it."""
        text = _versions.decode(self._definition or b"")
        self._definition = None
        found = next((each.schema for each in text.spec.versions if each.name == self._version), {})
        return found.get("openAPIV3Schema") or {}

    @cached_property
    def check(self) -> Check:
        return checker(self.given)

    @cached_property
    def rules(self) -> RuleTree | None:
        return rule_tree(self.given)

    @cached_property
    def put_defaults(self) -> Default | None:
        return defaulter(self.given)

    @cached_property
    def status_has_defaults(self) -> bool:
        status = (self.given.get("properties") or {}).get("status") or {}
        return status.get("default") is not None

    def __getitem__(self, key: str) -> Any:
        return self.given[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)

    def __str__(self) -> str:
        return self._identity


class CustomResource(Resource, frozen=True, kw_only=True, dict=True):
    """One version of a custom resource."""

    __hash__ = Resource.__hash__

    definition: VersionSchema
    storage: str
    """The version that objects are stored in."""
    stored_as: VersionSchema
    """Its schema."""
    others: int
    """How many other versions objects may be in: then each is looked at before it is shown."""
    was_changed: bool
    """Whether the definition was ever changed: then what is stored may not be what the schema says now."""
    is_terminating: bool

    @cached_property
    def schema(self) -> Schema:
        return schema_tree(self.definition.given, f"{self.section}.{self.kind}")

    @property
    def unread(self) -> int:
        return self.definition.unread

    async def read(self) -> None:
        """Of a large definition it takes long."""
        self.stored_as.read()
        self.definition.read()


def custom_resources(crd: Object, stored: bytes) -> list[CustomResource]:
    """What is served, best version first. `stored` is the definition as it is in the store."""
    spec, status = crd["spec"], crd.get("status") or {}
    names = status.get("acceptedNames") or spec["names"]
    served = sorted((each for each in spec["versions"] if each.get("served")), key=_rank, reverse=True)
    storage = next(each["name"] for each in spec["versions"] if each.get("storage"))
    base = storage if any(each["name"] == storage for each in served) else served[0]["name"] if served else ""
    metadata = crd["metadata"]
    schemas = {each["name"]: _schema(crd, stored, each["name"]) for each in spec["versions"]}
    is_terminating = bool(metadata.get("deletionTimestamp"))
    others = len({*(each["name"] for each in spec["versions"]), *(status.get("storedVersions") or ())}) - 1
    return [
        CustomResource(
            group=spec["group"],
            version=each["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            list_kind=names.get("listKind") or f"{names['kind']}List",
            namespaced=spec["scope"] == "Namespaced",
            verbs=tuple(verb for verb in ALL_VERBS if verb != "create" or not is_terminating),
            subresources=tuple(_subresources(each, names["kind"])),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            stored_in="" if each["name"] == base else base,
            storage_hash=storage_hash(spec["group"], storage, names["kind"]),
            counts_generations=True,
            is_custom=True,
            openapi=schemas[each["name"]],
            definition=schemas[each["name"]],
            columns=_columns(each),
            scale=_scale(each),
            selectable=tuple(field["jsonPath"].lstrip(".") for field in each.get("selectableFields") or ()),
            deprecation=_deprecation(each, spec["group"], names["kind"]),
            storage=storage,
            stored_as=schemas[storage],
            others=others,
            was_changed=metadata.get("generation", 1) > 1,
            is_terminating=is_terminating,
        )
        for each in served
    ]


def _rank(version: Mapping[str, Any]) -> tuple[int, int, int, int, str]:
    """v2 before v1 before v1beta2 before v1alpha1 before any other name."""
    found = _VERSION.fullmatch(version["name"])
    if found is None:
        return 0, 0, 0, 0, "".join(chr(0x10FFFF - ord(each)) for each in version["name"])
    return 1, _STAGES[found[2]], int(found[1]), int(found[3] or 0), ""


def _schema(crd: Object, stored: bytes, version: str) -> VersionSchema:
    metadata = crd["metadata"]
    return VersionSchema(stored, version, f"{metadata.get('uid')}/{metadata.get('generation')}/{version}")


def _subresources(version: Mapping[str, Any], kind: str) -> Iterator[Subresource]:
    given = version.get("subresources") or {}
    if given.get("scale") is not None:
        yield Subresource("scale", "Scale", _CHANGING, "autoscaling", "v1")
    if given.get("status") is not None:
        yield Subresource("status", kind, _CHANGING)


def _scale(version: Mapping[str, Any]) -> ScalePaths | None:
    given = (version.get("subresources") or {}).get("scale")
    if given is None:
        return None
    return ScalePaths(
        given["specReplicasPath"].lstrip("."),
        given["statusReplicasPath"].lstrip("."),
        (given.get("labelSelectorPath") or "").lstrip("."),
    )


def _columns(version: Mapping[str, Any]) -> tuple[Column, ...]:
    given = version.get("additionalPrinterColumns")
    if not given:
        return (_AGE,)
    return tuple(
        Column(
            each["name"],
            each["type"],
            each["jsonPath"],
            each.get("format") or "",
            each.get("description") or "",
            each.get("priority") or 0,
        )
        for each in given
    )


def _deprecation(version: Mapping[str, Any], group: str, kind: str) -> str:
    if not version.get("deprecated"):
        return ""
    return version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated"
