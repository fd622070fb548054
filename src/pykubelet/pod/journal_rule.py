"""What the journal keeps of each moment: what changes, what takes long and what fails.

So a pod that has run for a month without trouble has the moments of its start and little else.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pykubelet.base.journal import Rule
from pykubelet.pod import moments as m
from pykubelet.pod.claims.moments import ClaimDriverCalled, ClaimsHandled
from pykubelet.pod.container.volume_moments import DriverCalled, VolumeChanged
from pykubelet.pod.devices.moments import DevicesAllocated, PodResourcesAsked

_SLOW: Final = 0.05
"""Seconds from which on a step that went well is worth remembering."""
_ALL: Final = Rule()
_NONE: Final = Rule(keep=False)
_WORK: Final = Rule("work", opens=True)
_GONE: Final = Rule(ends=True)


def rule(moment: m.Moment) -> Rule:
    """Found by the moment's type: this is in the middle of hot paths."""
    found = _RULES.get(type(moment))
    return _ALL if found is None else found(moment)


def _step_ended(of: m.StepEnded) -> Rule:
    return Rule(("step", of.step), of.error or of, keep=bool(of.error) or of.seconds >= _SLOW)


def _work_ended(of: m.WorkEnded) -> Rule:
    return Rule("work", of.error or of, keep=bool(of.error) or of.operation != "sync" or of.seconds >= _SLOW)


def _cgroup_changed(of: m.CgroupChanged) -> Rule:
    return Rule(("cgroup", of.operation), of.error, keep=bool(of.error) or of.operation != "update")


def _event_recorded(of: m.EventRecorded) -> Rule:
    """Probes of several containers fail in turn, each time in words of their own: of each the last ones will do."""
    return Rule(("event", of.reason, of.message.partition(":")[0] if of.reason == "Unhealthy" else of.message))


_RULES: Final[Mapping[type[m.Moment], Callable[[Any], Rule]]] = {
    # its worker
    m.StepBegun: lambda of: Rule(("step", of.step), opens=True),
    m.StepEnded: _step_ended,
    m.WorkBegun: lambda of: _WORK,
    m.Resting: lambda of: _WORK,
    m.WorkEnded: _work_ended,
    m.PhaseEntered: lambda of: _GONE if of.phase is m.Phase.GONE else _ALL,
    m.Awaiting: lambda of: Rule(("awaiting", of.what), (of.name, of.message)),
    m.CgroupChanged: _cgroup_changed,
    # its containers
    m.PullBegun: lambda of: Rule(("pull", of.image), opens=True),
    m.PullProgressed: lambda of: Rule(("pull", of.image), opens=True),
    m.PullEnded: lambda of: Rule(("pull", of.image), of.error or of),
    m.StartFailed: lambda of: Rule(("start", of.container), (of.reason, of.message)),
    m.BackedOff: lambda of: Rule(("back-off", of.container), of.until),
    m.Probed: lambda of: Rule(("probe", of.kind, of.container), of.result),
    m.RuntimeCalled: lambda of: Rule(("call", of.method), of.error, keep=bool(of.error)),
    # what is said of it
    m.EventRecorded: _event_recorded,
    m.StatusAcknowledged: lambda of: Rule("acknowledged", ""),
    m.Relisted: lambda of: _NONE,
    m.ApiAnswered: lambda of: _NONE,
    m.ApiRequested: lambda of: _NONE,
    m.ApiRetried: lambda of: _NONE,
    m.EventsFollowed: lambda of: Rule("events", of.error),
    DriverCalled: lambda of: Rule(("driver", of.driver, of.method), of.code, keep=of.code != "OK"),
    VolumeChanged: lambda of: Rule(("volume", of.plugin, of.operation), of.error, keep=bool(of.error)),
    m.ProbingEnded: lambda of: _NONE,
    ClaimsHandled: lambda of: Rule(("claims", of.operation), of.error),
    ClaimDriverCalled: lambda of: _NONE,
    DevicesAllocated: lambda of: Rule(("devices", of.resource), of.error, keep=bool(of.error)),
    PodResourcesAsked: lambda of: _NONE,
}
