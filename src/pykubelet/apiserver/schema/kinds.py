"""The kinds that the API server serves: those of upstream's v1.34, made of the generated facts, and more at runtime.

Discovery, OpenAPI and the routes of the server are all made of this table, whenever they are asked for. A resource that
is defined at runtime is brought by `Backend.serve(versions, make)`: one `Resource` for each version, with `is_custom`,
its `given_schema` (what is stored, pruned, merged and applied by), `openapi` (how it is published), `columns`, `scale`,
`selectable` and `stored_in`; `make` gives the `Strategy` of each. All versions share one place in the store: a strategy
with `converts` says in `from_storage` and `to_storage` how its version differs from what is stored. To serve it again
replaces it, and `Backend.withdraw(group, plural)` takes it away; its objects stay in the store until they are deleted.
Whoever has made something of the table asks `revision` whether it still holds; a watch ends when its resource is no
longer served as it was.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from pykubelet.api.node import Node
from pykubelet.api.objects import ConfigMap, Event, Lease, Secret
from pykubelet.api.pod import Pod
from pykubelet.apiserver.schema.facts import ResourceFact, resource_facts
from pykubelet.apiserver.schema.resources import ROOT, Resource, ScalePaths, StructType, Subresource

_READ: Final = ("get", "list")
_STRUCTS: Final[dict[tuple[str, str], StructType]] = {
    ("", "configmaps"): ConfigMap,
    ("", "events"): Event,
    ("", "nodes"): Node,
    ("", "pods"): Pod,
    ("", "secrets"): Secret,
    ("coordination.k8s.io", "leases"): Lease,
}
"""What is decoded to be defaulted and validated. What has none is stored as it comes, as far as it fits its type."""
_STORED_IN: Final = {("autoscaling", "v1", "horizontalpodautoscalers"): "v2"}
_COUNTING: Final = {
    "": ("pods", "podtemplates", "replicationcontrollers"),
    "admissionregistration.k8s.io": (
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    ),
    "apiextensions.k8s.io": ("customresourcedefinitions",),
    "apps": ("daemonsets", "deployments", "replicasets", "statefulsets"),
    "batch": ("cronjobs", "jobs"),
    "discovery.k8s.io": ("endpointslices",),
    "flowcontrol.apiserver.k8s.io": ("flowschemas", "prioritylevelconfigurations"),
    "networking.k8s.io": ("ingressclasses", "ingresses", "networkpolicies"),
    "policy": ("poddisruptionbudgets",),
    "resource.k8s.io": ("deviceclasses", "resourceslices"),
    "scheduling.k8s.io": ("priorityclasses",),
}
_DEPRECATED: Final = {
    ("", "componentstatuses"): "v1 ComponentStatus is deprecated in v1.19+",
    ("", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_METRICS: Final = tuple(
    Resource(
        group="metrics.k8s.io",
        version="v1beta1",
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        verbs=_READ,
        is_stored=False,
    )
    for kind, plural, namespaced in (("NodeMetrics", "nodes", False), ("PodMetrics", "pods", True))
)

_OWN_USE: Final = (
    Resource(
        kind="RangeAllocation",
        plural="servicenodeports",
        namespaced=False,
        verbs=(),
    ),
)
"""Kept for the server's own use, and served to nobody: a port of the nodes that a service has."""


@cache
def built_in() -> tuple[Resource, ...]:
    """What is always served, in the order of discovery."""
    return (*map(_resource, resource_facts()), *_METRICS)


def _resource(fact: ResourceFact) -> Resource:
    where = (fact.group, fact.plural)
    parts = tuple(Subresource(each.name, each.kind, each.verbs, each.group, each.version) for each in fact.parts)
    return Resource(
        group=fact.group,
        version=fact.version,
        kind=fact.kind,
        plural=fact.plural,
        singular=fact.singular,
        namespaced=fact.namespaced,
        type=_STRUCTS.get(where),
        verbs=fact.verbs,
        subresources=parts,
        short_names=fact.short_names,
        categories=fact.categories,
        is_stored=bool(fact.hash),
        stored_in=_STORED_IN.get((fact.group, fact.version, fact.plural), ""),
        storage_hash=fact.hash,
        counts_generations=fact.plural in _COUNTING.get(fact.group, ()),
        scale=ScalePaths() if any(each.name == "scale" for each in parts) else None,
        deprecation=_DEPRECATED.get(where, ""),
    )


class Resources:
    """Resources by where they are found in a path. Iterating gives each version of each."""

    def __init__(self) -> None:
        self.revision = 0
        """Changes whenever the table does."""
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_name: dict[tuple[str, str], Resource] = {}
        self._by_place: dict[str, Resource] = {}
        self._versions: dict[tuple[str, str], list[Resource]] = {}
        for each in built_in():
            self._note(each)
        self.own_use = _OWN_USE
        for each in self.own_use:
            self._by_name[each.group, each.plural] = each

    def _note(self, each: Resource) -> None:
        name = (each.group, each.plural)
        self._by_path[each.path] = each
        self._versions.setdefault(name, []).append(each)
        if not each.stored_in:
            self._by_name[name] = each
            if each.is_stored:
                self._by_place.setdefault(each.place, each)  # events are served by two groups

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """What a path means; None when there is nothing."""
        return self._by_path.get((group, version, plural))

    def of(self, group: str, plural: str) -> Resource:
        """A resource that is known to be there, in the version that it is stored in."""
        return self._by_name[group, plural]

    def versions(self, group: str, plural: str) -> Sequence[Resource]:
        """All versions of a resource; nothing when there is none of this name."""
        return tuple(self._versions.get((group, plural), ()))

    def at(self, key: str) -> Resource | None:
        """Whose object is under a key of the store; None for those that nobody serves any more."""
        parts = key[len(ROOT) :].split("/", 2)
        return self._by_place.get(parts[0]) or self._by_place.get("/".join(parts[:2]))

    def __iter__(self) -> Iterator[Resource]:
        return iter(tuple(self._by_path.values()))

    def add(self, versions: Sequence[Resource]) -> None:
        """All versions of one resource, best first; those that there were before go."""
        group, plural = versions[0].group, versions[0].plural
        self.remove(group, plural)
        for each in versions:
            self._note(each)
        self.revision += 1

    def remove(self, group: str, plural: str) -> list[Resource]:
        """-> the versions that are gone; what is built in stays"""
        if any(not each.is_custom for each in self._versions.get((group, plural), ())):
            raise ValueError(f"{plural} of the group {group!r} is built in, and cannot be defined anew")
        gone = self._versions.pop((group, plural), [])
        for each in gone:
            del self._by_path[each.path]
            self._by_place.pop(each.place, None)
        self._by_name.pop((group, plural), None)
        self.revision += bool(gone)
        return gone
