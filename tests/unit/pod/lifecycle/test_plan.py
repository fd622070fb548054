"""One row for every branch: a pod, what was seen of it, and what has to happen."""

from typing import Any

import pytest

from pykubelet.api.handlers import Probe
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.plan import Kill, PodActions, plan
from pykubelet.pod.lifecycle.probe_results import NO_PROBES, ProbeResults, Result
from pykubelet.pod.observed import ObservedPod
from unit.pod.seen_pods import container, created, exited, observed, pod, running, sandbox, sidecar, unknown

PROBE = Probe()
ALIVE = PodActions(sandbox_id="sb")


def row(sentence: str, of: Pod, seen: ObservedPod, does: PodActions, probes: ProbeResults = NO_PROBES) -> Any:
    return pytest.param(of, seen, probes, does, id=sentence)


def does(**fields: Any) -> PodActions:
    """Actions in the sandbox that is there."""
    return changed(ALIVE, **fields)


def anew(**fields: Any) -> PodActions:
    """Everything goes, and a second sandbox comes."""
    return changed(PodActions(kill_pod=True, create_sandbox=True, sandbox_id="sb", attempt=1), **fields)


def over(**fields: Any) -> PodActions:
    """Everything goes, and nothing comes."""
    return anew(create_sandbox=False, **fields)


def startup(**results: Result) -> ProbeResults:
    return ProbeResults(startup={f"id-{name}": result for name, result in results.items()})


def liveness(**results: Result) -> ProbeResults:
    return ProbeResults(liveness={f"id-{name}": result for name, result in results.items()})


def check(of: Pod, seen: ObservedPod, probes: ProbeResults, does: PodActions) -> None:
    assert plan(of, seen, probes) == does


DEAD = (sandbox(ready=False),)
NOTHING = observed(sandboxes=())


@pytest.mark.parametrize(
    ("of", "seen", "probes", "does"),
    [
        row(
            "a new pod gets a sandbox and all its containers",
            pod("a", "b"),
            NOTHING,
            PodActions(kill_pod=True, create_sandbox=True, containers=("a", "b")),
        ),
        row(
            "a new pod with init containers starts the first of them alone",
            pod("c", init=("i", "j")),
            NOTHING,
            PodActions(kill_pod=True, create_sandbox=True, init_containers=("i",)),
        ),
        row(
            "ephemeral containers wait for a sandbox",
            pod("c", ephemeral=("e",)),
            NOTHING,
            PodActions(kill_pod=True, create_sandbox=True, containers=("c",)),
        ),
        row("a good sandbox and running containers need nothing", pod("c"), observed(running("c")), ALIVE),
        row("a dead sandbox is replaced", pod("c"), observed(running("c"), sandboxes=DEAD), anew(containers=("c",))),
        row(
            "the new sandbox counts on from the newest one",
            pod("c"),
            observed(sandboxes=(sandbox(ready=False, attempt=4), sandbox("old", ready=False, attempt=3))),
            anew(attempt=5, containers=("c",)),
        ),
        row(
            "two ready sandboxes are one too many",
            pod("c"),
            observed(running("c"), sandboxes=(sandbox(attempt=1), sandbox("old"))),
            anew(attempt=2, containers=("c",)),
        ),
        row(
            "a ready sandbox that is not the newest is of no use",
            pod("c"),
            observed(running("c"), sandboxes=(sandbox(ready=False, attempt=1), sandbox("old"))),
            anew(attempt=2, containers=("c",)),
        ),
        row(
            "a dead sandbox behind a ready one does not matter",
            pod("c"),
            observed(running("c"), sandboxes=(sandbox(attempt=1), sandbox("old", ready=False))),
            does(attempt=1),
        ),
        row(
            "a pod that moves to the host's network needs another sandbox, and has none to reuse",
            pod("c", host_network=True),
            observed(running("c")),
            anew(sandbox_id="", containers=("c",)),
        ),
        row(
            "a pod that leaves the host's network needs another sandbox",
            pod("c", host_network=False),
            observed(running("c"), sandboxes=(sandbox(host_network=True),)),
            anew(sandbox_id="", containers=("c",)),
        ),
        row(
            "a sandbox without an address is replaced",
            pod("c"),
            observed(running("c"), sandboxes=(sandbox(ip=""),)),
            anew(containers=("c",)),
        ),
        row(
            "on the host's network no address is needed",
            pod("c", host_network=True),
            observed(running("c"), sandboxes=(sandbox(ip="", host_network=True),)),
            ALIVE,
        ),
        row(
            "a pod that never restarts is over with its sandbox",
            pod("c", restart="Never"),
            observed(running("c"), sandboxes=DEAD),
            over(),
        ),
        row(
            "a pod that never restarts may try again while no container was made",
            pod("c", restart="Never"),
            observed(sandboxes=DEAD),
            anew(containers=("c",)),
        ),
        row(
            "a pod that never restarts and whose sandbox was removed starts over",
            pod("c", restart="Never"),
            observed(exited("c"), sandboxes=()),
            PodActions(kill_pod=True, create_sandbox=True, containers=("c",)),
        ),
        row(
            "in a new sandbox what has succeeded is not repeated on failure",
            pod("a", "b", "x", restart="OnFailure"),
            observed(exited("a"), exited("b", 1), running("x"), sandboxes=DEAD),
            anew(containers=("b", "x")),
        ),
        row(
            "a pod whose containers have all succeeded gets no new sandbox",
            pod("c", init=("i",), restart="OnFailure"),
            observed(exited("c"), exited("i"), sandboxes=DEAD),
            over(),
        ),
        row(
            "a pod that always restarts starts over, whatever its containers achieved",
            pod("c", init=("i",)),
            observed(exited("c"), exited("i"), sandboxes=DEAD),
            anew(init_containers=("i",)),
        ),
    ],
)
def test_sandbox(of: Pod, seen: ObservedPod, probes: ProbeResults, does: PodActions) -> None:
    check(of, seen, probes, does)


