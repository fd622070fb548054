"""Which pods are on which nodes, in one look of the scheduler: what fits where, and who would have to leave. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct

from pykubelet.apiserver.controllers.scheduling.devices import CANNOT, ELSEWHERE, TIMED_OUT, PodDevices
from pykubelet.apiserver.controllers.scheduling.fit import (
    CORDONED,
    TAINTED,
    UNATTRACTIVE,
    Place,
    Use,
    Wish,
    chosen,
    exceeds,
    message,
    reasons,
    use,
)
from pykubelet.apiserver.controllers.scheduling.pod_affinity import NEAR, Neighbour, Neighbourhood
from pykubelet.apiserver.controllers.scheduling.preemption import (
    NOBODY,
    NOT_HELPFUL,
    Budget,
    Guest,
    Sacrifice,
    least,
    sacrifice,
)
from pykubelet.apiserver.controllers.scheduling.topology_spread import UNLABELLED, Crowd, Spread
from pykubelet.apiserver.controllers.scheduling.volumes import FOR_GOOD, PodVolumes

_HOPELESS: Final = FOR_GOOD.union((CORDONED, TAINTED, UNATTRACTIVE, NEAR, UNLABELLED, CANNOT, ELSEWHERE, TIMED_OUT))
"""What nobody's leaving would change."""
_AT_A_GLANCE: Final = 5_000
"""Wishes that are held against nodes: some milliseconds."""
_MOST_CANDIDATES: Final = 100
_NEVER: Final = "not eligible due to preemptionPolicy=Never."

Labels = Mapping[str, str]


class Seen(Struct, frozen=True):
    """A pod as the scheduler remembers it."""

    namespace: str
    name: str
    node: str
    nominated: str
    """The node on which others make room for it."""
    is_leaving: bool
    is_waiting: bool
    priority: int
    preempts: bool
    created: str
    started: str
    wish: Wish | None
    neighbour: Neighbour

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


