"""Which nodes the devices that a pod claims let it run on, and what has to be written before it does. Pure.

In the words of the Kubernetes scheduler. A claim that has its devices holds the pod to where they are; for the others
they are looked for on every node that would do otherwise, and what was found on the one that is chosen is kept."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pykubelet.api.rules.pod_claims import pod_claims
from pykubelet.apiserver.controllers.resource_claim_rules import (
    FINALIZER,
    is_protected,
    is_reserved,
    reserved_for,
)
from pykubelet.apiserver.controllers.scheduling.device_allocation import allocate
from pykubelet.apiserver.controllers.scheduling.device_pools import (
    OutOfBudget,
    Supply,
    devices_of,
    selects,
)
from pykubelet.apiserver.controllers.scheduling.fit import Place
from pykubelet.apiserver.controllers.workloads.ownership import belongs_to
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied

if TYPE_CHECKING:
    from pykubelet.apiserver.cel.program import Budget

CANNOT: Final = "cannot allocate all claims"
ELSEWHERE: Final = "resourceclaim not available on the node"
TIMED_OUT: Final = "timed out trying to allocate devices"
_MOST: Final = 1_000_000
"""What the devices of one pod may cost to find, counted in devices that are looked at, and what expressions take: some
seconds, beside the loop."""


class Devices(Struct):
    """All that is known of claims and devices, in one look."""

    claims: dict[tuple[str, str], Object]
    supply: Supply

    def note(self, claim: Object) -> None:
        """It has its devices now."""
        self.claims[claim["metadata"]["namespace"], claim["metadata"]["name"]] = claim
        self.supply.taken = self.supply.taken.union(devices_of(claim))


class PodDevices:
    """The claims of one pod. `trouble` speaks against every node."""

    def __init__(self, pod: Object, devices: Devices) -> None:
        self._pod = pod
        self._supply = devices.supply
        self._given: list[Object] = []
        self._open: list[Object] = []
        self._found: dict[str, list[Object]] = {}
        self._unavailable: dict[str, Object] = {}
        self._budget: Budget | None = None
        self.is_awaited = False
        """Whether one of the claims is still to be made."""
        self.is_too_much = False
        """Whether it took too long to look for the devices."""
        self.trouble = self._sorted(devices.claims)

    def _sorted(self, claims: Mapping[tuple[str, str], Object]) -> str:
        namespace, seen = self._pod["metadata"].get("namespace", ""), set[str]()
        for each in pod_claims(self._pod):
            if each.is_awaited:
                self.is_awaited = True
                return f'pod "{namespace}/{self._pod["metadata"]["name"]}": ResourceClaim not created yet'
            claim = claims.get((namespace, each.claim)) if each.claim else None
            if not each.claim:
                continue  # none is needed
            if claim is None:
                return f'resourceclaim "{each.claim}" not found'
            if at(claim, "metadata.deletionTimestamp"):
                return f'resourceclaim "{each.claim}" is being deleted'
            if each.template and not belongs_to(claim, self._pod):
                names = f"{namespace}/{each.claim}", f"{namespace}/{self._pod['metadata']['name']}"
                return f"ResourceClaim {names[0]} was not created for pod {names[1]} (pod is not owner)"
            if each.claim not in seen:
                seen.add(each.claim)
                (self._open if at(claim, "status.allocation") is None else self._given).append(claim)
        return self._classes()

    def _classes(self) -> str:
        for claim in self._open:
            for request in at(claim, "spec.devices.requests", ()):
                name = request.get("name", "")
                for label, spec in _alternatives(name, request):
                    wanted = spec.get("deviceClassName", "")
                    if wanted not in self._supply.classes:
                        return f"request {label}: device class {wanted} does not exist"
        return ""

    @property
    def takes_long(self) -> bool:
        """Whether devices have to be looked for."""
        return bool(self._open)

    def reasons(self, node: Place) -> list[str]:
        """Why the node cannot give what is claimed. Raises Unallocatable."""
        away = [claim for claim in self._given if not _is_on(claim, node)]
        if self._open and node.name not in self._found:
            found = self._allocated(node)
            if found is None:
                return [TIMED_OUT if self.is_too_much else CANNOT]
            self._found[node.name] = found
        for claim in away:
            self._unavailable[claim["metadata"]["name"]] = claim
        return [ELSEWHERE] if away else []

    def _allocated(self, node: Place) -> list[Object] | None:
        from pykubelet.apiserver.cel.program import Budget  # takes long to load, and few need it

        if self._budget is None:
            self._budget = Budget(_MOST)
        if self.is_too_much:
            return None
        try:
            return allocate(self._supply, node.name, node.labels, self._open, self._budget)
        except OutOfBudget:
            self.is_too_much = True
            return None

    def writes(self, node: Place) -> Iterator[tuple[Object, Object | None]]:
        """The claims that are not the pod's yet, each with what it gets on that node; None: it has it already."""
        for claim in self._given:
            if not is_reserved(claim, self._pod):
                yield claim, None
        yield from zip(self._open, self._found.get(node.name, ()), strict=True)

    def idle(self) -> Object | None:
        """A claim that has devices where the pod cannot run, and that nobody else uses."""
        own = {self._pod["metadata"].get("uid")}
        for claim in self._unavailable.values():
            if {each.get("uid") for each in at(claim, "status.reservedFor", ())} <= own:
                return claim
        return None


def _alternatives(name: str, request: Object) -> Iterator[tuple[str, Object]]:
    if request.get("exactly"):
        yield name, request["exactly"]
    for each in request.get("firstAvailable") or ():
        yield f"{name}/{each.get('name', '')}", each


def _is_on(claim: Object, node: Place) -> bool:
    selector = at(claim, "status.allocation.nodeSelector")
    return selector is None or selects(selector, node.name, node.labels)


# --- what is written


def protected(claim: Object) -> Object | None:
    """Not to be deleted as long as it has devices; None: it is, or goes already."""
    metadata = claim["metadata"]
    if is_protected(claim) or metadata.get("deletionTimestamp"):
        return None
    return {**claim, "metadata": {**metadata, "finalizers": [*(metadata.get("finalizers") or ()), FINALIZER]}}


def given(claim: Object, allocation: Object | None, pod: Object) -> Object | None:
    """The claim with its devices, reserved for the pod; None: somebody else was faster, or it goes."""
    status = claim.get("status") or {}
    if (allocation is None) == (status.get("allocation") is None):
        return None
    made = {"allocation": copied(allocation)} if allocation is not None else {}
    return reserved_for({**claim, "status": {**status, **made}}, pod)


def given_up(claim: Object, pod: Object) -> Object | None:
    """Not reserved for the pod any more; its devices stay."""
    if not is_reserved(claim, pod):
        return None
    status, uid = claim.get("status") or {}, pod["metadata"].get("uid")
    left = [each for each in status["reservedFor"] if each.get("uid") != uid]
    kept = {name: value for name, value in status.items() if name != "reservedFor"}
    return {**claim, "status": {**kept, **({"reservedFor": left} if left else {})}}


def deallocated(claim: Object, pod: Object) -> Object | None:
    """Without devices, if nobody else uses it by now."""
    if any(each.get("uid") != pod["metadata"].get("uid") for each in at(claim, "status.reservedFor", ())):
        return None
    return {**claim, "status": {}}