TWO = pod("c", init=("i", "j"))
NEVER = pod("c", init=("i", "j"), restart="Never")


@pytest.mark.parametrize(
    ("of", "seen", "probes", "does"),
    [
        row("in an empty sandbox the first one starts", TWO, observed(), does(init_containers=("i",))),
        row("a running one is waited for", TWO, observed(running("i")), ALIVE),
        row("a changed one is let finish", TWO, observed(running("i", changed=True)), ALIVE),
        row("one that could not be started is tried again", TWO, observed(created("i")), does(init_containers=("i",))),
        row("after one has succeeded the next one starts", TWO, observed(exited("i")), does(init_containers=("j",))),
        row("after the last has succeeded the main containers start",
            TWO, observed(exited("j")), does(containers=("c",))),
        row("a failed one is tried again", TWO, observed(exited("i", 1)), does(init_containers=("i",))),
        row("memory that ran out is a failure even with exit code 0",
            TWO, observed(exited("i", reason="OOMKilled")), does(init_containers=("i",))),
        row("on failure a failed one is tried again",
            pod("c", init=("i",), restart="OnFailure"), observed(exited("i", 1)), does(init_containers=("i",))),
        row("a failed one ends a pod that never restarts", NEVER, observed(exited("i", 1)), does(kill_pod=True)),
        row("a failed second one ends a pod that never restarts",
            NEVER, observed(exited("j", 1), exited("i")), does(kill_pod=True)),
        row("one lost sight of is killed and tried again", TWO, observed(unknown("i")), does(
            init_containers=("i",),
            kills=(Kill("i", "id-i", "Unknown",
                        'Init container is in "unknown" state, try killing it before restart'),),
        )),
        row("one lost sight of ends a pod that never restarts", NEVER, observed(unknown("i")), does(kill_pod=True)),
        row("those before the last one seen are not looked at",
            TWO, observed(running("j"), exited("i", 1)), ALIVE),
        row("none runs again beside a running main container",
            TWO, observed(running("c"), exited("j", 1)), ALIVE),
        row("none runs again beside a created main container",
            TWO, observed(created("c")), does(containers=("c",))),
        row("an ended main container may be of an earlier sandbox and proves nothing",
            TWO, observed(exited("c"), exited("i")), does(init_containers=("j",))),
        row("a pod that is being deleted still goes on initializing",
            pod("c", init=("i",), deleted=True), observed(exited("i", 1)), does(init_containers=("i",))),
        row("ephemeral containers start while initialization is under way",
            pod("c", init=("i",), ephemeral=("e",)), observed(running("i")), does(ephemeral_containers=("e",))),
    ],
)  # fmt: skip
def test_init_containers(of: Pod, seen: ObservedPod, probes: ProbeResults, does: PodActions) -> None:
    check(of, seen, probes, does)


PAIR = pod("c", init=(sidecar("s"), sidecar("t")))
PROBED = pod("c", init=(sidecar("s", startup=PROBE), "j"))
LAST = pod("c", init=("i", sidecar("s", startup=PROBE)))
STARTUP_KILL = Kill("s", "id-s", "StartupProbe", "Init container s failed startup probe")
LIVENESS_KILL = Kill("s", "id-s", "LivenessProbe", "Init container s failed liveness probe")
CHANGED_KILL = Kill("s", "id-s", "", "Init container s definition changed")


