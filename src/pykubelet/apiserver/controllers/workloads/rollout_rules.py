"""What a deployment has to do next: which replica sets to make, resize or remove, and what to say about it.

One call decides one step from what is there now. Whatever the step changes is told as a change, and brings the next.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from pykubelet.apiserver.controllers.workloads import deployment_rules as rules
from pykubelet.apiserver.controllers.workloads.deployment_rules import Condition, ReplicaSetView
from pykubelet.apiserver.controllers.workloads.pod_views import PodView
from pykubelet.apiserver.controllers.workloads.template_hash import template_hash
from pykubelet.apiserver.objects import Object, at

_AVAILABLE: Final = "NewReplicaSetAvailable"
_TIMED_OUT: Final = "ProgressDeadlineExceeded"
_PAUSED: Final = "DeploymentPaused"
Told = tuple[str, str, str]
"""type, reason and message of an event"""


class Plan(msgspec.Struct, kw_only=True):
    """Writes that are wanted, in this order."""

    create: Object | None = None
    updates: dict[str, ReplicaSetView] = {}
    """Replica sets as they are to be, by uid."""
    removes: list[ReplicaSetView] = []
    rolled_back: Object | None = None
    """The deployment with an older template: nothing else is written then."""
    status: dict[str, Any] = {}
    revision: str = ""
    """What the deployment's annotation is to say."""
    events: list[Told] = []
    again: float | None = None


def plan(deployment: Object, sets: Sequence[ReplicaSetView], pods: Sequence[PodView], now: datetime) -> Plan:
    """`sets` are the deployment's own; `pods` are all pods of these, whatever state they are in."""
    step = _Step(deployment, sets, now)
    if at(deployment, "metadata.deletionTimestamp"):
        step.find_new(create=False)
        step.say_counts()
    elif step.note_pause():
        step.find_new(create=False)
        step.scale()
        if rollback_to(deployment) is None:
            step.clean_up()
        step.say_counts()
    elif rollback_to(deployment) is not None:
        step.find_new(create=True)
        step.roll_back()
    else:
        step.find_new(create=False)
        if rules.is_scaled(deployment, step.everyone()):
            step.scale()
            step.say_counts()
        elif rules.is_rolling(deployment):
            step.roll()
            step.say_progress()
        else:
            step.recreate(pods)
            step.say_progress()
    return step.plan


def rollback_to(deployment: Object) -> int | None:
    """The revision that a client of long ago asks for; 0: the last one."""
    text = at(deployment, "metadata.annotations", {}).get(rules.ROLLBACK_TO, "")
    return int(text) if text.isascii() and text.isdigit() else None


