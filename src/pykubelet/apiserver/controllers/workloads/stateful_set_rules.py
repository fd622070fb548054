"""What a stateful set has to do next: pods with a number each, one after the other unless it says otherwise."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from pykubelet.apiserver.controllers.workloads.claim_rules import (
    ClaimView,
    References,
    claim_names,
    is_stale,
    owners_wanted,
)
from pykubelet.apiserver.controllers.workloads.pod_control import MOST_AT_ONCE, pod_of
from pykubelet.apiserver.controllers.workloads.pod_views import PodView
from pykubelet.apiserver.controllers.workloads.revisions import Revision
from pykubelet.apiserver.objects import Object, at

REVISION_LABEL: Final = "controller-revision-hash"
POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile("(.*)-([0-9]{1,10})")


class SetPlan(msgspec.Struct, kw_only=True):
    """Writes that are wanted, in this order."""

    claims: list[int] = []
    """Numbers of the pods of which some claims are missing."""
    creates: list[Object] = []
    repairs: list[PodView] = []
    """Pods that lack the labels which say who they are."""
    owners: list[tuple[ClaimView, References]] = []
    deletes: list[PodView] = []


def parent_and_ordinal(name: str) -> tuple[str, int]:
    """The set that a pod's name speaks of, and its number; -1: it has none."""
    found = _NAME.fullmatch(name)
    if found is None or int(found[2]) > 2**31 - 1:
        return "", -1
    return found[1], int(found[2])


def is_member(obj: Object, pod: PodView) -> bool:
    return bool(parent_and_ordinal(pod.name)[0] == obj["metadata"]["name"])


def new_pod(obj: Object, revision: Revision, ordinal: int) -> Object:
    name = f"{obj['metadata']['name']}-{ordinal}"
    pod = pod_of(obj, revision.template)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["name"] = name
    labels = {POD_NAME_LABEL: name, INDEX_LABEL: str(ordinal), REVISION_LABEL: revision.name}
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    spec["hostname"] = name
    if service := at(obj, "spec.serviceName"):
        spec["subdomain"] = service
    else:
        spec.pop("subdomain", None)
    claims = claim_names(obj, ordinal)
    own = [{"name": each, "persistentVolumeClaim": {"claimName": claim}} for each, claim in claims.items()]
    others = [each for each in spec.get("volumes") or () if each.get("name") not in claims]
    if own or others:
        spec["volumes"] = [*own, *others]
    return pod


def plan(
    obj: Object,
    pods: Sequence[PodView],
    claims: Mapping[str, ClaimView],
    current: Revision,
    update: Revision,
    now: datetime,
) -> SetPlan:
    step = _Step(obj, pods, claims, current, update, now)
    if not at(obj, "metadata.deletionTimestamp"):
        step.act()
    return step.plan


