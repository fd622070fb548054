"""Which pods have to be near each other, or would like to, and which not: pod affinity and anti-affinity. Pure.

Near means on nodes that have the same value of a label, the topology key: the same host, or the same zone.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from pykubelet.api.meta import LabelSelector, LabelSelectorRequirement
from pykubelet.api.pod import PodSpec
from pykubelet.api.scheduling import PodAffinityTerm
from pykubelet.api.selectors import Selector, from_struct, matches
from pykubelet.api.struct import changed

APART: Final = "node(s) didn't match pod anti-affinity rules"
NEAR: Final = "node(s) didn't match pod affinity rules"
SHUNNED: Final = "node(s) didn't satisfy existing pods anti-affinity rules"

_HARD_WEIGHT: Final = 1
"""Of what somebody who is there needs to be near, for those who have a choice."""
_WEIGHT: Final = 2.0
_MOST: Final = 100.0

Labels = Mapping[str, str]


class Term(Struct, frozen=True):
    """One wish, ready to be asked about many pods. A selector that makes no sense selects nobody."""

    topology_key: str
    pods: Selector | None
    namespaces: frozenset[str] = frozenset()
    of_namespaces: Selector | None = None
    is_own: bool = True
    """It is about the pod's own namespace, and no other."""


class Neighbour(Struct, frozen=True):
    """A pod, as others want it near or not."""

    namespace: str
    labels: Labels
    near: tuple[Term, ...] = ()
    apart: tuple[Term, ...] = ()
    likes: tuple[tuple[int, Term], ...] = ()
    """What it would like to be near, each with its weight, and with less than nothing what it would rather not."""

    @property
    def is_picky(self) -> bool:
        return bool(self.near or self.apart or self.likes)

    @property
    def wishes(self) -> int:
        return len(self.near) + len(self.apart) + len(self.likes)


def neighbour(namespace: str, labels: Labels, spec: PodSpec) -> Neighbour:
    wishes = spec.affinity
    near = wishes.pod_affinity if wishes else None
    apart = wishes.pod_anti_affinity if wishes else None
    liked = near.preferred_during_scheduling_ignored_during_execution if near else ()
    disliked = apart.preferred_during_scheduling_ignored_during_execution if apart else ()
    required = [each.required_during_scheduling_ignored_during_execution if each else () for each in (near, apart)]
    return Neighbour(
        namespace,
        labels,
        tuple(_meant(term, labels) for term in required[0]),
        tuple(_meant(term, labels) for term in required[1]),
        (
            *((each.weight, _meant(each.pod_affinity_term, labels)) for each in liked),
            *((-each.weight, _meant(each.pod_affinity_term, labels)) for each in disliked),
        ),
    )


def _meant(term: PodAffinityTerm, labels: Labels) -> Term:
    return Term(
        term.topology_key,
        _read(_narrowed(term, labels)),
        frozenset(term.namespaces),
        _read(term.namespace_selector),
        not term.namespaces and term.namespace_selector is None,
    )


def _read(selector: LabelSelector | None) -> Selector | None:
    try:
        return from_struct(selector)
    except ValueError:
        return None


def _narrowed(term: PodAffinityTerm, labels: Labels) -> LabelSelector | None:
    """With what matchLabelKeys and mismatchLabelKeys say of this pod's own labels."""
    if term.label_selector is None or not (term.match_label_keys or term.mismatch_label_keys):
        return term.label_selector
    more = [
        LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],))
        for operator, keys in (("In", term.match_label_keys), ("NotIn", term.mismatch_label_keys))
        for key in keys
        if key in labels
    ]
    return changed(term.label_selector, match_expressions=(*term.label_selector.match_expressions, *more))


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

    def bonus(self, pod: Neighbour, nodes: Sequence[tuple[str, Labels]]) -> dict[str, float]:
        """For the nodes that the pod may go to: how much it and those who are there like it."""
        scores = dict.fromkeys((name for name, _ in nodes), 0.0)
        for other, there in self._pods:
            likes = [(weight, term) for weight, term in pod.likes if self._means(term, pod, other)]
            likes += [(weight, term) for weight, term in other.likes if self._means(term, other, pod)]
            likes += [(_HARD_WEIGHT, term) for term in other.near if self._means(term, other, pod)]
            for weight, term in likes:
                for name, labels in nodes:
                    if _same(term, labels, there):
                        scores[name] += weight
        most, least = max(scores.values(), default=0.0), min(scores.values(), default=0.0)
        if most == least:
            return {}
        return {name: _WEIGHT * _MOST * (score - least) / (most - least) for name, score in scores.items()}

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

    def _means(self, term: Term, owner: Neighbour, other: Neighbour) -> bool:
        """Whether the term of one pod is about the other."""
        if not self._covers(term, owner.namespace, other.namespace):
            return False
        return term.pods is not None and matches(term.pods, other.labels)

    def _covers(self, term: Term, own: str, namespace: str) -> bool:
        if term.is_own:
            return namespace == own
        if namespace in term.namespaces:
            return True
        return term.of_namespaces is not None and matches(term.of_namespaces, self._namespaces.get(namespace, {}))


def _same(term: Term, one: Labels, other: Labels) -> bool:
    value = one.get(term.topology_key)
    return value is not None and other.get(term.topology_key) == value
