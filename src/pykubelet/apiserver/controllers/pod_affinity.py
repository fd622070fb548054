"""Which pods have to be near each other, and which must not be: required pod affinity and anti-affinity. Pure.

Near means on nodes that have the same value of a label, the topology key: the same host, or the same zone.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from pykubelet.api.meta import LabelSelector
from pykubelet.api.pod import PodSpec
from pykubelet.api.scheduling import PodAffinityTerm
from pykubelet.api.selectors import from_struct, matches

APART: Final = "node(s) didn't match pod anti-affinity rules"
NEAR: Final = "node(s) didn't match pod affinity rules"
SHUNNED: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

Labels = Mapping[str, str]


class Neighbour(Struct, frozen=True):
    """A pod, as others want it near or not."""

    namespace: str
    labels: Labels
    near: tuple[PodAffinityTerm, ...] = ()
    apart: tuple[PodAffinityTerm, ...] = ()

    @property
    def is_picky(self) -> bool:
        return bool(self.near or self.apart)


def neighbour(namespace: str, labels: Labels, spec: PodSpec) -> Neighbour:
    wishes = spec.affinity
    near = wishes.pod_affinity if wishes else None
    apart = wishes.pod_anti_affinity if wishes else None
    return Neighbour(
        namespace,
        labels,
        near.required_during_scheduling_ignored_during_execution if near else (),
        apart.required_during_scheduling_ignored_during_execution if apart else (),
    )


class Neighbourhood:
    """All pods that have a node, each with the labels of that node."""

    def __init__(self, pods: Sequence[tuple[Neighbour, Labels]], namespaces: Mapping[str, Labels]) -> None:
        self._pods = list(pods)
        self._shunning = [each for each in pods if each[0].apart]
        self._namespaces = namespaces

    def add(self, pod: Neighbour, node: Labels) -> None:
        self._pods.append((pod, node))
        if pod.apart:
            self._shunning.append((pod, node))

    def reasons(self, pod: Neighbour, node: Labels) -> list[str]:
        """Why the pod must not go to the node with these labels; empty when it may."""
        if not self._is_near(pod, node):
            return [NEAR]
        for term in pod.apart:
            if any(_same(term, node, there) and self._means(term, pod, other) for other, there in self._pods):
                return [APART]
        for other, there in self._shunning:
            if any(_same(term, node, there) and self._means(term, other, pod) for term in other.apart):
                return [SHUNNED]
        return []

    def _is_near(self, pod: Neighbour, node: Labels) -> bool:
        if not pod.near:
            return True
        if any(term.topology_key not in node for term in pod.near):
            return False
        wanted = [(other, at) for other, at in self._pods if all(self._means(term, pod, other) for term in pod.near)]
        if all(any(_same(term, node, there) for _, there in wanted) for term in pod.near):
            return True
        # The first of a group that wants to be together has nobody to be near to but itself.
        return not wanted and all(self._means(term, pod, pod) for term in pod.near)

    def _means(self, term: PodAffinityTerm, owner: Neighbour, other: Neighbour) -> bool:
        """Whether the term of one pod is about the other."""
        if not self._covers(term, owner.namespace, other.namespace):
            return False
        return _selects(term.label_selector, other.labels)

    def _covers(self, term: PodAffinityTerm, own: str, namespace: str) -> bool:
        if not term.namespaces and term.namespace_selector is None:
            return namespace == own
        if namespace in term.namespaces:
            return True
        return _selects(term.namespace_selector, self._namespaces.get(namespace, {}))


def _selects(selector: LabelSelector | None, labels: Labels) -> bool:
    try:
        found = from_struct(selector)
    except ValueError:
        return False
    return found is not None and matches(found, labels)


def _same(term: PodAffinityTerm, one: Labels, other: Labels) -> bool:
    value = one.get(term.topology_key)
    return value is not None and other.get(term.topology_key) == value
