"""How evenly the pods of a group lie over hosts, zones or what else labels of nodes name: topologySpreadConstraints.

Pure. A domain is all nodes with the same value of the topology key; its skew, how many pods of the group it has more
than the domain that has the fewest.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from pykubelet.api.codec import encode_canonical
from pykubelet.api.meta import LabelSelector
from pykubelet.api.pod import PodSpec
from pykubelet.api.rules.node_affinity import is_attracted
from pykubelet.api.rules.taints import tolerates
from pykubelet.api.scheduling import TopologySpreadConstraint
from pykubelet.api.selectors import from_struct, matches
from pykubelet.apiserver.controllers.scheduling.fit import HARD_EFFECTS, Place

UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
UNLABELLED: Final = f"{UNEVEN} (missing required label)"
_WEIGHT: Final = 2.0
_MOST: Final = 100.0

Labels = Mapping[str, str]
Group = Callable[[Labels], bool]


class Crowd:
    """The pods that have a node and are not about to leave it: how many of a group each node has."""

    def __init__(self, pods: Iterable[tuple[str, Labels, str]]) -> None:
        """`pods`: namespace, labels and name of the node of each."""
        self._pods: dict[str, list[tuple[Labels, str]]] = {}
        self._counted: dict[tuple[str, bytes], tuple[Group, Counter[str]]] = {}
        for namespace, labels, node in pods:
            self._pods.setdefault(namespace, []).append((labels, node))

    def add(self, namespace: str, labels: Labels, node: str) -> None:
        self._pods.setdefault(namespace, []).append((labels, node))
        for (where, _), (group, count) in self._counted.items():
            if where == namespace and group(labels):
                count[node] += 1

    def count(self, namespace: str, name: bytes, group: Group) -> Counter[str]:
        """By node. Pods of one template ask for the same group, which its `name` tells: it is counted once."""
        if (namespace, name) not in self._counted:
            found = Counter(node for labels, node in self._pods.get(namespace, ()) if group(labels))
            self._counted[namespace, name] = (group, found)
        return self._counted[namespace, name][1]


class _Domains(Struct, frozen=True):
    """One constraint of a pod, with what is there."""

    rule: TopologySpreadConstraint
    counts: Mapping[str, int]
    """Pods of the group, by value of the topology key."""
    own: int
    """1 when the pod is of the group itself."""

    @property
    def fewest(self) -> int:
        return 0 if len(self.counts) < (self.rule.min_domains or 1) else min(self.counts.values())

    def refuses(self, node: Place) -> bool:
        there = self.counts.get(node.labels[self.rule.topology_key], 0)
        return there + self.own - self.fewest > self.rule.max_skew


class Spread:
    """What one pod's constraints say to each node."""

    def __init__(self, spec: PodSpec, namespace: str, labels: Labels, nodes: Sequence[Place], crowd: Crowd) -> None:
        rules = spec.topology_spread_constraints
        hard = [rule for rule in rules if rule.when_unsatisfiable == "DoNotSchedule"]
        soft = [rule for rule in rules if rule.when_unsatisfiable == "ScheduleAnyway"]
        self._hard = [_domains(rule, hard, spec, namespace, labels, nodes, crowd) for rule in hard]
        self._soft = [_domains(rule, soft, spec, namespace, labels, nodes, crowd) for rule in soft]

    def reasons(self, node: Place) -> list[str]:
        """Why the pod must not go to the node; empty when it may."""
        for each in self._hard:
            if each.rule.topology_key not in node.labels:
                return [UNLABELLED]
            if each.refuses(node):
                return [UNEVEN]
        return []

    def bonus(self, nodes: Sequence[Place]) -> dict[str, float]:
        """For the nodes that the pod may go to: the emptier its domains, the more; nothing for a node in none."""
        if not self._soft:
            return {}
        inside = [node for node in nodes if all(each.rule.topology_key in node.labels for each in self._soft)]
        crowds = dict.fromkeys((node.name for node in inside), 0.0)
        for each in self._soft:
            key, skew = each.rule.topology_key, each.rule.max_skew
            # The more domains there are, the fewer pods each has: one of them weighs more then.
            weight = math.log(len({node.labels[key] for node in inside}) + 2)
            for node in inside:
                crowds[node.name] += each.counts.get(node.labels[key], 0) * weight + skew - 1
        most, least = max(crowds.values(), default=0), min(crowds.values(), default=0)
        if not most:
            return dict.fromkeys(crowds, _WEIGHT * _MOST)
        return {name: _WEIGHT * _MOST * (most + least - crowd) / most for name, crowd in crowds.items()}


def _domains(
    rule: TopologySpreadConstraint,
    together: Sequence[TopologySpreadConstraint],
    spec: PodSpec,
    namespace: str,
    labels: Labels,
    nodes: Sequence[Place],
    crowd: Crowd,
) -> _Domains:
    """A node counts when it has the labels of all rules that hold together, and the rule's policies let it in."""
    same = {key: labels[key] for key in rule.match_label_keys if key in labels}
    group = _group(rule.label_selector, same)
    on = crowd.count(namespace, encode_canonical((rule.label_selector, same)), group)
    counts: Counter[str] = Counter()
    for node in nodes:
        if all(each.topology_key in node.labels for each in together) and _lets_in(rule, spec, node):
            counts[node.labels[rule.topology_key]] += on[node.name]
    return _Domains(rule, counts, int(group(labels)))


def _lets_in(rule: TopologySpreadConstraint, spec: PodSpec, node: Place) -> bool:
    if rule.node_affinity_policy != "Ignore" and not is_attracted(spec, node.name, node.labels):
        return False
    hard = [taint for taint in node.taints if taint.effect in HARD_EFFECTS]
    return rule.node_taints_policy != "Honor" or all(tolerates(spec.tolerations, taint) for taint in hard)


def _group(selector: LabelSelector | None, same: Labels) -> Group:
    try:
        found = from_struct(selector)
    except ValueError:
        found = None

    def is_in(labels: Labels) -> bool:
        return (
            found is not None
            and matches(found, labels)
            and all(labels.get(key) == value for key, value in same.items())
        )

    return is_in
