import pytest

from pykubelet.pod.pinning.cpu_state import CpuState, cpu_state_fault

ALL = frozenset(range(4))
RESERVED = frozenset({0})


def test_what_is_taken_leaves_the_shared_ones_and_comes_back() -> None:
    state = CpuState(shared=ALL).taken("a", "one", frozenset({1, 2}))
    assert state.shared == {0, 3}
    assert state.exclusive == {1, 2}
    assert state.released("a", "one") == CpuState(shared=ALL)
    assert state.released("a", "two") is state


def test_what_others_of_the_pod_use_stays_theirs() -> None:
    state = CpuState(shared=ALL).taken("a", "init", frozenset({1, 2})).taken("a", "main", frozenset({1}))
    assert state.released("a", "init").shared == {0, 2, 3}


def state(shared: set[int], **assigned: set[int]) -> CpuState:
    return CpuState(shared=frozenset(shared), assigned={uid: {"c": frozenset(own)} for uid, own in assigned.items()})


@pytest.mark.parametrize(
    ("told", "strict", "fault"),
    [
        (state({0, 1, 2, 3}), False, ""),
        (state({0, 3}, a={1, 2}), False, ""),
        (state({3}, a={1, 2}), True, ""),
        (CpuState(), False, ""),
        (CpuState(), True, ""),
        (state(set(), a={1, 2, 3}), True, ""),
        (state(set(), a={1, 2}), True, "default cpuset cannot be empty"),
        (state(set(), a={1}), False, "default cpuset cannot be empty"),
        (state({1, 2, 3}), False, 'not all reserved cpus: "0" are present in defaultCpuSet: "1-3"'),
        (state({0, 1, 2, 3}), True, 'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-3"'),
        (state({0, 1}, a={1, 2, 3}), False, 'pod: a, container: c cpuset: "1-3" overlaps with default cpuset "0-1"'),
        (state({0, 1, 2}), False, 'current set of available CPUs "0-3" doesn\'t match with CPUs in state "0-2"'),
    ],
)
def test_a_state_that_cannot_be_right_is_told_in_upstreams_words(told: CpuState, strict: bool, fault: str) -> None:
    assert cpu_state_fault(told, ALL, RESERVED, strict=strict) == fault
