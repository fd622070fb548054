"""Who has to leave, and where that costs the least."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.meta import LabelSelector
from pykubelet.apiserver.controllers.scheduling.preemption import Budget, Fits, Guest, Sacrifice, least, sacrifice


def guest(name: str, priority: int = 0, started: str = "2026-01-01T00:00:00Z", app: str = "web") -> Guest:
    return Guest("default", name, priority, started, {"app": app})


def room_for(most: int) -> Fits:
    return lambda guests: len(guests) <= most


def names(found: Sacrifice | None) -> list[str]:
    assert found is not None
    return [victim.name for victim in found.victims]


def guarding(app: str, allowed: int, *disrupted: str) -> Budget:
    return Budget("default", LabelSelector(match_labels={"app": app}), allowed, frozenset(disrupted))


def test_the_least_important_and_of_those_the_youngest_leaves() -> None:
    guests = [guest("old"), guest("young", started="2026-01-02T00:00:00Z"), guest("high", 50), guest("new", started="")]
    assert names(sacrifice("n", guests, 100, room_for(2), ())) == ["young", "new"]


@pytest.mark.parametrize("priority", [0, -1])
def test_equals_and_betters_stay(priority: int) -> None:
    assert sacrifice("n", [guest("a"), guest("b")], priority, room_for(1), ()) is None


def test_where_it_does_not_help_nobody_leaves() -> None:
    assert sacrifice("n", [guest("low"), guest("high", 200)], 100, room_for(0), ()) is None


def test_those_whom_a_budget_protects_stay_if_others_can_leave() -> None:
    guests = [guest("a", app="db"), guest("b"), guest("c", app="db", started="2026-02-01T00:00:00Z")]
    found = sacrifice("n", guests, 100, room_for(2), [guarding("db", 0)])
    assert names(found) == ["b"]
    assert found is not None
    assert found.violations == 0


def test_a_budget_is_used_up_and_then_broken_as_little_as_can_be() -> None:
    guests = [guest(f"p{number}", app="db") for number in range(3)]
    found = sacrifice("n", guests, 100, room_for(1), [guarding("db", 1)])
    assert found is not None
    assert (len(found.victims), found.violations) == (2, 1)


def test_who_is_counted_as_gone_already_breaks_nothing() -> None:
    found = sacrifice("n", [guest("a", app="db")], 100, room_for(0), [guarding("db", 0, "a")])
    assert found is not None
    assert found.violations == 0


@pytest.mark.parametrize(
    "budget",
    [
        Budget("other", LabelSelector(match_labels={"app": "db"}), 0),
        Budget("default", None, 0),
        Budget("default", LabelSelector(), 0),
    ],
)
def test_a_budget_of_others_or_of_nobody(budget: Budget) -> None:
    found = sacrifice("n", [guest("a", app="db")], 100, room_for(0), [budget])
    assert found is not None
    assert found.violations == 0


@pytest.mark.parametrize(
    ("cheaper", "dearer"),
    [
        (([guest("a", 90), guest("b", 90)], 0), ([guest("c", 1)], 1)),  # a budget that is kept
        (([guest("a", 1), guest("b", 1)], 0), ([guest("c", 2)], 0)),  # the less important
        (([guest("a", 5), guest("b", 1)], 0), ([guest("c", 5), guest("d", 2)], 0)),  # less of it together
        (([guest("a", 5)], 0), ([guest("c", 5), guest("d", -(2**31))], 0)),  # fewer
        (([guest("a", 5, "2026-02-01T00:00:00Z")], 0), ([guest("c", 5)], 0)),  # the younger
    ],
)
def test_the_cheapest_node_is_chosen(cheaper: tuple[Sequence[Guest], int], dearer: tuple[Sequence[Guest], int]) -> None:
    one, other = (Sacrifice(str(index), tuple(v), n) for index, (v, n) in enumerate((cheaper, dearer)))
    assert least([one, other]) == least([other, one]) == one


def test_nothing_is_the_least_of_nothing() -> None:
    assert least([]) is None


@given(st.lists(st.integers(0, 5), max_size=8), st.integers(0, 6), st.integers(0, 8))
def test_nobody_leaves_in_vain(priorities: list[int], priority: int, most: int) -> None:
    guests = [guest(f"p{number}", each) for number, each in enumerate(priorities)]
    found = sacrifice("n", guests, priority, room_for(most), ())
    lower = [each for each in guests if each.priority < priority]
    if found is None:
        assert not lower or len(guests) - len(lower) > most
        return
    assert all(victim.priority < priority for victim in found.victims)
    assert len(guests) - len(found.victims) == min(len(guests), most)
    stayed = [each.priority for each in lower if each not in found.victims]
    assert not stayed or not found.victims or min(stayed) >= max(victim.priority for victim in found.victims)
