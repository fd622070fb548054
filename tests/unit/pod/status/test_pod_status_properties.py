"""What holds for every status, whatever was seen and whatever was reported before."""

from dataclasses import dataclass
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.pod import ContainerStatus, Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.pod.observed import ObservedContainer, State
from pykubelet.pod.status.pod_status import Waiting, finished_status, merge_status, same_status
from unit.pod.status_pods import BEFORE_TEXT, NOW, SANDBOX, look, pod_of, ran, seen, told

LATER = NOW + timedelta(minutes=5)
NAMES = st.sampled_from([("c",), ("b", "a"), ("c", "a", "b")])
INITS = st.sampled_from([(), ("i",), ("side",), ("z", "side", "y")])
PHASES = st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed"])
STATES = st.sampled_from(["running", "waiting", "exited 0", "exited 1"])
TYPES = ["Ready", "ContainersReady", "Initialized", "PodScheduled", "PodReadyToStartContainers", "Theirs"]


@dataclass(frozen=True)
class Look:
    """One look at a pod."""

    pod: Pod
    containers: tuple[ObservedContainer, ...]
    previous: PodStatus
    waiting: dict[str, Waiting]
    is_terminal: bool
    has_sandbox: bool

    def status(self, previous: PodStatus | None = None, later: bool = False) -> PodStatus:
        return look(
            self.pod,
            *self.containers,
            previous=self.previous if previous is None else previous,
            sandboxes=(SANDBOX,) if self.has_sandbox else (),
            now=LATER if later else NOW,
            waiting=self.waiting,
            is_terminal=self.is_terminal,
        )


@st.composite
def reports(draw: st.DrawFn, names: tuple[str, ...], init: tuple[str, ...]) -> PodStatus:
    def some(these: tuple[str, ...]) -> list[dict[str, object]]:
        return [ran(name, draw(STATES), draw(st.integers(0, 5))) for name in these if draw(st.booleans())]

    conditions = [
        {"type": type, "status": draw(st.sampled_from(["True", "False"])), "lastTransitionTime": BEFORE_TEXT}
        for type in TYPES
        if draw(st.booleans())
    ]
    return told(
        phase=draw(PHASES), conditions=conditions, initContainerStatuses=some(init), containerStatuses=some(names)
    )


@st.composite
def looks(draw: st.DrawFn, states: tuple[str, ...] = tuple(State), with_notes: bool = True) -> Look:
    names, init = draw(NAMES), draw(INITS)
    shown = draw(st.one_of(st.just(PodStatus()), reports(names, init)))
    policy = draw(st.sampled_from(["Always", "OnFailure", "Never"]))
    containers = []
    for name in (*init, *names):
        newest = draw(st.integers(0, 4))
        for attempt in range(newest, newest - draw(st.integers(0, min(newest + 1, 3))), -1):
            state = draw(st.sampled_from(states))
            containers.append(seen(name, state, draw(st.sampled_from([0, 1, 137])), attempt))
    noted = draw(st.sets(st.sampled_from((*init, *names)))) if with_notes else set()
    return Look(
        pod=changed(pod_of(*names, init=init, policy=policy), status=shown),
        containers=tuple(containers),
        previous=draw(st.one_of(st.just(shown), reports(names, init))),
        waiting={name: Waiting("CrashLoopBackOff") for name in sorted(noted)},
        is_terminal=draw(st.booleans()),
        has_sandbox=draw(st.booleans()),
    )


@given(looks())
def test_a_phase_that_the_api_shows_as_final_never_changes(one: Look) -> None:
    for phase in ("Succeeded", "Failed"):
        ended = changed(one.pod, status=changed(one.pod.status, phase=phase))
        assert Look(**{**vars(one), "pod": ended}).status().phase == phase


@given(looks())
def test_a_pod_that_was_reported_as_ended_never_runs_again(one: Look) -> None:
    for phase in ("Succeeded", "Failed"):
        assert one.status(changed(one.previous, phase=phase)).phase in ("Succeeded", "Failed")


@given(looks())
def test_transition_times_move_with_the_value_and_only_then(one: Look) -> None:
    before = {condition.type: condition for condition in one.previous.conditions}
    for condition in one.status().conditions:
        if condition.type == "Theirs":
            continue
        old = before.get(condition.type)
        is_kept = condition.last_transition_time == (old.last_transition_time if old else None)
        assert is_kept == (old is not None and old.status == condition.status)


@given(looks())
def test_every_container_of_the_spec_has_exactly_one_status(one: Look) -> None:
    status = one.status()
    spec = one.pod.spec
    assert [each.name for each in status.init_container_statuses] == [each.name for each in spec.init_containers]
    assert [each.name for each in status.container_statuses] == sorted(each.name for each in spec.containers)
    assert all(_is_one_state(each) for each in (*status.init_container_statuses, *status.container_statuses))


def _is_one_state(status: ContainerStatus) -> bool:
    state = status.state
    return [state.waiting is None, state.running is None, state.terminated is None].count(False) == 1


@given(looks(states=("created", "running", "exited"), with_notes=False))
def test_a_second_look_at_the_same_says_the_same(one: Look) -> None:
    first = one.status()
    # The reason of an end may still come from what the API shows: it is taken over with the phase that it belongs to.
    first = changed(first, reason=first.reason or one.pod.status.reason)
    assert one.status(first, later=True) == first


@given(looks())
def test_any_look_settles_at_once(one: Look) -> None:
    """A container that was lost is told to have ended once, and then waits; nothing else changes by itself."""
    second = one.status(one.status(), later=True)
    assert same_status(one.status(second, later=True), second)


@given(NAMES, st.lists(st.tuples(st.booleans(), st.sampled_from(["created", "running", "exited"])), max_size=12))
def test_restart_counts_never_shrink(names: tuple[str, ...], life: list[tuple[bool, str]]) -> None:
    """However often the runtime forgets a container, as long as it counts on from what was reported."""
    pod = pod_of(*names)
    status = PodStatus()
    counts = dict.fromkeys(names, 0)
    for is_forgotten, state in life:
        attempts = [] if is_forgotten else [seen(name, state, attempt=counts[name]) for name in names]
        status = look(pod, *attempts, previous=status)
        for each in status.container_statuses:
            assert each.restart_count >= counts[each.name]
            counts[each.name] = each.restart_count


@given(looks())
def test_the_last_word_is_final(one: Look) -> None:
    status = finished_status(one.pod, one.status(), now=LATER)
    assert status.phase in ("Succeeded", "Failed")
    assert finished_status(one.pod, status, now=LATER) == status


@given(looks())
def test_what_was_merged_merges_into_itself(one: Look) -> None:
    merged = merge_status(one.pod.status, one.status(), now=NOW)
    assert merge_status(merged, merged, now=LATER) == merged
    assert merged.phase not in ("Succeeded", "Failed") or not any(
        condition.status == "True" for condition in merged.conditions if condition.type == "Ready"
    )