class _Step:
    def __init__(
        self,
        obj: Object,
        pods: Sequence[PodView],
        claims: Mapping[str, ClaimView],
        current: Revision,
        update: Revision,
        now: datetime,
    ) -> None:
        self.plan = SetPlan()
        self._obj, self._claims, self._now = obj, claims, now
        self._current, self._update = current, update
        self._least = at(obj, "spec.minReadySeconds", 0)
        self._start: int = at(obj, "spec.ordinals.start", 0)
        self._count: int = at(obj, "spec.replicas", 1)
        self._one_by_one = at(obj, "spec.podManagementPolicy") != "Parallel"
        self._numbered = {parent_and_ordinal(pod.name)[1]: pod for pod in pods}
        self._numbered.pop(-1, None)
        self._wanted = range(self._start, self._start + self._count)
        """Never gone through as a whole: a number of two thousand millions is soon typed."""
        beyond = (number for number in self._numbered if number not in self._wanted)
        self._condemned = [self._numbered[number] for number in sorted(beyond, reverse=True)]

    def act(self) -> None:
        """Scaling comes before updating; in order, the first that is not well stops what comes after it."""
        for number in self._wanted:
            if self._tend(number, self._numbered.get(number)) and self._one_by_one:
                return
            if len(self.plan.creates) == MOST_AT_ONCE:
                return
        for pod in self._condemned:
            self._tend_claims(pod.head(), parent_and_ordinal(pod.name)[1], is_wanted=False)
        first = self._first_unavailable()
        for pod in self._condemned:
            if self._dismiss(pod, first) and self._one_by_one:
                return
        if at(self._obj, "spec.updateStrategy.type") != "OnDelete":
            self._renew()

    def _is_unavailable(self, pod: PodView | None) -> bool:
        return pod is None or pod.is_leaving or not pod.is_available(self._least, self._now)

    def _first_unavailable(self) -> PodView | None:
        for number in self._wanted:
            if self._is_unavailable(pod := self._numbered.get(number)):
                return pod
        return next((pod for pod in reversed(self._condemned) if self._is_unavailable(pod)), None)

    # --- those that are wanted

    def _tend(self, number: int, pod: PodView | None) -> bool:
        """Whether those after it have to wait."""
        if pod is None:
            self._create(number)
            return True
        if pod.is_ended:
            if not pod.is_leaving:
                self.plan.deletes.append(pod)
            return True
        if pod.phase == "Pending":
            if any(name not in self._claims for name in claim_names(self._obj, number).values()):
                self.plan.claims.append(number)
            self._tend_claims(pod.head(), number, is_wanted=True)
        if self._one_by_one and (self._is_unavailable(pod) or pod.phase != "Running"):
            return True
        if pod.labels.get(POD_NAME_LABEL) != pod.name:
            self.plan.repairs.append(pod)
        if pod.phase != "Pending":
            self._tend_claims(pod.head(), number, is_wanted=True)
        return False

    def _create(self, number: int) -> None:
        name, claims = f"{self._obj['metadata']['name']}-{number}", claim_names(self._obj, number)
        there = [self._claims[each] for each in claims.values() if each in self._claims]
        if any(is_stale(each, self._obj, name) for each in there):
            return
        if len(there) < len(claims):
            self.plan.claims.append(number)
        self.plan.creates.append(new_pod(self._obj, self._revision_of(number), number))
        self._tend_claims({"metadata": {"name": name}}, number, is_wanted=True)

    def _revision_of(self, number: int) -> Revision:
        """Below the partition, a pod that is made anew is what it was before."""
        rolling = at(self._obj, "spec.updateStrategy.rollingUpdate")
        if rolling is not None:
            is_current = number < self._start + rolling.get("partition", 0)
        else:
            is_rolling = at(self._obj, "spec.updateStrategy.type") == "RollingUpdate"
            is_current = is_rolling and number < self._start + at(self._obj, "status.currentReplicas", 0)
        return self._current if is_current else self._update

    def _tend_claims(self, head: Object, number: int, *, is_wanted: bool) -> None:
        whole = {"apiVersion": "v1", "kind": "Pod", **head}
        for name in claim_names(self._obj, number).values():
            claim = self._claims.get(name)
            if claim is None:
                continue
            owners = owners_wanted(claim, self._obj, whole, is_wanted=is_wanted)
            if owners is not None:
                self.plan.owners.append((claim, owners))

    # --- those that are not

    def _dismiss(self, pod: PodView, first: PodView | None) -> bool:
        """Whether those after it have to wait: the last goes first, and only when all others are well."""
        if pod.is_leaving:
            return True
        is_well = pod.is_available(self._least, self._now) and pod.phase == "Running"
        if is_well or not self._one_by_one or pod is first:
            self.plan.deletes.append(pod)
        return True

    # --- those of an older template

    def _renew(self) -> None:
        """The last one first, and the next when that one is well again."""
        partition = at(self._obj, "spec.updateStrategy.rollingUpdate.partition", 0)
        for number in reversed(self._wanted[partition:]):
            pod = self._numbered.get(number)
            if pod is not None and pod.labels.get(REVISION_LABEL) != self._update.name and not pod.is_leaving:
                if pod not in self.plan.deletes:
                    self.plan.deletes.append(pod)
                return
            if self._is_unavailable(pod):
                return


def status_of(
    obj: Object,
    pods: Sequence[PodView],
    done: SetPlan,
    current: Revision,
    update: Revision,
    now: datetime,
) -> dict[str, Any]:
    """The status once what is `done` of a plan is done; `pods` are those that were there before."""
    wanted, least = at(obj, "spec.replicas", 1), at(obj, "spec.minReadySeconds", 0)
    there = [pod for pod in pods if parent_and_ordinal(pod.name)[1] >= 0]
    labels = [pod["metadata"]["labels"][REVISION_LABEL] for pod in done.creates]
    labels += [pod.labels.get(REVISION_LABEL, "") for pod in there if not pod.is_leaving and pod not in done.deletes]
    ready = [pod for pod in there if pod.phase == "Running" and pod.is_ready]
    status: dict[str, Any] = {
        "observedGeneration": at(obj, "metadata.generation", 0),
        "replicas": len(there) + len(done.creates),
        "readyReplicas": len(ready),
        "currentReplicas": labels.count(current.name),
        "updatedReplicas": labels.count(update.name),
        "availableReplicas": sum(pod.is_available(least, now) for pod in ready),
        "currentRevision": current.name,
        "updateRevision": update.name,
        "collisionCount": at(obj, "status.collisionCount", 0),
    }
    is_rolling = at(obj, "spec.updateStrategy.type") == "RollingUpdate"
    if is_rolling and status["updatedReplicas"] == status["readyReplicas"] == status["replicas"] == wanted:
        status["currentReplicas"], status["currentRevision"] = wanted, update.name
    always = ("replicas", "availableReplicas", "collisionCount")
    return {name: value for name, value in status.items() if value or name in always}
