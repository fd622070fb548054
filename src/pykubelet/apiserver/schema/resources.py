"""The resources that the server keeps: where each lives in the store, and how its objects begin there."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec

from pykubelet.apiserver.schema import kinds
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.schema import Schema

ROOT: Final = "/registry/"
_PREFIXES: Final = {
    ("", "replicationcontrollers"): "controllers",
    ("", "endpoints"): "services/endpoints",
    ("", "nodes"): "minions",
    ("", "services"): "services/specs",
    ("networking.k8s.io", "ingresses"): "ingress",
}
_HIDDEN: Final = (  # kept for the server's own use, and served to nobody
    kinds.Resource(
        group="networking.k8s.io", kind="IPAddress", plural="ipaddresses", singular="ipaddress", namespaced=False
    ),
)


class Resource(msgspec.Struct, frozen=True, dict=True):
    """A row of the table of kinds, with its place in the store."""

    row: kinds.Resource

    def __hash__(self) -> int:
        return hash((self.group, self.version, self.plural))

    @cached_property
    def group(self) -> str:
        return self.row.group

    @cached_property
    def version(self) -> str:
        return self.row.version

    @cached_property
    def kind(self) -> str:
        return self.row.kind

    @cached_property
    def plural(self) -> str:
        return self.row.plural

    @cached_property
    def namespaced(self) -> bool:
        return self.row.namespaced

    @cached_property
    def subresources(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.row.subresources)

    @cached_property
    def api_version(self) -> str:
        return self.row.api_version

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

    def verbs_of(self, subresource: str) -> tuple[str, ...]:
        """What may be done with it, or with a part of it; nothing with a part that it does not have."""
        if not subresource:
            return self.row.verbs
        part = self.row.subresource(subresource)
        return part.verbs if part else ()


class Resources:
    """Resources by where they are found in a path."""

    def __init__(self, rows: Iterable[kinds.Resource] = kinds.RESOURCES) -> None:
        self.served = tuple(rows)
        self._by_path: Mapping[tuple[str, str, str], Resource] = {
            (row.group, row.version, row.plural): Resource(row) for row in self.served
        }
        everything = (*self._by_path.values(), *map(Resource, _HIDDEN))
        self._by_name = {(each.group, each.plural): each for each in everything}

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """What a path means; None when there is nothing."""
        return self._by_path.get((group, version, plural))

    def of(self, group: str, plural: str) -> Resource:
        """A resource that is known to be there."""
        return self._by_name[group, plural]

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_name.values())