@pytest.mark.parametrize(
    ("of", "seen", "probes", "does"),
    [
        row("a running one lets the next start", PAIR, observed(running("s")), does(init_containers=("t",))),
        row("the last one running lets the main containers start",
            PAIR, observed(running("t"), running("s")), does(containers=("c",))),
        row("an ended one is started again at once, in order",
            PAIR, observed(exited("t"), exited("s", 1)), does(init_containers=("s", "t"))),
        row("an ended one is started again even in a pod that never restarts",
            pod("c", init=(sidecar("s"),), restart="Never"), observed(exited("s", 1)), does(init_containers=("s",))),
        row("one that could not be started is tried again",
            PAIR, observed(created("s")), does(init_containers=("s",))),
        row("one lost sight of is killed and started again even in a pod that never restarts",
            pod("c", init=(sidecar("s"),), restart="Never"), observed(unknown("s")), does(
                init_containers=("s",),
                kills=(Kill("s", "id-s", "Unknown",
                            'Init container is in "unknown" state, try killing it before restart'),),
            )),
        row("an ended one is started again beside running main containers",
            PAIR, observed(running("c"), running("t"), exited("s")), does(init_containers=("s",))),
        row("a missing one is started again beside running main containers",
            PAIR, observed(running("c"), running("t")), does(init_containers=("s",))),
        row("a missing one is started again once a later one is seen",
            PAIR, observed(running("t")), does(init_containers=("s",), containers=("c",))),
        row("a plain init container before a running one is not repeated",
            LAST, observed(running("s")), does(containers=("c",)), startup(s=Result.SUCCESS)),
        row("the next one waits for a startup probe without a result", PROBED, observed(running("s")), ALIVE),
        row("the next one waits for an undecided startup probe",
            PROBED, observed(running("s")), ALIVE, startup(s=Result.UNKNOWN)),
        row("the next one starts when the startup probe succeeds",
            PROBED, observed(running("s")), does(init_containers=("j",)), startup(s=Result.SUCCESS)),
        row("a failed startup probe kills and restarts, and lets nobody pass",
            PROBED, observed(running("s")), does(init_containers=("s",), kills=(STARTUP_KILL,)),
            startup(s=Result.FAILURE)),
        row("a startup result without a startup probe does not count",
            PAIR, observed(running("s")), does(init_containers=("t",)), startup(s=Result.FAILURE)),
        row("the main containers wait for the last one's startup probe", LAST, observed(running("s")), ALIVE),
        row("the startup probe of an earlier one does not hold up main containers that run",
            PROBED, observed(running("c"), running("s")), ALIVE),
        row("a changed one is replaced, and lets the next start",
            PAIR, observed(running("s", changed=True)), does(init_containers=("s", "t"), kills=(CHANGED_KILL,))),
        row("a changed one is replaced beside running main containers",
            PAIR, observed(running("c"), running("t"), running("s", changed=True)),
            does(init_containers=("s",), kills=(CHANGED_KILL,))),
        row("a changed one keeps running until its startup probe has an answer",
            PROBED, observed(running("s", changed=True)), ALIVE),
        row("a failed liveness probe restarts it, and lets the next start",
            pod("c", init=(sidecar("s", liveness=PROBE), "j")), observed(running("s")),
            does(init_containers=("s", "j"), kills=(LIVENESS_KILL,)), liveness(s=Result.FAILURE)),
        row("a liveness probe without a result changes nothing",
            pod("c", init=(sidecar("s", liveness=PROBE), "j")), observed(running("s")), does(init_containers=("j",))),
        row("a liveness result without a liveness probe does not count",
            PAIR, observed(running("s")), does(init_containers=("t",)), liveness(s=Result.FAILURE)),
        row("they are not restarted when the main containers are done",
            pod("c", init=(sidecar("s"), sidecar("t")), restart="Never"),
            observed(exited("c"), running("t"), exited("s")), does(kill_pod=True)),
        row("an init container that failed before them must have succeeded since",
            pod("c", init=(sidecar("r"), "i", sidecar("s")), restart="Never"),
            observed(running("s", changed=True), exited("i", 1)),
            does(init_containers=("r", "s"), containers=("c",), kills=(CHANGED_KILL,))),
    ],
)  # fmt: skip
def test_sidecars(of: Pod, seen: ObservedPod, probes: ProbeResults, does: PodActions) -> None:
    check(of, seen, probes, does)


UNKNOWN_KILL = Kill("c", "id-c", "Unknown", 'Container is in "unknown" state, try killing it before restart')


def kill(reason: str, trouble: str, *, back: bool = True) -> Kill:
    return Kill("c", "id-c", reason, f"Container c {trouble}{', will be restarted' if back else ''}")


