"""Whom a pod may drive out to get a node, and from which node that costs the least. Pure, by upstream's rules."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from pykubelet.api.meta import LabelSelector
from pykubelet.api.selectors import from_struct, matches

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NOBODY: Final = "No preemption victims found for incoming pod"


class Guest(Struct, frozen=True):
    """A pod on a node, as one who may have to leave it."""

    namespace: str
    name: str
    priority: int
    started: str
    """When it began, as the API writes times; what has not begun yet is the youngest."""
    labels: Mapping[str, str]


class Budget(Struct, frozen=True):
    """Of disruptions: how many of a group of pods may still be made to leave."""

    namespace: str
    selector: LabelSelector | None
    allowed: int
    disrupted: frozenset[str] = frozenset()
    """Pods that are on their way out, and counted already."""


class Sacrifice(Struct, frozen=True):
    """What it takes that the pod fits on a node."""

    node: str
    victims: tuple[Guest, ...]
    """The most important first."""
    violations: int


Fits = Callable[[Sequence[Guest]], bool]
"""Whether the pod fits on the node with only these guests there."""


def sacrifice(
    node: str, guests: Iterable[Guest], priority: int, fits: Fits, budgets: Sequence[Budget]
) -> Sacrifice | None:
    """As few of those that are less important as can be, and those last whom a budget protects; None: it does not help
    if all of them leave."""
    everybody = list(guests)
    staying = [guest for guest in everybody if guest.priority >= priority]
    lower = sorted((guest for guest in everybody if guest.priority < priority), key=_importance)
    if not lower or not fits(staying):
        return None
    guarded, free = _split(lower, budgets)
    victims, violations = [], 0
    for guest in (*guarded, *free):
        if fits([*staying, guest]):
            staying.append(guest)
        else:
            victims.append(guest)
            violations += guest in guarded
    return Sacrifice(node, tuple(sorted(victims, key=_importance)), violations)


def least(sacrifices: Sequence[Sacrifice]) -> Sacrifice | None:
    """The fewest broken budgets; then the least important victims, the least of them together, the fewest, and those
    that began last."""
    if not sacrifices:
        return None

    def cost(each: Sacrifice) -> tuple[int, int, int, int]:
        priorities = [victim.priority for victim in each.victims]
        return (each.violations, max(priorities, default=-(2**31)), sum(p + 2**31 for p in priorities), len(priorities))

    cheapest = min(map(cost, sacrifices))
    equal = [each for each in sacrifices if cost(each) == cheapest]
    return max(equal, key=_earliest)


def _earliest(each: Sacrifice) -> str:
    """When the first of the most important victims began."""
    most = max((victim.priority for victim in each.victims), default=0)
    return min((_began(victim) for victim in each.victims if victim.priority == most), default="")


def _importance(guest: Guest) -> tuple[int, str, str]:
    return (-guest.priority, _began(guest), guest.name)


def _began(guest: Guest) -> str:
    return guest.started or "~"


def _split(guests: Sequence[Guest], budgets: Sequence[Budget]) -> tuple[list[Guest], list[Guest]]:
    """Those whose leaving would break a budget, and the others: each that goes uses up some of it."""
    left = [budget.allowed for budget in budgets]
    guarded, free = list[Guest](), list[Guest]()
    for guest in guests:
        is_guarded = False
        for index, budget in enumerate(budgets):
            if guest.name not in budget.disrupted and _covers(budget, guest):
                left[index] -= 1
                is_guarded = is_guarded or left[index] < 0
        (guarded if is_guarded else free).append(guest)
    return guarded, free


def _covers(budget: Budget, guest: Guest) -> bool:
    if budget.namespace != guest.namespace or not guest.labels or budget.selector is None:
        return False
    try:
        found = from_struct(budget.selector)
    except ValueError:
        return False
    return (
        found is not None and found != () and matches(found, guest.labels)
    )  # one that selects all protects nobody, as upstream
