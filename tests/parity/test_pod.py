"""What follows from a pod's spec alone, replayed against what Kubernetes makes of the same pods."""

from typing import Any, Final

from kit.vectors import Case, replay, unequal
from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.api.defaults import default_pod
from pykubelet.api.pod import Pod
from pykubelet.api.rules.qos import qos_class
from pykubelet.pod.container.hash import container_hash
from pykubelet.pod.container.oom_score import oom_score_adj

_MEMORY: Final = 8 << 30


def test_pods_are_defaulted_as_upstream() -> None:
    replay("pod", _defaulting)


def test_defaulting_a_defaulted_pod_changes_nothing() -> None:
    replay("pod", _defaulting_again)


def test_pods_have_upstreams_quality_of_service() -> None:
    replay("pod", _qos, having="qos")


def test_containers_have_upstreams_oom_score() -> None:
    replay("pod", _oom_scores, having="oomScoreAdjWith8GiB")


def test_containers_have_upstreams_hash() -> None:
    replay("pod", _hashes, having="containerHash")


def _pod(case: Case) -> Pod:
    return default_pod(codec.convert(Pod, case["pod"]))


def _containers(pod: Pod) -> dict[str, Container]:
    spec = pod.spec
    return {each.name: each for each in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)}


def _defaulting(case: Case) -> str:
    ours = _without_spelled_out_zeros(codec.to_builtins(_pod(case)), case["defaulted"], case["pod"])
    return unequal(_name(case), ours, case["defaulted"])


def _defaulting_again(case: Case) -> str:
    defaulted = codec.convert(Pod, case["defaulted"])
    return unequal(_name(case), default_pod(defaulted), defaulted)


def _qos(case: Case) -> str:
    return unequal(_name(case), qos_class(_pod(case)), case["qos"])


def _oom_scores(case: Case) -> str:
    recorded = case["oomScoreAdjWith8GiB"]
    pod = _pod(case)
    by_name = _containers(pod)
    return unequal(_name(case), {name: oom_score_adj(pod, by_name[name], _MEMORY) for name in recorded}, recorded)


def _hashes(case: Case) -> str:
    recorded = case["containerHash"]
    by_name = _containers(_pod(case))
    return unequal(_name(case), {name: container_hash(by_name[name]) for name in recorded}, recorded)


def _name(case: Case) -> str:
    return f"{case.get('case', '?')} {case.get('mutators', '')}"


def _without_spelled_out_zeros(ours: Any, recorded: Any, given: Any) -> Any:
    """Upstream loses a zero or false that the author spelled out (`hostPort: 0`) when it writes the pod; we keep it."""
    if isinstance(ours, dict) and isinstance(recorded, dict) and isinstance(given, dict):
        lost = {
            key for key in ours.keys() & given.keys() - recorded.keys() if not ours[key] and ours[key] == given[key]
        }
        return {
            key: _without_spelled_out_zeros(item, recorded.get(key), given.get(key))
            for key, item in ours.items()
            if key not in lost
        }
    if isinstance(ours, list) and isinstance(recorded, list) and isinstance(given, list):
        padding = [None] * len(ours)  # lists of other lengths differ anyway
        return [
            _without_spelled_out_zeros(item, *others)
            for item, *others in zip(ours, recorded + padding, given + padding, strict=False)
        ]
    return ours
