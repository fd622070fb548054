"""In which sandboxes a pod's containers can run."""

import pytest

from kit.pods import make_pod
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.sandbox_fitness import SandboxFitness, sandbox_fitness
from pykubelet.pod.observed import ObservedPod, ObservedSandbox

READY = ObservedSandbox(id="s2", ready=True, ips=("10.0.0.2",))
ON_HOST = ObservedSandbox(id="s2", ready=True, host_network=True)


@pytest.mark.parametrize(
    ("host_network", "sandboxes", "fitness"),
    [
        (False, (), SandboxFitness.MISSING),
        (False, (READY,), SandboxFitness.FITS),
        (False, (READY, changed(READY, id="s1", ready=False)), SandboxFitness.FITS),
        (False, (changed(READY, ready=False), changed(READY, id="s1")), SandboxFitness.NOT_READY),
        (False, (READY, changed(READY, id="s1")), SandboxFitness.NOT_READY),
        (False, (changed(READY, ips=()),), SandboxFitness.UNREACHABLE),
        (False, (ON_HOST,), SandboxFitness.WRONG_NETWORK),
        (True, (ON_HOST,), SandboxFitness.FITS),
        (True, (READY,), SandboxFitness.WRONG_NETWORK),
        (True, (changed(READY, ready=False),), SandboxFitness.NOT_READY),
    ],
)
def test_a_sandbox_fits_when_it_is_the_only_ready_one_on_the_right_network_and_can_be_reached(
    host_network: bool, sandboxes: tuple[ObservedSandbox, ...], fitness: SandboxFitness
) -> None:
    pod = make_pod()
    pod = changed(pod, spec=changed(pod.spec, host_network=host_network))
    assert sandbox_fitness(pod, ObservedPod(uid="u", sandboxes=sandboxes)) is fitness
