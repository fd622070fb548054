"""What a resource is: what clients may do with it, where its objects live in the store, and how they begin there."""

from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from pykubelet.api.struct import Struct
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.schema import Schema

ROOT: Final = "/registry/"
ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_PREFIXES: Final = {
    ("", "endpoints"): "services/endpoints",
    ("", "nodes"): "minions",
    ("", "services"): "services/specs",
}

StructType: TypeAlias = type[Struct]


class Subresource(msgspec.Struct, frozen=True):
    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""  # of the kind, where it is not that of the resource
    version: str = ""


class Resource(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    group: str = ""
    version: str = "v1"
    kind: str
    named: str = ""  # its plural, where that is not made of its kind
    namespaced: bool = True
    type: StructType | None = None
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    is_stored: bool = True  # else it is a question, answered and forgotten, or made up when it is asked for

    def __hash__(self) -> int:
        return hash((self.group, self.version, self.plural))

    @cached_property
    def plural(self) -> str:
        singular = self.kind.lower()
        return self.named or singular + ("es" if singular.endswith("s") else "s")

    @property
    def singular(self) -> str:
        """Empty where the plural is that of another kind."""
        singular = self.kind.lower()
        return singular if self.plural.startswith(singular) else ""

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of its group and version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @cached_property
    def prefix(self) -> str:
        """What the keys of all its objects begin with."""
        return f"{ROOT}{_PREFIXES.get((self.group, self.plural), self.plural)}/"

    @cached_property
    def head(self) -> bytes:
        """What the stored form of each of its objects begins with."""
        encoded = msgspec.json.encode
        return b'{"apiVersion":%s,"kind":%s,"metadata":{' % (encoded(self.api_version), encoded(self.kind))

    @cached_property
    def schema(self) -> Schema:
        return schema_of(self.api_version, self.kind)

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
