"""The roles and bindings that a cluster begins with, put right at each start: what is missing is added, what somebody
has added stays, and what is marked as its owner's own is left alone."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, Final

import msgspec

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.options import DeleteOptions, Preconditions
from pykubelet.apiserver.requests.users import BOOTSTRAPPERS, KUBELET_CLIENT, NODES
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.security.rbac.policy import BINDINGS, ROLES
from pykubelet.apiserver.security.rbac.rules import GROUP, rules_of, uncovered
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Entry
from pykubelet.apiserver.strategies.base import normal
from pykubelet.apiserver.writer.author import KUBE_APISERVER
from pykubelet.apiserver.writer.writer import Writer

log = logging.getLogger(__name__)

AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
_COMMON: Final = {
    "annotations": {AUTO_UPDATE: "true"},
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
}
_CERTIFICATES: Final = "system:certificates.k8s.io:certificatesigningrequests"
_OWN_BINDINGS: Final = (
    ("pykubelet:node-bootstrapper", "system:node-bootstrapper", "Group", BOOTSTRAPPERS),
    ("pykubelet:node-autoapprove-bootstrap", f"{_CERTIFICATES}:nodeclient", "Group", BOOTSTRAPPERS),
    ("pykubelet:node-autoapprove-certificate-rotation", f"{_CERTIFICATES}:selfnodeclient", "Group", NODES),
    ("pykubelet:kubelet-api-admin", "system:kubelet-api-admin", "User", KUBELET_CLIENT),
)
"""What upstream leaves to those who set up a cluster: nodes can join, and the server may come to their kubelets."""
_TRIES: Final = 4


def bootstrap_policy() -> list[Object]:
    """Roles first, so that there is something to bind."""
    text = resources.files(__package__).joinpath("bootstrap_policy.json").read_bytes()
    found: list[Object] = msgspec.json.decode(text)
    found += [_own_binding(*each) for each in _OWN_BINDINGS]
    return [{**each, "metadata": _with_common(each["metadata"])} for each in found]


def _own_binding(name: str, role: str, kind: str, subject: str) -> Object:
    return {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": kind, "name": subject}],
    }


def _with_common(metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, **{field: {**common, **metadata.get(field, {})} for field, common in _COMMON.items()}}


async def reconcile_policy(backend: Backend) -> None:
    """All at once: a store that is told of many writes together bears them together. What cannot be put right stands in
    nobody else's way."""
    writer, there = Writer(backend, KUBE_APISERVER), {}
    for plural in (*ROLES, *BINDINGS):
        for entry in (await backend.cache.list_newest(backend.resources.of(GROUP, plural).prefix)).entries:
            there[entry.key] = entry
    await asyncio.gather(*(_try(writer, each, there) for each in bootstrap_policy()))


async def _try(writer: Writer, wanted: Object, there: Mapping[str, Entry]) -> None:
    try:
        await _reconcile(writer, wanted, there)
    except ApiError as error:
        log.warning("%s %s is not as it should be: %s", wanted["kind"], wanted["metadata"]["name"], error.message)


async def _reconcile(writer: Writer, wanted: Object, there: Mapping[str, Entry]) -> None:
    resource = writer.backend.resources.of(GROUP, f"{wanted['kind'].lower()}s")
    namespace, name = wanted["metadata"].get("namespace", ""), wanted["metadata"]["name"]
    for attempt in range(_TRIES):
        key = resource.key(namespace, name)
        entry = await writer.backend.store.get(key) if attempt else there.get(key)
        if entry is None:
            if await writer.ensure(resource, wanted):
                return
            continue
        live = writer.backend.object_of(resource, entry.value, entry.revision)
        if live["metadata"].get("annotations", {}).get(AUTO_UPDATE) == "false":
            return
        try:
            if await _put_right(writer, resource, live, wanted):
                return
        except ApiError as error:
            if error.reason not in ("NotFound", "Conflict") or attempt == _TRIES - 1:
                raise


async def _put_right(writer: Writer, resource: Resource, live: Object, wanted: Object) -> bool:
    """Whether it is as it should be; else it has to be made anew."""
    metadata = live["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    if "roleRef" in wanted and live.get("roleRef") != wanted["roleRef"]:
        exactly = DeleteOptions(preconditions=Preconditions(uid=metadata.get("uid", "")))
        await writer.delete(resource, namespace, name, exactly)
        return False
    if completed(live, wanted) is None:
        return True
    strategy = writer.backend.strategy(resource)

    def change(old: Object) -> Object | None:
        new = completed(old, wanted)
        return None if new is None else normal(strategy, new)

    await writer.change(resource, namespace, name, change)
    return True


def completed(live: Object, wanted: Object) -> Object | None:
    """`live` with all that is wanted; None when it has all of it."""
    metadata = {**live["metadata"]}
    for field in _COMMON:
        metadata[field] = {**wanted["metadata"][field], **live["metadata"].get(field, {})}
    new = {**live, "metadata": metadata}
    if "roleRef" in wanted:
        new["subjects"] = [*live.get("subjects", ()), *_not_in(live.get("subjects", ()), wanted.get("subjects", ()))]
    else:
        lacking = uncovered(rules_of(live), rules_of(wanted))  # of which there are few
        new["rules"] = [*(live.get("rules") or ()), *(each.json() for each in lacking)]
        path = "aggregationRule.clusterRoleSelectors"
        has, wants = at(live, path, []), at(wanted, path, [])
        if wants:
            new["aggregationRule"] = {"clusterRoleSelectors": [*has, *_not_in(has, wants)]}
        else:
            new.pop("aggregationRule", None)
    return None if _content(new) == _content(live) else new


def _not_in(there: Iterable[Any], wanted: Iterable[Any]) -> list[Any]:
    known = list(there)
    return [each for each in wanted if each not in known]


def _content(obj: Mapping[str, Any]) -> tuple[Any, ...]:
    metadata = obj["metadata"]
    fields = ("rules", "subjects", "aggregationRule")
    return (metadata.get("labels"), metadata.get("annotations"), *(obj.get(field) or None for field in fields))
