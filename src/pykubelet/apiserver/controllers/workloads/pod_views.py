"""A pod as the workload controllers see it: whose it is, whether it runs, and for how long it has been ready."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from pykubelet.apiserver.controllers.client import PODS, ControllerClient
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.objects import Object, at, moment

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_INT32: Final = re.compile("(0|[1-9][0-9]{0,9})|-0*[0-9]{1,10}")
_ENDED: Final = ("Succeeded", "Failed")


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    owner: str
    """The uid of its controller; empty: it has none."""
    owner_name: str
    phase: str
    node: str
    aimed_at: str
    """The one node that its affinity names, whether it is there already or not."""
    is_leaving: bool
    is_ready: bool
    ready_since: datetime | None
    created: datetime | None
    restarts: tuple[int, int]
    """Of its containers, and of those that run beside them: the most that one of them had."""
    cost: int
    """What its annotation says it costs to delete it."""
    hostname: str
    subdomain: str
    claims: Mapping[str, str]
    """The claim behind each volume that has one."""
    is_on_host_network: bool

    @property
    def is_ended(self) -> bool:
        return self.phase in _ENDED

    @property
    def is_active(self) -> bool:
        return not self.is_ended and not self.is_leaving

    @property
    def is_terminating(self) -> bool:
        return not self.is_ended and self.is_leaving

    def is_available(self, min_ready_seconds: int, now: datetime) -> bool:
        """Whether it has been ready for long enough."""
        if not self.is_ready:
            return False
        if not min_ready_seconds:
            return True
        return self.ready_since is not None and self.ready_since + timedelta(seconds=min_ready_seconds) <= now

    def head(self) -> Object:
        """Enough of it to change or delete it, and no other of its name."""
        return {"metadata": {"namespace": self.namespace, "name": self.name, "uid": self.uid}}


def pod_view(pod: Object) -> PodView:
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    owner, ready = controller_of(pod), condition(pod, "Ready")
    is_ready = ready.get("status") == "True"
    claims = {each["name"]: at(each, "persistentVolumeClaim.claimName", "") for each in spec.get("volumes") or ()}
    return PodView(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        labels=metadata.get("labels") or {},
        owner=owner.get("uid", ""),
        owner_name=owner.get("name", ""),
        phase=status.get("phase", ""),
        node=spec.get("nodeName", ""),
        aimed_at=spec.get("nodeName") or _aimed_at(spec),
        is_leaving="deletionTimestamp" in metadata,
        is_ready=is_ready,
        ready_since=moment(ready.get("lastTransitionTime")) if is_ready else None,
        created=moment(metadata.get("creationTimestamp")),
        restarts=_restarts(spec, status),
        cost=_cost((metadata.get("annotations") or {}).get(DELETION_COST, "")),
        hostname=spec.get("hostname", ""),
        subdomain=spec.get("subdomain", ""),
        claims={name: claim for name, claim in claims.items() if claim},
        is_on_host_network=bool(spec.get("hostNetwork")),
    )


async def pods_of(client: ControllerClient, namespace: str) -> list[PodView]:
    """All pods of a namespace, with everything that was acknowledged before."""
    return await client.views(PODS, pod_view, namespace)


def controller_of(obj: Object) -> dict[str, Any]:
    """The reference to the one that controls the object; empty when nobody does."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return {}


def next_availability(pods: Iterable[PodView], min_ready_seconds: int, now: datetime) -> float | None:
    """In how many seconds the next of the pods will have been ready for long enough; None: of none that is known."""
    wait = timedelta(seconds=min_ready_seconds)
    times = [(pod.ready_since + wait - now).total_seconds() for pod in pods if pod.is_ready and pod.ready_since]
    return min((each for each in times if each > 0), default=None) if min_ready_seconds else None


def _cost(text: str) -> int:
    """An annotation that is no number counts for nothing."""
    value = int(text) if _INT32.fullmatch(text) else 0
    return value if -(2**31) <= value < 2**31 else 0


def _restarts(spec: dict[str, Any], status: dict[str, Any]) -> tuple[int, int]:
    beside = {each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    regular = [each.get("restartCount", 0) for each in status.get("containerStatuses") or ()]
    statuses = [each for each in status.get("initContainerStatuses") or () if each.get("name") in beside]
    return max(regular, default=0), max((each.get("restartCount", 0) for each in statuses), default=0)


def _aimed_at(spec: dict[str, Any]) -> str:
    required = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    for term in at(spec, required, ()):
        for field in term.get("matchFields") or ():
            if (
                field.get("key") == "metadata.name"
                and field.get("operator") == "In"
                and len(field.get("values", ())) == 1
            ):
                return str(field["values"][0])
    return ""
