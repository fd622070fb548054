"""What the journal keeps of each moment: what changes, what takes long and what fails.

So a pod that has run for a month without trouble has the moments of its start and little else.
"""

from typing import Final, cast, get_args

from pykubelet.base.journal import Rule
from pykubelet.pod import moments as m

_SLOW: Final = 0.05
"""Seconds from which on a step that went well is worth remembering."""

_WORK: Final = frozenset(get_args(m.Work))
_CONTAINERS: Final = frozenset(get_args(m.Containers))


def rule(moment: m.Moment) -> Rule:
    its = type(moment)
    if its in _WORK:
        return _of_work(cast(m.Work, moment))
    if its in _CONTAINERS:
        return _of_containers(cast(m.Containers, moment))
    match moment:
        case m.RuntimeCalled(method, _, error):
            return Rule(("call", method), error, keep=bool(error))
        case m.Probed(kind, container, result):
            return Rule(("probe", kind, container), result)
        case m.EventRecorded(_, reason, message):
            return Rule(("event", reason), message)
        case m.StatusAcknowledged():
            return Rule("acknowledged", "")
        case m.Relisted() | m.ApiAnswered() | m.ApiRequested() | m.ProbingEnded():
            return Rule(keep=False)
        case _:
            return Rule()


def _of_work(moment: m.Work) -> Rule:
    match moment:
        case m.StepBegun(step):
            return Rule(("step", step), opens=True)
        case m.StepEnded(step, seconds, error):
            return Rule(("step", step), error or moment, keep=bool(error) or seconds >= _SLOW)
        case m.WorkBegun() | m.Resting():
            return Rule("work", opens=True)
        case m.WorkEnded(operation, seconds, error):
            return Rule("work", error or moment, keep=bool(error) or operation != "sync" or seconds >= _SLOW)
        case m.Awaiting(what, name, message):
            return Rule(("awaiting", what), (name, message))
        case m.CgroupChanged(operation, _, error):
            return Rule(("cgroup", operation), error, keep=bool(error) or operation != "update")
        case _:
            return Rule()


def _of_containers(moment: m.Containers) -> Rule:
    match moment:
        case m.PullBegun(image) | m.PullProgressed(image):
            return Rule(("pull", image), opens=True)
        case m.PullEnded(image, error=error):
            return Rule(("pull", image), error or moment)
        case m.StartFailed(container, _, reason, message):
            return Rule(("start", container), (reason, message))
        case m.BackedOff(container, until):
            return Rule(("back-off", container), until)
        case _:
            return Rule()
