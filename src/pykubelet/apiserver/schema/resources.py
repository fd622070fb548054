"""What a resource is: what clients may do with it, where its objects live in the store, and how they begin there."""

import base64
import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, TypeAlias

import msgspec

from pykubelet.api.struct import Struct
from pykubelet.apiserver.schema.catalogue import schema_of, section
from pykubelet.apiserver.schema.schema import Schema

ROOT: Final = "/registry/"
ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_PLACES: Final = {
    ("", "endpoints"): "services/endpoints",
    ("", "nodes"): "minions",
    ("", "replicationcontrollers"): "controllers",
    ("", "servicenodeports"): "ranges/servicenodeports",
    ("", "services"): "services/specs",
    ("apiextensions.k8s.io", "customresourcedefinitions"): "apiextensions.k8s.io/customresourcedefinitions",
    ("apiregistration.k8s.io", "apiservices"): "apiregistration.k8s.io/apiservices",
    ("networking.k8s.io", "ingresses"): "ingress",
}

StructType: TypeAlias = type[Struct]


class Subresource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""  # of the kind, where it is not that of the resource
    version: str = ""


class ScalePaths(msgspec.Struct, frozen=True):
    """Where the sub-resource `scale` finds its numbers, as dotted paths."""

    spec_replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str = ""
    """Where the selector of its pods stands as text; empty: it is made of spec.selector, or there is none."""


class Column(msgspec.Struct, frozen=True):
    """Of a printed table, for a resource that was defined at runtime."""

    name: str
    type: str
    json_path: str
    format: str = ""
    description: str = ""
    priority: int = 0


class Resource(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    group: str = ""
    version: str = "v1"
    kind: str
    plural: str
    singular: str = ""
    list_kind: str = ""
    namespaced: bool = True
    type: StructType | None = None
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    is_stored: bool = True  # else it is a question, answered and forgotten, or made up when it is asked for
    stored_in: str = ""  # the version of its group that its objects are stored in, where it is not this one
    storage_hash: str = ""
    counts_generations: bool = False  # metadata.generation says how often it was changed but for its status
    is_custom: bool = False  # defined at runtime
    given_schema: Schema | None = None  # of a custom one
    openapi: Mapping[str, Any] | None = None  # how a custom one is published, in the words of OpenAPI 3
    columns: tuple[Column, ...] = ()  # of a custom one
    scale: ScalePaths | None = None
    selectable: tuple[str, ...] = ()  # more fields of a custom one that may be selected by, as dotted paths
    deprecation: str = ""  # what whoever uses it is told

    def __post_init__(self) -> None:
        if not self.list_kind:
            msgspec.structs.force_setattr(self, "list_kind", f"{self.kind}List")

    def __hash__(self) -> int:
        return hash(self.path)

    @cached_property
    def path(self) -> tuple[str, str, str]:
        """Where it is found: group, version and plural."""
        return self.group, self.version, self.plural

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of its group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def unread(self) -> int:
        """How large that part of its definition is that nobody has looked at yet."""
        return 0

    async def read(self) -> None:
        """Have at hand what objects are looked at with."""

    @cached_property
    def place(self) -> str:
        """Where its objects are in the store, which all of its versions share."""
        usual = f"{self.group}/{self.plural}" if self.is_custom else self.plural
        return _PLACES.get((self.group, self.plural), usual)

    @cached_property
    def prefix(self) -> str:
        """What the keys of all its objects begin with."""
        return f"{ROOT}{self.place}/"

    @cached_property
    def head(self) -> bytes:
        """What the stored form of each of its objects begins with."""
        encoded = msgspec.json.encode
        return b'{"apiVersion":%s,"kind":%s,"metadata":{' % (encoded(self.api_version), encoded(self.kind))

    @cached_property
    def schema(self) -> Schema:
        return self.given_schema or schema_of(self.api_version, self.kind)

    @cached_property
    def section(self) -> str:
        """What comes before its kind in the name that OpenAPI gives to its type."""
        if self.is_custom:
            return ".".join((*reversed(self.group.split(".")), self.version))
        return section(self.group, self.version)

    def key(self, namespace: str, name: str) -> str:
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"

    def folder(self, namespace: str) -> str:
        """What the keys of the objects in one namespace, or in all, begin with."""
        return f"{self.prefix}{namespace}/" if self.namespaced and namespace else self.prefix

    def subresource(self, name: str) -> Subresource | None:
        return next((each for each in self.subresources if each.name == name), None)

    def verbs_of(self, subresource: str) -> tuple[str, ...]:
        """What may be done with it, or with a part of it; nothing with a part that it does not have."""
        if not subresource:
            return self.verbs
        part = self.subresource(subresource)
        return part.verbs if part else ()


def storage_hash(group: str, version: str, kind: str) -> str:
    """By which clients see that objects are stored in another version than before."""
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()
