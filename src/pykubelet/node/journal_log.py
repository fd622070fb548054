"""The journal in the log, for those who turn the log up: what has changed, what waits and what fails."""

import logging
from typing import assert_never

from pykubelet.pod import moments as m
from pykubelet.pod.claims.moments import ClaimDriverCalled, ClaimsHandled
from pykubelet.pod.container.volume_moments import DriverCalled, VolumeChanged
from pykubelet.pod.devices.moments import DevicesAllocated, DevicesOffered, PodResourcesAsked
from pykubelet.pod.resize.moments import ResizeAsked, Resized

log = logging.getLogger(__name__)


def log_moment(noted: m.Noted) -> None:
    """A reader of the journal (`journal.read_by`)."""
    if log.isEnabledFor(logging.DEBUG) and is_worth_a_line(noted.moment):
        log.debug("%s: %r", noted.about if noted.about.uid else "node", noted.moment)


def is_worth_a_line(moment: m.Moment) -> bool:
    """Not what comes again and again and goes well, nor what has a line of its own elsewhere."""
    match moment:
        case (
            m.RuntimeCalled() | m.StepEnded() | m.WorkEnded() | m.CgroupChanged() | VolumeChanged() | DevicesAllocated()
        ):
            return bool(moment.error)
        case DriverCalled():
            return moment.code != "OK"
        case m.StepBegun() | m.WorkBegun() | m.Resting() | m.Probed() | m.ProbingEnded() | m.StatusAcknowledged():
            return False
        case m.Relisted() | m.ApiAnswered() | m.ApiRequested() | m.EventRecorded() | m.ImageRemoved():
            return False
        case m.CertificateRotated() | m.CertificateRenewalFailed() | m.OrphanFound() | m.NodeStage():
            return False
        case m.ApiRetried() | m.EventsFollowed() | ClaimDriverCalled() | DevicesOffered() | PodResourcesAsked():
            return False
        case (
            m.Watched()
            | m.Merged()
            | m.Admitted()
            | m.Rejected()
            | m.Preempted()
            | m.Evicted()
            | Resized()
            | ResizeAsked()
        ):
            return True
        case m.PhaseEntered() | m.Began() | m.Awaiting() | m.StopAsked() | m.DeadlinePassed() | ClaimsHandled():
            return True
        case m.SandboxMade() | m.PullBegun() | m.PullProgressed() | m.PullEnded() | m.ContainerCreated():
            return True
        case m.ContainerStarted() | m.StartFailed() | m.BackedOff() | m.HookFailed() | m.ContainerStopping():
            return True
        case m.Exited() | m.HealthChanged() | m.StatusSet() | m.StatusSent() | m.PodDeleted():
            return True
        case _:
            assert_never(moment)