@pytest.mark.parametrize(
    ("of", "seen", "probes", "does"),
    [
        row("a missing one starts", pod("c", "d"), observed(running("d")), does(containers=("c",))),
        row("a created one starts, whatever the restart policy",
            pod("c", restart="Never"), observed(created("c")), does(containers=("c",))),
        row("an ended one starts again", pod("c"), observed(exited("c")), does(containers=("c",))),
        row("a failed one starts again on failure",
            pod("c", restart="OnFailure"), observed(exited("c", 1)), does(containers=("c",))),
        row("one that succeeded does not start again on failure",
            pod("c", "d", restart="OnFailure"), observed(exited("c"), running("d")), ALIVE),
        row("a failed one does not start again in a pod that never restarts",
            pod("c", "d", restart="Never"), observed(exited("c", 1), running("d")), ALIVE),
        row("one lost sight of is killed before it starts again, whatever the restart policy",
            pod("c", restart="Never"), observed(unknown("c")), does(containers=("c",), kills=(UNKNOWN_KILL,))),
        row("only the newest attempt counts",
            pod("c", restart="Never"), observed(running("c"), exited("c", 1)), ALIVE),
        row("in a pod that is being deleted none starts again",
            pod("c", "d", deleted=True), observed(exited("c"), running("d")), ALIVE),
        row("when all have ended for good the pod is over",
            pod("c", "d", restart="OnFailure"), observed(exited("c"), exited("d")), does(kill_pod=True)),
        row("when all have ended in a pod that is being deleted it is over",
            pod("c", deleted=True), observed(unknown("c")), does(kill_pod=True)),
        row("a changed one is replaced",
            pod("c"), observed(running("c", changed=True)),
            does(containers=("c",), kills=(kill("", "definition changed"),))),
        row("a changed one is replaced even in a pod that never restarts",
            pod("c", restart="Never"), observed(running("c", changed=True)),
            does(containers=("c",), kills=(kill("", "definition changed"),))),
        row("that it changed weighs more than a failed probe",
            pod("c", restart="Never"), observed(running("c", changed=True)),
            does(containers=("c",), kills=(kill("", "definition changed"),)), liveness(c=Result.FAILURE)),
        row("a failed liveness probe restarts it",
            pod(container("c", liveness=PROBE)), observed(running("c")),
            does(containers=("c",), kills=(kill("LivenessProbe", "failed liveness probe"),)),
            liveness(c=Result.FAILURE)),
        row("a failed startup probe restarts it",
            pod(container("c", startup=PROBE), restart="OnFailure"), observed(running("c")),
            does(containers=("c",), kills=(kill("StartupProbe", "failed startup probe"),)),
            startup(c=Result.FAILURE)),
        row("a failed probe ends it in a pod that never restarts",
            pod("c", "d", restart="Never"), observed(running("c"), running("d")),
            does(kills=(kill("LivenessProbe", "failed liveness probe", back=False),)), liveness(c=Result.FAILURE)),
        row("a failed probe of the last one ends a pod that never restarts",
            pod("c", restart="Never"), observed(running("c")),
            does(kill_pod=True, kills=(kill("StartupProbe", "failed startup probe", back=False),)),
            startup(c=Result.FAILURE)),
        row("good and undecided probes change nothing",
            pod("c", "d"), observed(running("c"), running("d")), ALIVE,
            liveness(c=Result.SUCCESS, d=Result.UNKNOWN)),
        row("probes of an earlier attempt do not count",
            pod("c"), observed(running("c")), ALIVE, ProbeResults(liveness={"id-earlier": Result.FAILURE})),
        row("containers that the spec does not know are left alone",
            pod("c"), observed(running("c"), running("x")), ALIVE),
    ],
)  # fmt: skip
def test_main_containers(of: Pod, seen: ObservedPod, probes: ProbeResults, does: PodActions) -> None:
    check(of, seen, probes, does)


@pytest.mark.parametrize(
    ("of", "seen", "probes", "does"),
    [
        row("a new one starts in a running pod",
            pod("c", ephemeral=("e",)), observed(running("c")), does(ephemeral_containers=("e",))),
        row("one that runs is left alone, even changed",
            pod("c", ephemeral=("e",)), observed(running("c"), running("e", changed=True)), ALIVE),
        row("one that has ended never starts again",
            pod("c", ephemeral=("e", "f")), observed(running("c"), exited("e", 1)), does(ephemeral_containers=("f",))),
    ],
)  # fmt: skip
def test_ephemeral_containers(of: Pod, seen: ObservedPod, probes: ProbeResults, does: PodActions) -> None:
    check(of, seen, probes, does)


@pytest.mark.parametrize(
    "actions",
    [
        PodActions(kill_pod=True),
        PodActions(create_sandbox=True),
        PodActions(init_containers=("i",)),
        PodActions(containers=("c",)),
        PodActions(ephemeral_containers=("e",)),
        PodActions(kills=(Kill("c", "id"),)),
    ],
)
def test_actions_that_do_something_are_not_empty(actions: PodActions) -> None:
    assert not actions.is_empty


def test_where_to_act_is_no_action() -> None:
    assert PodActions(sandbox_id="sb", attempt=3).is_empty
