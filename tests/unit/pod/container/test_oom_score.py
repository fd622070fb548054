import pytest

from pykubelet.api.pod import Pod
from pykubelet.pod.container.oom_score import oom_score_adj
from unit.api.rules.resource_pods import pod_of

GIB = 1 << 30
BOTH = {"cpu": "1", "memory": "1Gi"}


def score(pod: Pod, index: int = 0, memory: int = 8 * GIB) -> int:
    return oom_score_adj(pod, pod.spec.containers[index], memory)


def test_the_guaranteed_die_last_and_the_best_effort_first() -> None:
    assert score(pod_of({"limits": BOTH, "requests": BOTH})) == -997
    assert score(pod_of({})) == 1000


@pytest.mark.parametrize(
    ("request_", "expected"), [("4Gi", 500), ("1Gi", 875), ("0", 999), ("1", 999), ("8Gi", 3), ("80Gi", 3)]
)
def test_the_burstable_die_the_sooner_the_less_they_asked_for(request_: str, expected: int) -> None:
    assert score(pod_of({"requests": {"memory": request_, "cpu": "1"}})) == expected


def test_a_node_critical_pod_is_spared_whatever_it_asks_for() -> None:
    pod = pod_of({}, priorityClassName="system-node-critical", priority=2_000_001_000)
    assert score(pod) == -997
    assert score(pod_of({}, priorityClassName="system-node-critical")) == 1000


def test_a_sidecar_does_not_die_before_those_it_serves() -> None:
    pod = pod_of(
        {"requests": {"memory": "4Gi"}}, {"requests": {"memory": "2Gi"}}, init=({"sidecar": True}, {"requests": {}})
    )
    sidecar, plain = pod.spec.init_containers
    assert oom_score_adj(pod, sidecar, 8 * GIB) == score(pod, 1) == 750
    assert oom_score_adj(pod, plain, 8 * GIB) == 999


def test_what_the_pod_asks_for_beyond_its_containers_is_divided_among_them() -> None:
    pod = pod_of({"requests": {"memory": "1Gi"}}, {}, resources={"requests": {"memory": "5Gi"}})
    assert (score(pod, 0), score(pod, 1)) == (1000 - 375, 1000 - 250)