class Board:
    """Pods are put on it as they find their nodes."""

    def __init__(self, pods: Iterable[Seen], places: Iterable[Place], namespaces: Mapping[str, Labels]) -> None:
        self._places = {place.name: place for place in places}
        self._namespaces = namespaces
        self._on: dict[str, list[Seen]] = {name: [] for name in self._places}
        self._nominated: dict[str, list[Seen]] = {}
        self._is_picky = False
        self._wishes_there = 0
        for pod in pods:
            self._is_picky = self._is_picky or pod.neighbour.is_picky
            self._wishes_there += pod.neighbour.wishes
            if pod.node in self._on and pod.wish is not None:
                self._on[pod.node].append(pod)
            elif pod.is_waiting and pod.nominated:
                self._nominated.setdefault(pod.nominated, []).append(pod)
        self._uses = {name: use(_wishes(there)) for name, there in self._on.items()}

    def takes_long(self, pod: Seen) -> bool:
        """Whether so much has to be looked at for the pod that others would have to wait."""
        pods = sum(map(len, self._on.values()))
        return len(self._places) * (self._wishes_there + pod.neighbour.wishes * pods) > _AT_A_GLANCE

    def choose(
        self, pod: Seen, volumes: PodVolumes | None = None, devices: PodDevices | None = None
    ) -> tuple[str, dict[str, list[str]]]:
        """The node for the pod, or else what speaks against each. Raises Unallocatable."""
        assert pod.wish is not None
        spread = self._spread(pod, self._crowd)

        def also(node: Place) -> list[str]:
            bound = volumes.reasons(node) if volumes is not None else []
            there = bound or spread.reasons(node) or self._around.reasons(pod.neighbour, node.labels)
            return there or (devices.reasons(node) if devices is not None else [])

        def bonus(nodes: Sequence[Place]) -> Mapping[str, float]:
            found = dict(spread.bonus(nodes))
            if self._is_picky:
                liked = self._around.bonus(pod.neighbour, [(node.name, node.labels) for node in nodes])
                found = {name: found.get(name, 0.0) + liked.get(name, 0.0) for name in {*found, *liked}}
            return found

        nodes = {name: (place, self._use(name, pod)) for name, place in self._places.items()}
        return chosen(pod.wish, nodes, also, bonus)

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self._places)

    def place(self, node: str) -> Place:
        return self._places[node]

    def put(self, pod: Seen, node: str) -> None:
        assert pod.wish is not None
        self._uses[node] = _added(self._uses[node], pod.wish)
        self._on[node].append(pod)
        self._around.add(pod.neighbour, self._places[node].labels)
        self._crowd.add(pod.namespace, pod.neighbour.labels, node)
        self._withdraw(pod)

    def nominate(self, pod: Seen, node: str) -> list[Seen]:
        """Room is made there for this pod. -> the less important, who had hoped for it"""
        self._withdraw(pod)
        there = self._nominated.setdefault(node, [])
        out = [each for each in there if each.priority < pod.priority]
        self._nominated[node] = [*(each for each in there if each not in out), pod]
        return out

    def make_room(
        self,
        pod: Seen,
        faults: Mapping[str, list[str]],
        budgets: Sequence[Budget],
        volumes: PodVolumes | None = None,
        devices: PodDevices | None = None,
    ) -> tuple[Sacrifice | None, str]:
        """The least that has to go for a pod that fits nowhere; or why nothing can: nothing is said where others are on
        their way out for it. Raises Unallocatable."""
        if not pod.preempts:
            return None, _NEVER
        if any(each.is_leaving and each.priority < pod.priority for each in self._on.get(pod.nominated, ())):
            return None, ""
        assert pod.wish is not None
        found, left = list[Sacrifice](), dict[str, list[str]]()
        for name, why in faults.items():
            if not _HOPELESS.isdisjoint(why) or exceeds(pod.wish, self._places[name]):
                left[name] = [NOT_HELPFUL]
            elif devices is not None and devices.reasons(self._places[name]):
                left[name] = [NOBODY]  # who leaves gives back no device before he is gone
            elif len(found) < _MOST_CANDIDATES and (one := self._sacrifice(pod, name, budgets, volumes)):
                found.append(one)
            else:
                left[name] = [NOBODY]
        best = least(found)
        return best, "" if best else message(left.values())

    def _sacrifice(
        self, pod: Seen, node: str, budgets: Sequence[Budget], volumes: PodVolumes | None
    ) -> Sacrifice | None:
        assert pod.wish is not None
        wanted, place, nominated = pod.wish, self._places[node], self._hoping(node, pod)
        by_key = {each.key: each for each in self._on[node]}

        def fits(guests: Sequence[Guest]) -> bool:
            there = [by_key[guest.namespace, guest.name] for guest in guests]
            if reasons(wanted, place, use(_wishes([*there, *nominated]))):
                return False
            if volumes is not None and volumes.crowded(node, by_key.keys() - {each.key for each in there}):
                return False
            if not self._is_picky and not wanted.spec.topology_spread_constraints:
                return True
            others = [each for name, pods in self._on.items() if name != node for each in pods]
            staying = [*others, *there]
            if self._spread(pod, _crowd(staying)).reasons(place):
                return False
            return not self._neighbourhood(staying).reasons(pod.neighbour, place.labels)

        guests = [_guest(each) for each in self._on[node]]
        return sacrifice(node, guests, pod.priority, fits, budgets)

    # --- what is there

    def _use(self, node: str, pod: Seen) -> Use:
        """With those who have been promised a place, and are not less important."""
        used = self._uses[node]
        for each in self._hoping(node, pod):
            assert each.wish is not None
            used = _added(used, each.wish)
        return used

    def _hoping(self, node: str, pod: Seen) -> list[Seen]:
        return [each for each in self._nominated.get(node, ()) if each.priority >= pod.priority and each.key != pod.key]

    def _withdraw(self, pod: Seen) -> None:
        for node, there in self._nominated.items():
            self._nominated[node] = [each for each in there if each.key != pod.key]

    @cached_property
    def _around(self) -> Neighbourhood:
        """Nobody has to be looked at when nobody is choosy."""
        everybody = [each for pods in self._on.values() for each in pods] if self._is_picky else []
        return self._neighbourhood(everybody)

    def _neighbourhood(self, pods: Iterable[Seen]) -> Neighbourhood:
        return Neighbourhood([(pod.neighbour, self._places[pod.node].labels) for pod in pods], self._namespaces)

    @cached_property
    def _crowd(self) -> Crowd:
        return _crowd(each for pods in self._on.values() for each in pods)

    def _spread(self, pod: Seen, crowd: Crowd) -> Spread:
        assert pod.wish is not None
        places = list(self._places.values())
        return Spread(pod.wish.spec, pod.namespace, pod.neighbour.labels, places, crowd)


def _crowd(pods: Iterable[Seen]) -> Crowd:
    return Crowd((pod.namespace, pod.neighbour.labels, pod.node) for pod in pods if not pod.is_leaving)


def _guest(pod: Seen) -> Guest:
    return Guest(pod.namespace, pod.name, pod.priority, pod.started, pod.neighbour.labels)


def _wishes(pods: Iterable[Seen]) -> list[Wish]:
    return [pod.wish for pod in pods if pod.wish is not None]


def _added(used: Use, one: Wish) -> Use:
    requests = dict(used.requests)
    for name, amount in one.requests.items():
        requests[name] = requests[name] + amount if name in requests else amount
    return Use(requests, used.ports.union(one.ports), used.pods + 1)
