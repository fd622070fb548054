"""Whether a pod's containers can run in the sandbox that is there: what the plan goes by, and what is reported."""

from enum import Enum, auto

from pykubelet.api.pod import Pod
from pykubelet.pod.observed import ObservedPod


class SandboxFitness(Enum):
    FITS = auto()
    MISSING = auto()
    NOT_READY = auto()
    """Or not the only one that is."""
    WRONG_NETWORK = auto()
    """The host's instead of its own, or its own instead of the host's."""
    UNREACHABLE = auto()
    """It has no address."""


def sandbox_fitness(pod: Pod, observed: ObservedPod) -> SandboxFitness:
    """Of the newest sandbox."""
    if not observed.sandboxes:
        return SandboxFitness.MISSING
    newest, host_network = observed.sandboxes[0], bool(pod.spec.host_network)
    if not newest.ready or sum(sandbox.ready for sandbox in observed.sandboxes) > 1:
        return SandboxFitness.NOT_READY
    if newest.host_network != host_network:
        return SandboxFitness.WRONG_NETWORK
    return SandboxFitness.FITS if host_network or newest.ips else SandboxFitness.UNREACHABLE
