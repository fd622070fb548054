"""Whether there is room for an object in the quotas of its namespace, and what each of them is charged. Pure."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from pykubelet.api.codec import convert
from pykubelet.api.container import Container
from pykubelet.api.pod import PodSpec
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.quota_usage import (
    CLAIMS,
    NEEDED,
    PODS,
    SERVICES,
    Kind,
    Usage,
    added,
    amounts,
    compute_usage,
    counted,
    is_terminating,
    masked,
    matches,
    more_than,
    texts,
    usage,
)


class Refused(Exception):
    """Why an object is not admitted."""


class Charge(Struct, frozen=True):
    """What one quota is charged for an object."""

    quota: str
    uid: str
    delta: Usage


def handles(kind: Kind, obj: Object, old: Object | None, part: str) -> bool:
    """Whether such a write may take more than was taken before."""
    if old is None:
        return not part
    if kind == PODS:
        return part == "resize" or (not part and is_terminating(obj) != is_terminating(old))
    return kind in (SERVICES, CLAIMS) and not part


def charges(quotas: Iterable[Object], kind: Kind, obj: Object, old: Object | None, now: datetime) -> Iterator[Charge]:
    """Raises Refused when the object does not say what it has to, or nobody knows yet how much is used."""
    used: Usage | None = None
    for quota in quotas:
        if not matches(quota, kind, obj):
            continue
        hard, name = amounts(at(quota, "status.hard")), quota["metadata"]["name"]
        names = counted(kind, hard or amounts(at(quota, "spec.hard")))
        if kind == PODS and (missing := _unsaid(obj, names & NEEDED)):
            raise Refused(f"failed quota: {name}: must specify {missing}")
        if not hard or not names <= amounts(at(quota, "status.used")).keys():
            raise Refused(f"status unknown for quota: {name}, resources: {','.join(sorted(names))}")
        used = usage(kind, obj, now) if used is None else used
        negative = sorted(each for each, amount in used.items() if amount.sign < 0)
        if negative:
            raise Refused(f"quota usage is negative for resource(s): {','.join(negative)}")
        was = usage(kind, old, now) if old is not None and matches(quota, kind, old) else {}
        delta = masked(more_than(used, was), hard)
        if delta:
            yield Charge(name, quota["metadata"]["uid"], delta)


def _unsaid(pod: Object, needed: frozenset[str]) -> str:
    """What containers have to say and do not."""
    spec = convert(PodSpec, pod["spec"])
    if not needed or (spec.resources and (spec.resources.requests or spec.resources.limits)):
        return ""
    missing: dict[str, list[str]] = {}
    for container in (*spec.containers, *spec.init_containers):
        for name in needed - _said(container):
            missing.setdefault(name, []).append(container.name)
    return "; ".join(f"{name} for: {','.join(sorted(set(missing[name])))}" for name in sorted(missing))


def _said(container: Container) -> set[str]:
    return set(compute_usage(container.resources.requests, container.resources.limits))


def charged(quota: Object, delta: Usage) -> Object:
    """The quota with what it is charged. Raises Refused when that is more than there is."""
    used, hard = amounts(at(quota, "status.used")), amounts(at(quota, "status.hard"))
    delta = masked(delta, hard)
    new = added(used, delta)
    exceeded = sorted(name for name in delta if new[name] > hard[name])
    if exceeded:
        parts = (("requested", delta), ("used", used), ("limited", hard))
        told = ", ".join(f"{word}: {_shown(masked(each, exceeded))}" for word, each in parts)
        raise Refused(f"exceeded quota: {quota['metadata']['name']}, {told}")
    return {**quota, "status": {**quota["status"], "used": texts(new)}}


def refunded(quota: Object, delta: Usage) -> Object:
    """The quota without what it was charged for something that did not come to be."""
    used = amounts(at(quota, "status.used"))
    new = {
        name: max(amount - delta[name], amount - amount) if name in delta else amount for name, amount in used.items()
    }
    return {**quota, "status": {**quota["status"], "used": texts(new)}}


def _shown(found: Usage) -> str:
    return ",".join(f"{name}={found[name]}" for name in sorted(found))
