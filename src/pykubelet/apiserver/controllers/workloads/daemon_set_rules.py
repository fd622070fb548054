"""What a daemon set has to do next: one pod on each node that it may be on, renewed a few at a time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.node import Node
from pykubelet.api.pod import PodSpec
from pykubelet.api.rules.node_affinity import is_attracted
from pykubelet.api.rules.taints import tolerates
from pykubelet.api.scheduling import Taint
from pykubelet.apiserver.controllers.workloads.percentages import scaled
from pykubelet.apiserver.controllers.workloads.pod_control import pod_of
from pykubelet.apiserver.controllers.workloads.pod_views import PodView
from pykubelet.apiserver.objects import Object, at

HASH_LABEL: Final = "controller-revision-hash"
GENERATION: Final = "deprecated.daemonset.template.generation"
GENERATION_LABEL: Final = "pod-template-generation"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFIX: Final = "node.kubernetes.io/"
_TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK: Final = ("network-unavailable", "NoSchedule")


class NodeView(msgspec.Struct, frozen=True):
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


class DaemonPlan(msgspec.Struct, kw_only=True):
    creates: list[str] = []
    """The nodes that get a pod."""
    deletes: list[PodView] = []
    failed: list[PodView] = []
    """Those of them that have failed: a node where they always do is not tried all the time."""


def node_view(node: Object) -> NodeView:
    """On a node that cannot be read, who is there stays, and nobody comes."""
    try:
        typed = convert(Node, {"metadata": node["metadata"], "spec": node.get("spec") or {}})
    except DecodeError:
        return NodeView(node["metadata"]["name"], {}, (Taint(key="unreadable", effect="NoSchedule"),))
    return NodeView(typed.metadata.name, typed.metadata.labels, typed.spec.taints)


def tolerations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The template's, and those that keep a daemon where it is whatever happens to its node."""
    wanted = [*_TOLERATED, *([_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    found = list(spec.get("tolerations") or ())
    for key, effect in wanted:
        new = {"key": f"{_PREFIX}{key}", "operator": "Exists", "effect": effect}
        same = [
            index
            for index, each in enumerate(found)
            if (each.get("key"), each.get("operator"), each.get("value", ""), each.get("effect"))
            == (new["key"], "Exists", "", effect)
        ]
        if same:
            found[same[0]] = new
        else:
            found.append(new)
    return found


def daemon_pod(obj: Object, node: str, hash_: str) -> Object:
    """For the scheduler, who may put it on this node and nowhere else."""
    pod = pod_of(obj, obj["spec"]["template"])
    spec, labels = pod["spec"], {HASH_LABEL: hash_}
    generation = at(obj, "metadata.annotations", {}).get(GENERATION, "")
    if generation.isascii() and generation.isdigit():
        labels[GENERATION_LABEL] = generation
    pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}
    spec["tolerations"] = tolerations(spec)
    affinity = spec.get("affinity") or {}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {_REQUIRED: {"nodeSelectorTerms": [term]}}
    spec["affinity"] = {**affinity, "nodeAffinity": {**(affinity.get("nodeAffinity") or {}), **required}}
    return pod


def daemon_spec(obj: Object) -> PodSpec:
    """What decides where its pods may be."""
    spec = at(obj, "spec.template.spec", {})
    names = ("nodeName", "nodeSelector", "affinity")
    return convert(PodSpec, {**{n: spec[n] for n in names if n in spec}, "tolerations": tolerations(spec)})


def belongs(node: NodeView, spec: PodSpec) -> tuple[bool, bool]:
    """Whether a pod is to be made on the node, and whether one that is there may stay."""
    if spec.node_name not in ("", node.name) or not is_attracted(spec, node.name, node.labels):
        return False, False
    bad = [taint.effect for taint in node.taints if not tolerates(spec.tolerations, taint)]
    if "NoSchedule" in bad or "NoExecute" in bad:
        return False, "NoExecute" not in bad
    return True, True


def by_node(pods: Iterable[PodView]) -> dict[str, list[PodView]]:
    """Those that count, the oldest first. One that is over and about to go makes room already."""
    found: dict[str, list[PodView]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: (not pod.node, str(pod.created), pod.name)):
        if pod.aimed_at and not (pod.is_leaving and pod.is_ended):
            found[pod.aimed_at].append(pod)
    return dict(found)


class Daemons:
    """One daemon set and its pods, at one moment."""

    def __init__(
        self, obj: Object, hash_: str, nodes: Sequence[NodeView], pods: Iterable[PodView], now: datetime
    ) -> None:
        self._obj, self._hash, self._now = obj, hash_, now
        self._least = at(obj, "spec.minReadySeconds", 0)
        self._generation = at(obj, "metadata.annotations", {}).get(GENERATION, "")
        spec = daemon_spec(obj)
        self._nodes = {node.name: belongs(node, spec) for node in nodes}
        self._pods = by_node(pods)
        self._desired = sum(runs for runs, _ in self._nodes.values())
        self._rolling = at(obj, "spec.updateStrategy.type") == "RollingUpdate"
        given = at(obj, "spec.updateStrategy.rollingUpdate", {}) if self._rolling else {}
        self._surges = scaled(given.get("maxSurge"), 1, up=True) > 0
        self._surge = scaled(given.get("maxSurge"), self._desired, up=True)
        unavailable = scaled(given.get("maxUnavailable"), self._desired, up=True)
        self._unavailable = 1 if self._desired and not self._surge and not unavailable else unavailable

    def _is_new(self, pod: PodView) -> bool:
        if pod.labels.get(HASH_LABEL) == self._hash:
            return True
        return bool(self._generation) and pod.labels.get(GENERATION_LABEL) == self._generation

    def _is_available(self, pod: PodView) -> bool:
        return pod.is_available(self._least, self._now)

    # --- where pods are missing, or too many

    def plan(self, held: Iterable[str] = ()) -> DaemonPlan:
        """`held`: nodes whose failed pod is left there for a while. First each node is put right, then they are renewed
        a few at a time."""
        found, waiting = DaemonPlan(), set(held)
        for node, (runs, stays) in self._nodes.items():
            pods = self._pods.get(node, [])
            if runs and not pods:
                found.creates.append(node)
            elif stays:
                self._tend(found, node, pods, runs=runs, is_held=node in waiting)
            else:
                found.deletes.extend(pod for pod in pods if not pod.is_leaving)
        for node, pods in self._pods.items():
            if node not in self._nodes:
                found.deletes.extend(pod for pod in pods if not pod.node and not pod.is_leaving)
        if not found.creates and not found.deletes and self._rolling:
            self._roll(found)
        return found

    def _tend(self, found: DaemonPlan, node: str, pods: list[PodView], *, runs: bool, is_held: bool) -> None:
        running = []
        for pod in pods:
            if pod.is_leaving:
                continue
            if pod.phase == "Failed":
                if not is_held:
                    found.failed.append(pod)
                    found.deletes.append(pod)
            elif pod.phase == "Succeeded":
                found.deletes.append(pod)
            else:
                running.append(pod)
        if not self._surges:
            found.deletes.extend(running[1:])
        elif not running and runs:
            found.creates.append(node)
        elif len(running) > 1:
            new = [pod for pod in running if pod.labels.get(HASH_LABEL) == self._hash]
            old = [pod for pod in running if pod.labels.get(HASH_LABEL) != self._hash]
            found.deletes.extend((*new[1:], *old[1:]))
            if new and old and (not old[0].is_ready or self._is_available(new[0])):
                found.deletes.append(old[0])

    # --- another template

    def _roll(self, found: DaemonPlan) -> None:
        """A pod on a node that is gone is one that is not there; with a surge it is left to the pod collector."""
        wanted = [node for node, (runs, _) in self._nodes.items() if runs]
        places = dict.fromkeys((*self._pods, *wanted))
        states = [(node, self._old_and_new(self._pods.get(node, []))) for node in places]
        if self._surge:
            self._roll_with_surge(found, [each for each in states if each[0] in self._nodes])
        else:
            self._roll_without(found, states)

    def _old_and_new(self, pods: list[PodView]) -> tuple[PodView | None, PodView | None] | None:
        """None: there are several of a kind, of which all but one will be gone soon."""
        there = [pod for pod in pods if not pod.is_leaving]
        new = [pod for pod in there if self._is_new(pod)]
        old = [pod for pod in there if not self._is_new(pod)]
        return None if len(new) > 1 or len(old) > 1 else (old[0] if old else None, new[0] if new else None)

    def _roll_without(
        self, found: DaemonPlan, states: list[tuple[str, tuple[PodView | None, PodView | None] | None]]
    ) -> None:
        unavailable, replaced, candidates = 0, [], []
        for _, state in states:
            old, new = state or (None, None)
            if new is not None and old is None:
                unavailable += not self._is_available(new)
            elif old is not None and new is None:
                if self._is_available(old):
                    candidates.append(old)
                else:
                    replaced.append(old)
                    unavailable += 1
            else:
                unavailable += 1
        found.deletes.extend((*replaced, *candidates[: max(self._unavailable - unavailable, 0)]))

    def _roll_with_surge(
        self, found: DaemonPlan, states: list[tuple[str, tuple[PodView | None, PodView | None] | None]]
    ) -> None:
        surging = available = 0
        allowed: list[str] = []
        candidates: list[str] = []
        misplaced: list[PodView] = []
        for node, state in states:
            if state is None:
                surging += 1
                continue
            old, new = state
            one = old or new
            available += one is not None and self._is_available(one)
            if old is None:
                continue
            if new is not None:
                if self._is_available(new):
                    found.deletes.append(old)
                else:
                    surging += 1
            elif not self._nodes[node][0]:
                (misplaced if self._is_available(old) else found.deletes).append(old)
            else:
                (candidates if self._is_available(old) else allowed).append(node)
        found.deletes.extend(misplaced[: max(available - self._desired, 0)])
        found.creates.extend((*allowed, *candidates[: max(self._surge - surging, 0)]))

    # --- status

    def status(self, made: Iterable[str]) -> dict[str, Any]:
        """`made`: the nodes that have been given a pod since."""
        new = set(made)
        counts = dict.fromkeys(_COUNTS, 0)
        counts["desiredNumberScheduled"] = self._desired
        for node, (runs, _) in self._nodes.items():
            pods = self._pods.get(node, [])
            if not runs:
                counts["numberMisscheduled"] += bool(pods)
                continue
            counts["currentNumberScheduled"] += bool(pods) or node in new
            counts["updatedNumberScheduled"] += self._is_new(pods[0]) if pods else node in new
            if pods and pods[0].is_ready:
                counts["numberReady"] += 1
                counts["numberAvailable"] += self._is_available(pods[0])
        counts["numberUnavailable"] = self._desired - counts["numberAvailable"]
        counts["observedGeneration"] = at(self._obj, "metadata.generation", 0)
        return {name: count for name, count in counts.items() if count or name in ALWAYS}


ALWAYS: Final = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
_COUNTS: Final = (*ALWAYS, "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable")
