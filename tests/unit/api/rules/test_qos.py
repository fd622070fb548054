from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.api.rules.qos import oom_score_adj, qos_class
from pykubelet.api.rules.resources import container_limits, container_requests

GIB = 1 << 30
BOTH = {"cpu": "1", "memory": "1Gi"}


def pod_of(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **fields: Any) -> Pod:
    """A pod with these resources for its containers (`c0`, `c1`, ...) and init containers (`i0`, `i1`, ...)."""
    spec = {
        "containers": [{"name": f"c{n}", "resources": each} for n, each in enumerate(containers)],
        "initContainers": [
            {"name": f"i{n}", "resources": {k: v for k, v in each.items() if k != "sidecar"}}
            | ({"restartPolicy": "Always"} if each.get("sidecar") else {})
            for n, each in enumerate(init)
        ],
        **{key: value for key, value in fields.items() if key not in ("metadata", "status")},
    }
    return codec.convert(
        Pod, {"spec": spec, "metadata": fields.get("metadata", {}), "status": fields.get("status", {})}
    )


# --- quality of service


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ([{}], "BestEffort"),
        ([{}, {}], "BestEffort"),
        ([{"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"limits": BOTH, "requests": BOTH}], "Guaranteed"),
        ([{"limits": BOTH, "requests": BOTH}] * 2, "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}], "Guaranteed"),
        ([{"limits": BOTH, "requests": {"cpu": "1", "memory": "1Mi"}}], "Burstable"),
        ([{"limits": BOTH, "requests": BOTH}, {}], "Burstable"),
        ([{"requests": BOTH}], "Burstable"),
        ([{"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}], "Burstable"),
        ([{"requests": {"memory": "1"}}], "Burstable"),
    ],
)
def test_the_class_follows_from_requests_and_limits(containers: list[dict[str, Any]], qos: str) -> None:
    assert qos_class(pod_of(*containers)) == qos


def test_init_containers_count_too() -> None:
    both = {"limits": BOTH, "requests": BOTH}
    assert qos_class(pod_of(both, init=(both,))) == "Guaranteed"
    assert qos_class(pod_of(both, init=({},))) == "Burstable"
    assert qos_class(pod_of({}, init=({"requests": {"cpu": "1"}},))) == "Burstable"


def test_resources_of_the_pod_as_a_whole_decide_alone() -> None:
    assert qos_class(pod_of({}, resources={"limits": BOTH, "requests": BOTH})) == "Guaranteed"
    assert qos_class(pod_of({"limits": BOTH, "requests": BOTH}, resources={"requests": {"cpu": "1"}})) == "Burstable"


def test_a_class_that_was_reported_is_not_decided_again() -> None:
    assert qos_class(pod_of({}, status={"qosClass": "Guaranteed"})) == "Guaranteed"


# --- the worst moment


@pytest.mark.parametrize(
    ("containers", "init", "cpu"),
    [
        (["1", "2"], [], "3"),
        (["1"], ["5"], "5"),
        (["1"], ["5", "3"], "5"),
        (["1"], ["sidecar 2"], "3"),
        (["1"], ["sidecar 2", "5"], "7"),
        (["1"], ["5", "sidecar 2"], "5"),
        (["1"], ["sidecar 2", "sidecar 3", "1"], "6"),
        ([], ["sidecar 2", "1"], "3"),
    ],
)
def test_init_containers_run_one_by_one_beside_the_sidecars_before_them(
    containers: list[str], init: list[str], cpu: str
) -> None:
    def resources(amount: str) -> dict[str, Any]:
        number = amount.removeprefix("sidecar ")
        return {"requests": {"cpu": number}, "limits": {"memory": number}, "sidecar": number != amount}

    pod = pod_of(
        *({k: v for k, v in resources(each).items() if k != "sidecar"} for each in containers),
        init=tuple(map(resources, init)),
    )
    assert {name: str(amount) for name, amount in container_requests(pod.spec).items()} == {"cpu": cpu}
    assert {name: str(amount) for name, amount in container_limits(pod.spec).items()} == {"memory": cpu}


# --- who dies first


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
