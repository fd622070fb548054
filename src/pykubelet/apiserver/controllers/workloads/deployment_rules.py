"""The numbers of a deployment: how far a rollout may go at a time, how replica sets share, and what the status says."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.workloads.ownership import controller_reference
from pykubelet.apiserver.controllers.workloads.percentages import scaled
from pykubelet.apiserver.controllers.workloads.pod_views import controller_of
from pykubelet.apiserver.objects import Object, at, moment
from pykubelet.apiserver.schema.schema import same

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO: Final = "deprecated.deployment.rollback.to"
_NOT_COPIED: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MOST,
    ROLLBACK_TO,
)
_LONGEST_HISTORY: Final = 2000
NEVER: Final = 2**31 - 1
AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
FAILURE: Final = "ReplicaFailure"
Condition = dict[str, Any]


class ReplicaSetView(msgspec.Struct, frozen=True, kw_only=True):
    """A replica set as its deployment sees it."""

    namespace: str
    name: str
    uid: str
    owner: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    is_leaving: bool
    created: str
    replicas: int
    min_ready_seconds: int
    template: dict[str, Any]
    is_observed: bool
    actual: int
    ready: int
    available: int
    failures: tuple[Condition, ...]

    def head(self) -> Object:
        return {"metadata": {"namespace": self.namespace, "name": self.name, "uid": self.uid}}

    @property
    def age(self) -> tuple[str, str]:
        return self.created, self.name

    @property
    def revision(self) -> int | None:
        """None: what its annotation says is no number."""
        return _number(self.annotations.get(REVISION, "0"))


def replica_set_view(obj: Object) -> ReplicaSetView:
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    return ReplicaSetView(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        owner=controller_of(obj).get("uid", ""),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        is_leaving="deletionTimestamp" in metadata,
        created=metadata.get("creationTimestamp") or "",
        replicas=spec.get("replicas", 1),
        min_ready_seconds=spec.get("minReadySeconds", 0),
        template=spec.get("template") or {},
        is_observed=status.get("observedGeneration", 0) >= metadata.get("generation", 0),
        actual=status.get("replicas", 0),
        ready=status.get("readyReplicas", 0),
        available=status.get("availableReplicas", 0),
        failures=tuple(each for each in status.get("conditions") or () if each.get("type") == FAILURE),
    )


# --- how far


def replicas_of(deployment: Object) -> int:
    return int(at(deployment, "spec.replicas", 1))


def is_rolling(deployment: Object) -> bool:
    return bool(at(deployment, "spec.strategy.type") == "RollingUpdate")


def fenceposts(deployment: Object) -> tuple[int, int]:
    """How many pods there may be too many, and too few. Both cannot be none: then nothing would ever move."""
    rolling, wanted = at(deployment, "spec.strategy.rollingUpdate", {}), replicas_of(deployment)
    surge = scaled(rolling.get("maxSurge"), wanted, up=True)
    unavailable = scaled(rolling.get("maxUnavailable"), wanted, up=False)
    return surge, 1 if surge == 0 and unavailable == 0 else unavailable


def max_surge(deployment: Object) -> int:
    return fenceposts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Object) -> int:
    wanted = replicas_of(deployment)
    return min(fenceposts(deployment)[1], wanted) if is_rolling(deployment) and wanted else 0


def new_size(deployment: Object, everyone: Iterable[ReplicaSetView], size: int) -> int:
    """How large the new replica set may be now, which has this size."""
    wanted = replicas_of(deployment)
    if not is_rolling(deployment):
        return wanted
    room = wanted + max_surge(deployment) - sum(each.replicas for each in everyone)
    return size if room <= 0 else size + min(room, wanted - size)


def proportions(deployment: Object, active: Sequence[ReplicaSetView]) -> dict[str, int]:
    """The sizes, by uid, of replica sets of which several have pods: what is added or taken is shared."""
    wanted = replicas_of(deployment)
    allowed = wanted + max_surge(deployment) if wanted > 0 else 0
    missing = allowed - sum(each.replicas for each in active)
    ordered = sorted(active, key=lambda each: each.age, reverse=missing > 0)
    ordered.sort(key=lambda each: -each.replicas)
    sizes, added = {}, 0
    for each in ordered:
        part = _proportion(deployment, each, missing, added)
        sizes[each.uid] = each.replicas + part
        added += part
    if ordered and missing:
        first = ordered[0].uid
        sizes[first] = max(sizes[first] + missing - added, 0)
    return sizes


def _proportion(deployment: Object, one: ReplicaSetView, missing: int, added: int) -> int:
    if not one.replicas or not missing or missing == added:
        return 0
    fraction, allowed = _fraction(deployment, one), missing - added
    return min(fraction, allowed) if missing > 0 else max(fraction, allowed)


def _fraction(deployment: Object, one: ReplicaSetView) -> int:
    wanted = replicas_of(deployment)
    if wanted == 0:
        return -one.replicas
    before = _number(one.annotations.get(MOST, "")) or at(deployment, "status.replicas", 0)
    if not before:
        return 0
    size = one.replicas * (wanted + max_surge(deployment)) / before
    return int(size + 0.5) - one.replicas


def without_unwell(old: Sequence[ReplicaSetView], most: int) -> tuple[dict[str, int], bool]:
    """The sizes, by uid, without pods that are not well, and whether that is all there is to know: a replica set that
    counts more pods than it wants has not come to it yet, and nothing can be said of the others."""
    sizes, cleaned = {each.uid: each.replicas for each in old}, 0
    for each in old:
        if cleaned >= most:
            break
        unwell = min(most - cleaned, each.replicas - each.available)
        if unwell < 0:
            return sizes, False
        sizes[each.uid] -= unwell
        cleaned += unwell
    return sizes, True


def is_saturated(deployment: Object, one: ReplicaSetView | None) -> bool:
    wanted = replicas_of(deployment)
    return one is not None and one.replicas == one.available == wanted == _number(one.annotations.get(DESIRED, ""))


# --- which one is new


def is_template_of(one: ReplicaSetView, template: dict[str, Any]) -> bool:
    return same(without_hash(one.template), without_hash(template))


def find_new(everyone: Iterable[ReplicaSetView], template: dict[str, Any]) -> ReplicaSetView | None:
    """The oldest that has the template."""
    for each in sorted(everyone, key=lambda one: one.age):
        if is_template_of(each, template):
            return each
    return None


def without_hash(template: dict[str, Any]) -> dict[str, Any]:
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    rest = {key: value for key, value in metadata.items() if key != "labels" and value is not None}
    return {**template, "metadata": {**rest, **({"labels": labels} if labels else {})}}


def new_replica_set(deployment: Object, hash_: str, size: int, annotations: Mapping[str, str]) -> Object:
    spec, metadata = deployment["spec"], deployment["metadata"]
    template, selector = spec["template"], spec.get("selector") or {}
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: hash_}
    return {
        "metadata": {
            "name": f"{metadata['name'][: 253 - 1 - len(hash_)]}-{hash_}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": dict(annotations),
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": size,
            **({"minReadySeconds": spec["minReadySeconds"]} if spec.get("minReadySeconds") else {}),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: hash_}},
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
        },
    }


# --- annotations


def copied_annotations(deployment: Object) -> dict[str, str]:
    given = at(deployment, "metadata.annotations", {})
    return {key: value for key, value in given.items() if key not in _NOT_COPIED}


def kept_annotations(deployment: Object) -> dict[str, str]:
    """Those that stay with the deployment when it goes back to an older template."""
    given = at(deployment, "metadata.annotations", {})
    return {key: value for key, value in given.items() if key in _NOT_COPIED}


def sizes_noted(deployment: Object, annotations: Mapping[str, str]) -> dict[str, str]:
    wanted = replicas_of(deployment)
    return {**annotations, DESIRED: str(wanted), MOST: str(wanted + max_surge(deployment))}


def revised(annotations: Mapping[str, str], deployment: Object, revision: int) -> dict[str, str]:
    """Of the new replica set: those of the deployment, and a revision that is the highest of all."""
    new = {**annotations, **copied_annotations(deployment)}
    was = _number(annotations.get(REVISION) or "0")
    if was is None or was >= revision:
        return new
    new[REVISION] = str(revision)
    if REVISION in annotations:
        history = [each for each in annotations.get(REVISION_HISTORY, "").split(",") if each]
        history.append(annotations[REVISION])
        while len(",".join(history)) > _LONGEST_HISTORY:
            history.pop(0)
        new[REVISION_HISTORY] = ",".join(history)
    return new


def is_scaled(deployment: Object, everyone: Iterable[ReplicaSetView]) -> bool:
    """Whether the deployment wants another size than one of its replica sets knows of."""
    noted = [_number(each.annotations.get(DESIRED, "")) for each in everyone if each.replicas > 0]
    return any(each is not None and each != replicas_of(deployment) for each in noted)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and int(text) <= 2**63 - 1 else None


# --- status


def deadline_of(deployment: Object) -> int | None:
    """Seconds in which there has to be progress; None: nobody minds."""
    seconds = at(deployment, "spec.progressDeadlineSeconds")
    return None if seconds in (None, NEVER) else int(seconds)


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    return next((each for each in conditions if each.get("type") == kind), None)


def without(conditions: Iterable[Condition], kind: str) -> list[Condition]:
    return [each for each in conditions if each.get("type") != kind]


def with_news(conditions: Iterable[Condition], new: Condition) -> list[Condition]:
    """With this one, unless there is one that says the same. Its time is kept as long as its status is."""
    was = find_condition(conditions, new["type"])
    if was is not None and was.get("status") == new["status"]:
        if was.get("reason") == new["reason"]:
            return list(conditions)
        new = {**new, "lastTransitionTime": was["lastTransitionTime"]}
    return [*without(conditions, new["type"]), new]


def news(kind: str, status: str, reason: str, message: str, now: datetime) -> Condition:
    time = rfc3339(now)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": time,
        "lastTransitionTime": time,
        "reason": reason,
        "message": message,
    }


def counted(
    deployment: Object,
    everyone: Sequence[ReplicaSetView],
    new: ReplicaSetView | None,
    conditions: Sequence[Condition],
    now: datetime,
) -> dict[str, Any]:
    """The status without what it says of progress."""
    available = sum(each.available for each in everyone)
    counts = {
        "observedGeneration": at(deployment, "metadata.generation", 0),
        "replicas": sum(each.actual for each in everyone),
        "updatedReplicas": new.actual if new is not None else 0,
        "readyReplicas": sum(each.ready for each in everyone),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(each.replicas for each in everyone) - available, 0),
    }
    if available >= replicas_of(deployment) - max_unavailable(deployment):
        told = news(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
    else:
        text = "Deployment does not have minimum availability."
        told = news(AVAILABLE, "False", "MinimumReplicasUnavailable", text, now)
    collisions = at(deployment, "status.collisionCount")
    return {
        **{name: count for name, count in counts.items() if count},
        "conditions": with_news(conditions, told),
        **({} if collisions is None else {"collisionCount": collisions}),
    }


def is_complete(deployment: Object, status: Mapping[str, Any]) -> bool:
    wanted = replicas_of(deployment)
    is_there = all(status.get(f"{each}eplicas", 0) == wanted for each in ("r", "updatedR", "availableR"))
    return is_there and status.get("observedGeneration", 0) >= at(deployment, "metadata.generation", 0)


def has_progressed(was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    def old(status: Mapping[str, Any]) -> int:
        return int(status.get("replicas", 0) - status.get("updatedReplicas", 0))

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old(now) < old(was) or any(now.get(each, 0) > was.get(each, 0) for each in grown)


def progress_ends(deployment: Object, condition: Condition) -> datetime | None:
    """When it is too late for progress; None: no progress is waited for."""
    seconds, since = deadline_of(deployment), moment(condition.get("lastUpdateTime"))
    if seconds is None or since is None or condition.get("reason") == "NewReplicaSetAvailable":
        return None
    return since + timedelta(seconds=seconds)
