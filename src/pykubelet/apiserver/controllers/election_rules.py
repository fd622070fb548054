"""Who leads, by a lease that all who want to lead write: when it may be taken, and what is written then. Pure.

The lease is upstream's, so that ours and a real kube-controller-manager or kube-scheduler wait for each other, too.
"""

from typing import Any, Final

from msgspec import Struct

from pykubelet.apiserver.objects import Object

LEASE_SECONDS: Final = 15
RENEW_SECONDS: Final = 10.0
"""A leader that could not renew for so long has stopped before anybody else may begin."""
RETRY_SECONDS: Final = 2.0
JITTER: Final = 1.2


class Seen(Struct, frozen=True):
    """A lease as it was last seen, and since when by our own clock: theirs may be wrong."""

    spec: dict[str, Any]
    since: float


def seen(lease: Object | None, before: Seen | None, now: float) -> Seen:
    spec = (lease or {}).get("spec") or {}
    return before if before is not None and before.spec == spec else Seen(spec, now)


def is_free(record: Seen, identity: str, now: float) -> bool:
    """Whether it may be taken, or is ours to renew."""
    holder = record.spec.get("holderIdentity") or ""
    ends = record.since + float(record.spec.get("leaseDurationSeconds") or 0)
    return holder in ("", identity) or ends <= now


def held(spec: dict[str, Any], identity: str, time: str) -> dict[str, Any]:
    """What the holder writes."""
    was_ours = spec.get("holderIdentity") == identity
    transitions = int(spec.get("leaseTransitions") or 0)
    return {
        **spec,
        "holderIdentity": identity,
        "leaseDurationSeconds": LEASE_SECONDS,
        "acquireTime": spec.get("acquireTime") or time if was_ours else time,
        "renewTime": time,
        "leaseTransitions": transitions if was_ours or not spec else transitions + 1,
    }


def released(spec: dict[str, Any], identity: str, time: str) -> dict[str, Any] | None:
    """What is written by one who stops, so that nobody has to wait; None: it is somebody else's by now."""
    if spec.get("holderIdentity") != identity:
        return None
    return {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": time, "renewTime": time}
