import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.handlers import Probe
from pykubelet.api.pod import Pod
from pykubelet.pod.lifecycle.termination_grace import container_grace, orphan_grace, pod_grace, stop_waves
from pykubelet.pod.observed import ObservedContainer, State
from unit.pod.seen_pods import container, created, exited, observed, pod, running, seen, sidecar, unknown

# --- how long


@pytest.mark.parametrize(
    ("of", "grace"),
    [
        pytest.param(pod("c"), 30, id="without any wish it is 30 s"),
        pytest.param(pod("c", grace=5), 5, id="the pod's wish counts when nobody asks for anything"),
        pytest.param(pod("c", grace=0), 1, id="it is never less than 1 s"),
        pytest.param(pod("c", grace=-1), 1, id="a negative wish is no time machine"),
        pytest.param(pod("c", grace=5, deletion_grace=60), 60, id="who deletes may give more time"),
        pytest.param(pod("c", grace=5, deletion_grace=2), 2, id="who deletes may give less time"),
        pytest.param(pod("c", grace=5, deletion_grace=0), 1, id="who deletes by force gives the least"),
    ],
)
def test_grace_of_a_pod(of: Pod, grace: int) -> None:
    assert pod_grace(of) == grace


HASTY = container(
    "c", startup=Probe(termination_grace_period_seconds=3), liveness=Probe(termination_grace_period_seconds=4)
)
PLAIN = container("c", startup=Probe(), liveness=Probe())


@pytest.mark.parametrize(
    ("of", "reason", "grace"),
    [
        pytest.param(pod(HASTY, grace=9), "StartupProbe", 3, id="a failed startup probe brings its own"),
        pytest.param(pod(HASTY, grace=9), "LivenessProbe", 4, id="a failed liveness probe brings its own"),
        pytest.param(pod(HASTY, grace=1), "LivenessProbe", 4, id="also when that is more than the pod's"),
        pytest.param(pod(HASTY, grace=9), "Unknown", 9, id="for other reasons the pod's counts"),
        pytest.param(pod(HASTY, grace=9), "", 9, id="for a changed container the pod's counts"),
        pytest.param(pod(PLAIN, grace=9), "StartupProbe", 9, id="a startup probe without one leaves the pod's"),
        pytest.param(pod(PLAIN, grace=9), "LivenessProbe", 9, id="a liveness probe without one leaves the pod's"),
        pytest.param(pod("c", grace=9), "LivenessProbe", 9, id="without a probe the pod's counts"),
        pytest.param(pod("c"), "", 30, id="without any wish it is 30 s"),
        pytest.param(pod(HASTY, grace=9, deletion_grace=7), "LivenessProbe", 7, id="a deletion outweighs them all"),
    ],
)
def test_grace_of_a_container(of: Pod, reason: str, grace: int) -> None:
    assert container_grace(of, of.spec.containers[0], reason) == grace


def test_a_container_that_the_spec_does_not_know_gets_the_pods_grace() -> None:
    assert container_grace(pod("c", grace=9), None, "LivenessProbe") == 9


@pytest.mark.parametrize(("noted", "grace"), [(None, 2), (0, 0), (45, 45)])
def test_an_orphan_gets_what_was_noted_when_it_was_made(noted: int | None, grace: int) -> None:
    assert orphan_grace(seen("c", State.RUNNING, grace_seconds=noted)) == grace


# --- in which order


WEB = pod("a", "b", init=("i", sidecar("s"), "j", sidecar("t")), ephemeral=("e",))


@pytest.mark.parametrize(
    ("containers", "waves"),
    [
        pytest.param((), (), id="nothing there"),
        pytest.param((running("a"), running("b")), (("a", "b"),), id="main containers together"),
        pytest.param(
            (running("s"), running("t"), running("a")), (("a",), ("t",), ("s",)), id="then sidecars backwards"
        ),
        pytest.param((running("s"), running("t")), (("t",), ("s",)), id="sidecars alone"),
        pytest.param((running("s"), running("a")), (("a",), ("s",)), id="no empty wave for who is not there"),
        pytest.param((running("i"), running("s")), (("i",), ("s",)), id="init containers go first"),
        pytest.param((running("e"), running("s")), (("e",), ("s",)), id="ephemeral containers go first"),
        pytest.param((running("x"), running("s"), running("a")), (("x", "a"), ("s",)), id="strangers go first"),
        pytest.param((unknown("a"), unknown("s")), (("a",), ("s",)), id="what may still run counts"),
        pytest.param((exited("a"), created("b"), exited("t"), running("s")), (("s",),), id="what does not run is left"),
    ],
)
def test_waves(containers: tuple[ObservedContainer, ...], waves: tuple[tuple[str, ...], ...]) -> None:
    assert stop_waves(WEB, observed(*containers)) == tuple(tuple(f"id-{name}" for name in wave) for wave in waves)


def test_a_pod_that_nobody_knows_stops_all_at_once() -> None:
    assert stop_waves(None, observed(running("s"), running("a"), exited("b"))) == (("id-s", "id-a"),)


@given(st.lists(st.sampled_from(["a", "b", "i", "s", "j", "t", "e", "x"])), st.lists(st.sampled_from(State)))
def test_everything_that_may_run_is_stopped_exactly_once(names: list[str], states: list[State]) -> None:
    there = [
        ObservedContainer(id=f"{name}{n}", name=name, state=state)
        for n, (name, state) in enumerate(zip(names, states, strict=False))
    ]
    stopped = [each for wave in stop_waves(WEB, observed(*there)) for each in wave]
    assert sorted(stopped) == sorted(c.id for c in there if c.state in (State.RUNNING, State.UNKNOWN))