class _Step:
    def __init__(self, deployment: Object, sets: Sequence[ReplicaSetView], now: datetime) -> None:
        self.plan = Plan(revision=at(deployment, "metadata.annotations", {}).get(rules.REVISION, ""))
        self._deployment = deployment
        self._now = now
        self._was: Mapping[str, Any] = deployment.get("status") or {}
        self._conditions: list[Condition] = list(self._was.get("conditions") or ())
        self._new: ReplicaSetView | None = None
        self._sets = list(sets)
        self._old: list[ReplicaSetView] = list(sets)
        self._name = deployment["metadata"]["name"]

    def everyone(self) -> list[ReplicaSetView]:
        return [*self._old, *([self._new] if self._new is not None else [])]

    def _condition(self) -> Condition | None:
        return rules.find_condition(self._conditions, rules.PROGRESSING)

    def _progress(self, status: str, reason: str, message: str) -> Condition:
        return rules.news(rules.PROGRESSING, status, reason, message, self._now)

    # --- pausing

    def note_pause(self) -> bool:
        """Whether it is paused. The time that it rests does not count against its deadline."""
        is_paused, condition = bool(at(self._deployment, "spec.paused")), self._condition()
        reason = condition.get("reason") if condition else ""
        if rules.deadline_of(self._deployment) is None or reason == _TIMED_OUT:
            return is_paused
        if is_paused and reason != _PAUSED:
            new = self._progress("Unknown", _PAUSED, "Deployment is paused")
            self._conditions = rules.with_news(self._conditions, new)
        elif not is_paused and reason == _PAUSED:
            new = self._progress("Unknown", "DeploymentResumed", "Deployment is resumed")
            self._conditions = rules.with_news(self._conditions, new)
        return is_paused

    # --- the new replica set

    def find_new(self, *, create: bool) -> None:
        template = self._deployment["spec"]["template"]
        self._new = rules.find_new(self._sets, template)
        self._old = [each for each in self._sets if self._new is None or each.uid != self._new.uid]
        revision = max((each.revision or 0 for each in self._old), default=0) + 1
        if self._new is not None:
            self._bring_up_to_date(self._new, revision)
        elif create:
            self._make_new(revision)

    def _bring_up_to_date(self, new: ReplicaSetView, revision: int) -> None:
        annotations = rules.revised(new.annotations, self._deployment, revision)
        seconds = at(self._deployment, "spec.minReadySeconds", 0)
        if annotations != new.annotations or new.min_ready_seconds != seconds:
            new = msgspec.structs.replace(new, annotations=annotations, min_ready_seconds=seconds)
            self._update(new)
        self.plan.revision = new.annotations.get(rules.REVISION, "")
        if rules.deadline_of(self._deployment) is not None and self._condition() is None:
            told = self._progress("True", "FoundNewReplicaSet", f'Found new replica set "{new.name}"')
            self._conditions = rules.with_news(self._conditions, told)

    def _make_new(self, revision: int) -> None:
        deployment = self._deployment
        size = rules.new_size(deployment, self._old, 0)
        annotations = rules.sizes_noted(deployment, rules.revised({}, deployment, revision))
        hash_ = template_hash(deployment["spec"]["template"], self._was.get("collisionCount"))
        made = rules.new_replica_set(deployment, hash_, size, annotations)
        self.plan.create, self.plan.revision = made, str(revision)
        self._new = rules.replica_set_view(made)
        if size > 0:
            text = f"Scaled up replica set {self._new.name} from 0 to {size}"
            self.plan.events.append(("Normal", "ScalingReplicaSet", text))
        if rules.deadline_of(deployment) is not None:
            told = self._progress("True", "NewReplicaSetCreated", f'Created new replica set "{self._new.name}"')
            self._conditions = rules.with_news(self._conditions, told)

    # --- sizes

    def _update(self, one: ReplicaSetView) -> None:
        self.plan.updates[one.uid] = one
        if self._new is not None and one.uid == self._new.uid:
            self._new = one
        self._old = [one if each.uid == one.uid else each for each in self._old]

    def _resize(self, one: ReplicaSetView, size: int) -> bool:
        annotations = rules.sizes_noted(self._deployment, one.annotations)
        if one.replicas == size and annotations == one.annotations:
            return False
        if one.replicas != size:
            way = "up" if one.replicas < size else "down"
            text = f"Scaled {way} replica set {one.name} from {one.replicas} to {size}"
            self.plan.events.append(("Normal", "ScalingReplicaSet", text))
        self._update(msgspec.structs.replace(one, replicas=size, annotations=annotations))
        return one.replicas != size

    def scale(self) -> None:
        """Another size is wanted, and no other template: all that have pods grow or shrink alike."""
        wanted, everyone = rules.replicas_of(self._deployment), self.everyone()
        active = [each for each in everyone if each.replicas > 0]
        if len(active) < 2:
            newest = max(self._old, key=lambda each: each.age, default=None)
            only = active[0] if active else self._new or newest
            if only is not None and only.replicas != wanted:
                self._resize(only, wanted)
            elif only is not None and rules.is_scaled(self._deployment, active):
                self._resize(only, only.replicas)  # it has the size already, and only has to know that this is meant
        elif rules.is_saturated(self._deployment, self._new):
            for each in self._old:
                if each.replicas > 0:
                    self._resize(each, 0)
        elif rules.is_rolling(self._deployment):
            sizes = rules.proportions(self._deployment, active)
            for each in active:
                self._resize(each, sizes[each.uid])

    def roll(self) -> None:
        if self._new is None:
            self.find_new(create=True)
        new, wanted = self._new, rules.replicas_of(self._deployment)
        assert new is not None
        if new.replicas != wanted:
            is_too_large = new.replicas > wanted
            size = wanted if is_too_large else rules.new_size(self._deployment, self.everyone(), new.replicas)
            if size != new.replicas and self.plan.create is None:
                self._resize(new, size)
                return
        if not self._shrink_old(new) and rules.is_complete(self._deployment, self._was):
            self.clean_up()

    def _shrink_old(self, new: ReplicaSetView) -> bool:
        """First what is not well, then as much as may be missing. The new ones that are not there yet count, too."""
        old = sorted((each for each in self._old if each.replicas > 0), key=lambda each: each.age)
        least = rules.replicas_of(self._deployment) - rules.max_unavailable(self._deployment)
        total = sum(each.replicas for each in self.everyone())
        room = total - least - (new.replicas - new.available)
        if not old or room <= 0:
            return False
        sizes, is_known = rules.without_unwell(old, room)
        if is_known:
            spare = sum(each.available for each in (*old, new)) - least
            for each in old:
                some = max(min(sizes[each.uid], spare), 0)
                sizes[each.uid] -= some
                spare -= some
        shrunk = [self._resize(each, sizes[each.uid]) for each in old if sizes[each.uid] != each.replicas]
        return bool(shrunk) and is_known

    def recreate(self, pods: Sequence[PodView]) -> None:
        """All old pods have to be gone before the first new one is made."""
        active = [each for each in self._old if each.replicas > 0]
        for each in active:
            self._resize(each, 0)
        if active:
            return
        own = self._new.uid if self._new is not None else ""
        if any(each.actual > 0 for each in self._old) or any(p.owner != own and not p.is_ended for p in pods):
            return
        if self._new is None:
            self.find_new(create=True)
        assert self._new is not None
        wanted = rules.replicas_of(self._deployment)
        if self.plan.create is None and self._new.replicas != wanted:
            self._resize(self._new, wanted)
        if rules.is_complete(self._deployment, self._was):
            self.clean_up()

    def clean_up(self) -> None:
        """Of the old ones without pods, only the newest are kept."""
        limit = at(self._deployment, "spec.revisionHistoryLimit")
        if limit in (None, rules.NEVER):
            return
        there = sorted(
            (each for each in self._old if not each.is_leaving),
            key=lambda each: (each.revision or 0, each.age),
        )
        for each in there[: max(len(there) - limit, 0)]:
            if not each.actual and not each.replicas and each.is_observed:
                self.plan.removes.append(each)

    # --- back to an older template

    def roll_back(self) -> None:
        wanted = rollback_to(self._deployment)
        revisions = sorted({each.revision or 0 for each in self.everyone()} | {0}, reverse=True)
        if wanted == 0:
            wanted = revisions[1] if len(revisions) > 1 else 0
            if not wanted:
                self._give_up("DeploymentRollbackRevisionNotFound", "Unable to find last revision.")
                return
        found = next((each for each in self.everyone() if each.revision == wanted), None)
        spec = self._deployment["spec"]
        if found is None:
            text = "Unable to find the revision to rollback to."
            self._give_up("DeploymentRollbackRevisionNotFound", text)
        elif rules.is_template_of(found, spec["template"]):
            text = f'The rollback revision contains the same template as current deployment "{self._name}"'
            self._give_up("DeploymentRollbackTemplateUnchanged", text)
        else:
            own = {k: v for k, v in found.annotations.items() if k in rules.copied_annotations(_annotated(found))}
            metadata = {**self._deployment["metadata"]}
            metadata["annotations"] = {**rules.kept_annotations(self._deployment), **own}
            rolled = {**self._deployment, "metadata": metadata}
            rolled["spec"] = {**spec, "template": rules.without_hash(found.template)}
            self._back(rolled)
            text = f'Rolled back deployment "{self._name}" to revision {wanted}'
            self.plan.events.append(("Normal", "DeploymentRollback", text))

    def _give_up(self, reason: str, message: str) -> None:
        self.plan.events.append(("Warning", reason, message))
        self._back(self._deployment)

    def _back(self, deployment: Object) -> None:
        metadata = {**deployment["metadata"]}
        annotations = metadata.get("annotations", {})
        metadata["annotations"] = {key: value for key, value in annotations.items() if key != rules.ROLLBACK_TO}
        self.plan.rolled_back = {**deployment, "metadata": metadata}

    # --- status

    def _counted(self) -> dict[str, Any]:
        return rules.counted(self._deployment, self.everyone(), self._new, self._conditions, self._now)

    def say_counts(self) -> None:
        self.plan.status = self._counted()

    def say_progress(self) -> None:
        deployment, status, condition = self._deployment, self._counted(), self._condition()
        conditions = status["conditions"]
        what = f'ReplicaSet "{self._new.name}"' if self._new is not None else f'Deployment "{self._name}"'
        is_done = status.get("replicas", 0) == status.get("updatedReplicas", 0) and (
            condition is not None and condition.get("reason") == _AVAILABLE
        )
        if rules.deadline_of(deployment) is None:
            conditions = rules.without(conditions, rules.PROGRESSING)
        elif not is_done:
            conditions = self._judged(status, conditions, condition, what)
        failures = [*(self._new.failures if self._new else ())] or [f for each in self._old for f in each.failures]
        if failures:
            told = {**failures[0], "lastUpdateTime": failures[0].get("lastTransitionTime")}
            conditions = rules.with_news(conditions, told)
        else:
            conditions = rules.without(conditions, rules.FAILURE)
        self.plan.status = {**status, "conditions": conditions}
        self.plan.again = self._again(self.plan.status)

    def _judged(
        self, status: Mapping[str, Any], conditions: list[Condition], was: Condition | None, what: str
    ) -> list[Condition]:
        if rules.is_complete(self._deployment, status):
            new = self._progress("True", _AVAILABLE, f"{what} has successfully progressed.")
            return rules.with_news(conditions, new)
        if rules.has_progressed(self._was, status):
            new = self._progress("True", "ReplicaSetUpdated", f"{what} is progressing.")
            if was is not None and was.get("status") == "True":
                new["lastTransitionTime"] = was["lastTransitionTime"]
            return [*rules.without(conditions, rules.PROGRESSING), new]
        end = rules.progress_ends(self._deployment, was) if was is not None else None
        if was is not None and (was.get("reason") == _TIMED_OUT or (end is not None and end < self._now)):
            new = self._progress("False", _TIMED_OUT, f"{what} has timed out progressing.")
            return rules.with_news(conditions, new)
        return conditions

    def _again(self, status: Mapping[str, Any]) -> float | None:
        """When to look whether it is too late."""
        condition = rules.find_condition(status["conditions"], rules.PROGRESSING)
        if condition is None or rules.is_complete(self._deployment, status) or condition["reason"] == _TIMED_OUT:
            return None
        end = rules.progress_ends(self._deployment, condition)
        return None if end is None else max((end - self._now + timedelta(seconds=1)).total_seconds(), 1.0)


def _annotated(one: ReplicaSetView) -> Object:
    return {"metadata": {"annotations": dict(one.annotations)}}
