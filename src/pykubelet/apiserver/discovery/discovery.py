"""What a client asks first: which groups, versions and resources there are.

Old clients read it document by document, newer ones all at once (`apidiscovery.k8s.io`); both are made of one table,
and of what other API servers answer for (`Other`), which have the last word about a version that both have.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from pykubelet.apiserver.schema.kinds import Resources
from pykubelet.apiserver.schema.resources import Resource, Subresource

Json = dict[str, Any]

AggregatedVersion = Literal["v2", "v2beta1"]
_VERSION: Final = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STAGES: Final = {None: 0, "beta": 1, "alpha": 2}
_AGGREGATED: Final[tuple[AggregatedVersion, ...]] = ("v2", "v2beta1")


class Other(msgspec.Struct, frozen=True):
    """A version of a group that another server answers for."""

    group: str
    version: str
    resources: tuple[Json, ...] | None = None
    """As it lists them itself; None: it has not been heard of lately."""


Others = Sequence[Other]


def api_versions(server_address: str) -> Json:
    """/api"""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def group_list(resources: Resources, others: Others = ()) -> Json:
    """/apis"""
    groups = [_group(name, versions) for name, versions in _groups(resources, others).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(resources: Resources, name: str, others: Others = ()) -> Json | None:
    """/apis/<group>; None when there is no such group"""
    versions = _groups(resources, others).get(name)
    if not name or versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(resources: Resources, name: str, version: str) -> Json | None:
    """/api/v1 and /apis/<group>/<version>; None when there is no such version"""
    here = _groups(resources).get(name, {}).get(version)
    if not here or isinstance(here, Other):
        return None
    listed = [entry for each in here for entry in (_resource(each), *_subresources(each))]
    listed.sort(key=lambda entry: str(entry["name"]))
    head: Json = {"kind": "APIResourceList", "groupVersion": here[0].api_version}
    if name:
        head["apiVersion"] = "v1"
    return {**head, "resources": listed}


def aggregated(resources: Resources, *, is_core: bool, version: AggregatedVersion = "v2", others: Others = ()) -> Json:
    """/api or /apis for a client that accepts `as=APIGroupDiscoveryList`"""
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [_version(each, here) for each, here in versions.items()],
        }
        for name, versions in _groups(resources, others).items()
        if bool(name) != is_core
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": items,
    }


def aggregated_version(accept: str) -> AggregatedVersion | None:
    """Which version of the aggregated form a client takes, by its Accept header; None for the old form.

    The header lists what the client likes, best first; the old form is plain JSON.
    """
    for offer in accept.split(","):
        parts = dict(part.strip().partition("=")[::2] for part in offer.split(";"))
        if "application/json" not in parts and "*/*" not in parts:
            continue
        if parts.get("as") == "APIGroupDiscoveryList" and parts.get("g") == "apidiscovery.k8s.io":
            for version in _AGGREGATED:
                if parts.get("v") == version:
                    return version
        elif "as" not in parts:
            return None
    return None


def aggregated_content_type(version: AggregatedVersion) -> str:
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def _groups(resources: Resources, others: Others = ()) -> dict[str, dict[str, list[Resource] | Other]]:
    """What is served, by group and version."""
    own: dict[str, dict[str, list[Resource]]] = {}
    for each in resources:
        own.setdefault(each.group, {}).setdefault(each.version, []).append(each)
    found: dict[str, dict[str, list[Resource] | Other]] = {name: {**versions} for name, versions in own.items()}
    for other in others:
        found.setdefault(other.group, {})[other.version] = other
    return {name: dict(sorted(versions.items(), key=_priority)) for name, versions in found.items()}


def _priority(version: tuple[str, Any]) -> tuple[int, int, int, str]:
    """Stable ones first, then beta and alpha, each from new to old; what is no version comes last."""
    found = _VERSION.fullmatch(version[0])
    if found is None:
        return 3, 0, 0, version[0]
    major, stage, minor = found.groups()
    return _STAGES[stage], -int(major), -int(minor or 0), ""


def _group(name: str, versions: Iterable[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource(each: Resource) -> Json:
    entry = {
        "name": each.plural,
        "singularName": each.singular,
        "namespaced": each.namespaced,
        "kind": each.kind,
        "verbs": list(each.verbs),
    }
    entry |= _how_else(each)
    return entry | ({"storageVersionHash": each.storage_hash} if each.storage_hash else {})


def _how_else(each: Resource) -> Json:
    """What else it may be called by."""
    told = {"shortNames": list(each.short_names), "categories": list(each.categories)}
    return {name: words for name, words in told.items() if words}


def _subresources(each: Resource) -> list[Json]:
    entries = []
    for part in each.subresources:
        entry: Json = {"name": f"{each.plural}/{part.name}", "singularName": "", "namespaced": each.namespaced}
        if part.group:
            entry |= {"group": part.group, "version": part.version}
        entries.append({**entry, "kind": part.kind, "verbs": list(part.verbs)})
    return entries


def _version(version: str, here: list[Resource] | Other) -> Json:
    if isinstance(here, Other):
        told = _others_resources(here) if here.resources is not None else []
        return {"version": version, "resources": told, "freshness": "Stale" if here.resources is None else "Current"}
    listed = [_aggregated_resource(each) for each in sorted(here, key=lambda each: each.plural)]
    return {"version": version, "resources": listed, "freshness": "Current"}


def _aggregated_resource(each: Resource) -> Json:
    entry: Json = {
        "resource": each.plural,
        "responseKind": {**_home(each), "kind": each.kind},
        "scope": "Namespaced" if each.namespaced else "Cluster",
        "singularResource": each.singular,
        "verbs": list(each.verbs),
    }
    entry |= _how_else(each)
    if each.subresources:
        entry["subresources"] = [_aggregated_part(each, part) for part in each.subresources]
    return entry


def _home(each: Resource) -> Json:
    """Where its kind is from: upstream says so of custom ones alone."""
    return {"group": each.group, "version": each.version} if each.is_custom else {"group": "", "version": ""}


def _aggregated_part(each: Resource, part: Subresource) -> Json:
    home = {"group": part.group, "version": part.version} if part.group else _home(each)
    return {
        "subresource": part.name,
        "responseKind": {**home, "kind": part.kind},
        "verbs": list(part.verbs),
    }


def _others_resources(other: Other) -> list[Json]:
    """From the old form to the new one."""
    found: dict[str, Json] = {}
    for each in sorted(other.resources or (), key=lambda each: str(each["name"])):
        name, _, part = str(each["name"]).partition("/")
        home = {"group": each.get("group") or other.group, "version": each.get("version") or other.version}
        shared = {"responseKind": {**home, "kind": each["kind"]}, "verbs": each.get("verbs") or []}
        if part and name in found:
            found[name].setdefault("subresources", []).append({"subresource": part, **shared})
        elif not part:
            more = {key: each[key] for key in ("shortNames", "categories") if each.get(key)}
            scope = "Namespaced" if each.get("namespaced") else "Cluster"
            singular = each.get("singularName", "")
            found[name] = {"resource": name, "scope": scope, "singularResource": singular, **shared, **more}
    return list(found.values())
