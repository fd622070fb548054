"""What is said of a pod that resizes, in the two conditions that upstream has for it."""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.api.pod import Pod, PodCondition

PENDING: Final = "PodResizePending"
IN_PROGRESS: Final = "PodResizeInProgress"
ERROR: Final = "Error"

PendingReason = Literal["Deferred", "Infeasible"]


class ResizeConditions(Struct, frozen=True, kw_only=True):
    """Of one pod. None: it does not hold. A pod may wait for one size while it is brought to another."""

    pending: PodCondition | None = None
    in_progress: PodCondition | None = None

    @property
    def all(self) -> tuple[PodCondition, ...]:
        return tuple(each for each in (self.pending, self.in_progress) if each is not None)

    @property
    def is_deferred(self) -> bool:
        return self.pending is not None and self.pending.reason == "Deferred"

    @property
    def is_infeasible(self) -> bool:
        return self.pending is not None and self.pending.reason == "Infeasible"


NONE: Final = ResizeConditions()


def pending(
    conditions: ResizeConditions, reason: PendingReason, message: str, generation: int | None, now: datetime
) -> ResizeConditions:
    return replace(conditions, pending=_updated(PENDING, conditions.pending, reason, message, generation, now))


def without_pending(conditions: ResizeConditions) -> ResizeConditions:
    return conditions if conditions.pending is None else replace(conditions, pending=None)


def begun(generation: int | None, now: datetime) -> ResizeConditions:
    """A new size is given: what was wrong with the one before is over."""
    return ResizeConditions(in_progress=_updated(IN_PROGRESS, None, "", "", generation, now))


def in_progress(
    conditions: ResizeConditions, reason: str, message: str, generation: int | None, now: datetime
) -> ResizeConditions:
    """What went wrong stays said until all is well, and so does the version of the pod that it is about."""
    before = conditions.in_progress
    if before is not None:
        if not reason and not message:
            reason, message = before.reason, before.message
        generation = before.observed_generation
    return replace(conditions, in_progress=_updated(IN_PROGRESS, before, reason, message, generation, now))


def without_in_progress(conditions: ResizeConditions) -> ResizeConditions:
    return conditions if conditions.in_progress is None else replace(conditions, in_progress=None)


def told_before(pod: Pod) -> ResizeConditions:
    """What an earlier agent has said of it."""
    found = {each.type: each for each in pod.status.conditions}
    return ResizeConditions(pending=found.get(PENDING), in_progress=found.get(IN_PROGRESS))


def _updated(
    type: str, before: PodCondition | None, reason: str, message: str, generation: int | None, now: datetime
) -> PodCondition:
    """Dated by its reason: when that changes, so has what holds."""
    since = before.last_transition_time if before is not None and before.reason == reason else now
    return PodCondition(
        type=type,
        observed_generation=generation,
        status="True",
        last_transition_time=since,
        reason=reason,
        message=message,
    )
