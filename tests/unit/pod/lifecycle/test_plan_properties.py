"""What holds for every plan, whatever the pod and whatever was seen of it."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.container import Container
from pykubelet.api.handlers import Probe
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.struct import changed
from pykubelet.pod.container.hash import container_hash
from pykubelet.pod.lifecycle.plan import PodActions, plan
from pykubelet.pod.lifecycle.probe_results import NO_PROBES, ProbeResults, Result
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from unit.pod.seen_pods import container, pod, sidecar

ROUNDS = 20
"""More than the five containers of the largest pod below can need."""

PROBES = st.sampled_from([None, Probe()])
NETWORK = st.sampled_from([None, False, True])


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    kinds = draw(st.lists(st.sampled_from([container, sidecar]), max_size=3))
    return pod(
        *[container(f"c{n}", startup=draw(PROBES)) for n in range(draw(st.integers(1, 2)))],
        init=[kind(f"i{n}", startup=draw(PROBES), liveness=draw(PROBES)) for n, kind in enumerate(kinds)],
        ephemeral=draw(st.sampled_from([(), ("e",)])),
        restart=draw(st.sampled_from(["Always", "OnFailure", "Never"])),
        host_network=draw(NETWORK),
    )


@st.composite
def pods_seen(draw: st.DrawFn) -> tuple[Pod, ObservedPod]:
    """A pod, and anything at all that a runtime may hold of it."""
    of = draw(pods())
    sandboxes = tuple(
        ObservedSandbox(
            id=f"sb{n}",
            ready=draw(st.booleans()),
            attempt=draw(st.integers(0, 2)),
            ips=draw(st.sampled_from([("10.0.0.1",), ()])),
            host_network=draw(st.booleans()),
        )
        for n in range(draw(st.integers(0, 2)))
    )
    names = draw(st.lists(st.sampled_from([*_specs(of), "stranger"]), max_size=8))
    containers = tuple(
        ObservedContainer(
            id=f"seen{n}",
            name=name,
            state=draw(st.sampled_from(State)),
            attempt=draw(st.integers(0, 2)),
            hash=draw(st.sampled_from(["other", _hash(of, name)])),
            exit_code=draw(st.sampled_from([0, 1])),
            reason=draw(st.sampled_from(["", "OOMKilled"])),
        )
        for n, name in enumerate(names)
    )
    return of, ObservedPod(uid="u", sandboxes=sandboxes, containers=containers)


@st.composite
def probed(draw: st.DrawFn) -> tuple[Pod, ObservedPod, ProbeResults]:
    of, seen = draw(pods_seen())
    results = st.dictionaries(st.sampled_from([f"seen{n}" for n in range(8)]), st.sampled_from(Result))
    return of, seen, ProbeResults(liveness=draw(results), startup=draw(results))


def _specs(of: Pod) -> dict[str, Container]:
    spec = of.spec
    return {c.name: c for c in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)}


def _hash(of: Pod, name: str) -> str:
    spec = _specs(of).get(name)
    return container_hash(spec) if spec else "strange"


def _starts(actions: PodActions) -> tuple[str, ...]:
    return (*actions.ephemeral_containers, *actions.init_containers, *actions.containers)


# --- a runtime in which everything works


def apply(of: Pod, seen: ObservedPod, actions: PodActions) -> ObservedPod:
    """What is there once the actions are done."""
    sandboxes, containers = seen.sandboxes, seen.containers
    ended = {kill.container_id for kill in actions.kills}
    if actions.kill_pod:
        ended = {c.id for c in containers}
        sandboxes = tuple(changed(sandbox, ready=False) for sandbox in sandboxes)
    containers = tuple(_killed(c) if c.id in ended else c for c in containers)
    if actions.create_sandbox:
        host = bool(of.spec.host_network)
        made = ObservedSandbox(
            id=f"new{actions.attempt}-{len(sandboxes)}",
            ready=True,
            attempt=actions.attempt,
            ips=() if host else ("10.0.0.2",),
            host_network=host,
        )
        sandboxes = (made, *sandboxes)
        init = {c.name for c in of.spec.init_containers}
        containers = tuple(c for c in containers if c.name not in init)
    if sandboxes and sandboxes[0].ready:
        for name in _starts(actions):
            containers = (_started(of, name, containers), *containers)
    return changed(seen, sandboxes=sandboxes, containers=containers)


def _killed(one: ObservedContainer) -> ObservedContainer:
    return changed(one, state=State.EXITED, exit_code=137) if one.state in (State.RUNNING, State.UNKNOWN) else one


def _started(of: Pod, name: str, before: tuple[ObservedContainer, ...]) -> ObservedContainer:
    attempt = 1 + max((c.attempt for c in before if c.name == name), default=-1)
    return ObservedContainer(
        id=f"{name}-{attempt}-{len(before)}", name=name, state=State.RUNNING, attempt=attempt, hash=_hash(of, name)
    )


def pass_time(of: Pod, seen: ObservedPod) -> ObservedPod:
    """Init containers succeed; all others go on running."""
    plain = {c.name for c in of.spec.init_containers if not is_sidecar(c)}
    return changed(
        seen,
        containers=tuple(
            changed(c, state=State.EXITED) if c.name in plain and c.state is State.RUNNING else c
            for c in seen.containers
        ),
    )


def good_probes(seen: ObservedPod) -> ProbeResults:
    return ProbeResults(startup={c.id: Result.SUCCESS for c in seen.containers})


def settle(of: Pod, seen: ObservedPod) -> ObservedPod:
    """Plan and act until nothing changes any more."""
    for _ in range(ROUNDS):
        after = pass_time(of, apply(of, seen, plan(of, seen, good_probes(seen))))
        if after == seen:
            return seen
        seen = after
    raise AssertionError(f"still changing after {ROUNDS} rounds: {plan(of, seen, good_probes(seen))}")


def is_up(of: Pod, seen: ObservedPod) -> bool:
    lasting = [
        c.name for c in (*of.spec.init_containers, *of.spec.containers) if is_sidecar(c) or c in of.spec.containers
    ]
    newest = [seen.newest(name) for name in lasting]
    return all(attempt is not None and attempt.state is State.RUNNING for attempt in newest)


# --- the properties


@given(probed())
def test_a_running_and_unchanged_container_is_never_started_beside_itself(
    case: tuple[Pod, ObservedPod, ProbeResults],
) -> None:
    of, seen, probes = case
    actions = plan(of, seen, probes)
    killed = {kill.container_id for kill in actions.kills}
    for name in _starts(actions):
        newest = seen.newest(name)
        assert (
            actions.kill_pod or newest is None or newest.id in killed or newest.state in (State.CREATED, State.EXITED)
        )


@given(probed())
def test_a_healthy_unchanged_container_is_never_killed_alone(case: tuple[Pod, ObservedPod, ProbeResults]) -> None:
    of, seen, probes = case
    bad = {each for results in (probes.liveness, probes.startup) for each in results if results[each] is Result.FAILURE}
    healthy = {c.id for c in seen.containers if c.state is State.RUNNING and c.hash == _hash(of, c.name)} - bad
    assert healthy.isdisjoint(kill.container_id for kill in plan(of, seen, probes).kills)


@given(probed())
def test_only_what_was_seen_is_killed_and_only_once(case: tuple[Pod, ObservedPod, ProbeResults]) -> None:
    of, seen, probes = case
    killed = [kill.container_id for kill in plan(of, seen, probes).kills]
    assert len(killed) == len(set(killed))
    assert set(killed) <= {c.id for c in seen.containers if c.state in (State.RUNNING, State.UNKNOWN)}


@given(probed())
def test_starts_are_those_of_the_spec_in_its_order_and_each_once(case: tuple[Pod, ObservedPod, ProbeResults]) -> None:
    of, seen, probes = case
    actions = plan(of, seen, probes)
    for starts, specs in (
        (actions.init_containers, of.spec.init_containers),
        (actions.containers, of.spec.containers),
        (actions.ephemeral_containers, of.spec.ephemeral_containers),
    ):
        assert starts == tuple(c.name for c in specs if c.name in starts)


@given(probed())
def test_a_new_sandbox_comes_only_after_everything_was_stopped_and_is_counted_up(
    case: tuple[Pod, ObservedPod, ProbeResults],
) -> None:
    of, seen, probes = case
    actions = plan(of, seen, probes)
    if actions.create_sandbox:
        assert actions.kill_pod
        assert actions.attempt == (seen.sandboxes[0].attempt + 1 if seen.sandboxes else 0)


@given(probed())
def test_the_same_sight_makes_the_same_plan(case: tuple[Pod, ObservedPod, ProbeResults]) -> None:
    assert plan(*case) == plan(*case)


@given(pods())
def test_a_new_pod_comes_up_and_then_needs_nothing(of: Pod) -> None:
    seen = settle(of, ObservedPod(uid="u"))
    assert plan(of, seen, good_probes(seen)).is_empty
    assert is_up(of, seen)
    assert not any(attempt.attempt for attempt in seen.containers), "nothing was started twice"


@given(pods_seen())
def test_whatever_was_left_behind_a_pod_comes_up_or_ends(case: tuple[Pod, ObservedPod]) -> None:
    of, before = case
    seen = settle(of, before)
    actions = plan(of, seen, good_probes(seen))
    if actions.is_empty:
        assert of.spec.restart_policy != "Always" or is_up(of, seen)
    else:
        assert actions.kill_pod
        assert not actions.create_sandbox
        assert not seen.is_running


@given(pods())
def test_without_probe_results_nothing_that_waits_for_a_probe_is_started(of: Pod) -> None:
    seen = ObservedPod(uid="u")
    for _ in range(ROUNDS):
        seen = pass_time(of, apply(of, seen, plan(of, seen, NO_PROBES)))
    slow = [n for n, c in enumerate(of.spec.init_containers) if is_sidecar(c) and c.startup_probe is not None]
    if slow:
        behind = (*of.spec.init_containers[slow[0] + 1 :], *of.spec.containers)
        assert not any(seen.newest(c.name) for c in behind)
    else:
        assert is_up(of, seen)
