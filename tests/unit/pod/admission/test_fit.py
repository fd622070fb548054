"""What pods take of a node: the sums, their exactness, and their price."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.pod import Pod
from pykubelet.pod.admission.admission import Admission
from pykubelet.pod.admission.fit import NodeUsage, Shortage, amounts, held, shortages, wanted
from unit.pod.admission_pods import node, pod

GIB = 1 << 30
ALLOCATABLE = amounts(node().status.allocatable)


def container(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


# --- what a pod asks for


@pytest.mark.parametrize(
    ("asking", "amount"),
    [
        pytest.param(pod(), {}, id="nothing asked, nothing wanted"),
        pytest.param(pod(requests={"cpu": "1500u"}), {"cpu": 2}, id="a cpu counts in thousandths, rounded up"),
        pytest.param(pod(requests={"memory": "1500m"}), {"memory": 2}, id="all else counts in units, rounded up"),
        pytest.param(pod(limits={"cpu": "1"}), {}, id="limits ask for nothing"),
        pytest.param(pod(requests={"storage": "1Gi"}), {}, id="what no node counts is not asked for"),
        pytest.param(
            pod(requests={"hugepages-2Mi": "4Mi", "attachable-volumes-x": "1", "kubernetes.io/batteries": "2"}),
            {"hugepages-2Mi": 4 << 20, "attachable-volumes-x": 1, "kubernetes.io/batteries": 2},
            id="huge pages, attachable volumes and what kubernetes.io names are counted",
        ),
        pytest.param(
            pod(requests={"example.com/gpu": "1", "far.away/licence": "1"}),
            {"example.com/gpu": 1},
            id="an extended resource that this node does not know is somebody else's to give",
        ),
        pytest.param(
            pod(containers=[container("a", "1"), container("b", "2")], initContainers=[container("i", "4")]),
            {"cpu": 4000},
            id="the most that runs at one time counts",
        ),
        pytest.param(
            pod(
                containers=[container("a", "1")],
                initContainers=[container("s", "2", restartPolicy="Always"), container("i", "2")],
            ),
            {"cpu": 4000},
            id="an init container runs beside the sidecars that were started before it",
        ),
        pytest.param(
            pod(requests={"cpu": "1"}, overhead={"cpu": "100m", "memory": "1Mi"}),
            {"cpu": 1100, "memory": 1 << 20},
            id="overhead comes on top",
        ),
        pytest.param(
            pod(overhead={"far.away/licence": "1"}),
            {"far.away/licence": 1},
            id="overhead is not forgiven where the containers are",
        ),
        pytest.param(
            pod(
                requests={"cpu": "3", "ephemeral-storage": "1Gi"},
                resources={"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "9Gi"}},
                overhead={"cpu": "1"},
            ),
            {"cpu": 2000, "memory": GIB, "ephemeral-storage": GIB},
            id="what is asked for the whole pod replaces the containers' sum, where a pod as a whole can ask",
        ),
    ],
)
def test_what_a_new_pod_wants(asking: Pod, amount: dict[str, int]) -> None:
    assert wanted(asking, ALLOCATABLE) == amount


def seen(requests: dict[str, str] | None, allocated: dict[str, str], resize: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"name": "c", "allocatedResources": allocated}
    if requests is not None:
        status["resources"] = {"requests": requests}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": resize}] if resize else []
    return {"containerStatuses": [status], "conditions": conditions}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        pytest.param({}, 2000, id="a pod that was not seen yet holds what it asks for"),
        pytest.param(seen({"cpu": "3"}, {}), 3000, id="while it shrinks it still holds what it had"),
        pytest.param(seen({"cpu": "1"}, {"cpu": "1"}), 2000, id="while it grows it already holds what it will have"),
        pytest.param(seen({"cpu": "1"}, {"cpu": "3"}), 3000, id="what was promised is held"),
        pytest.param(seen(None, {"cpu": "3"}), 2000, id="a promise alone, before the container was seen, says nothing"),
        pytest.param(seen({"cpu": "1"}, {"cpu": "1"}, "Infeasible"), 1000, id="growth that can never be is not held"),
        pytest.param(seen({"cpu": "1"}, {"cpu": "1"}, "Deferred"), 2000, id="growth that has to wait is held"),
    ],
)
def test_what_a_pod_that_resizes_holds(status: dict[str, Any], cpu: int) -> None:
    assert held(pod(requests={"cpu": "2"}, status=status)) == {"cpu": cpu}


def test_a_sidecar_may_resize_and_an_init_container_may_not() -> None:
    statuses = [{"name": name, "resources": {"requests": {"cpu": "8"}}} for name in ("s", "i")]
    init = [container("i", "1"), container("s", "1", restartPolicy="Always")]
    assert held(pod(initContainers=init, status={"initContainerStatuses": statuses})) == {"cpu": 8000}
    assert held(pod(initContainers=init[:1], status={"initContainerStatuses": statuses})) == {"cpu": 1000}


# --- the totals


def test_a_pod_that_is_added_again_counts_once_with_its_newest_requests() -> None:
    usage = NodeUsage([pod("1", {"cpu": "1"}), pod("2", {"cpu": "1"})])
    usage.add(pod("1", {"cpu": "3"}))
    assert (len(usage), usage.used("cpu"), usage.used("pods")) == (2, 4000, 2)


def test_a_pod_that_is_gone_counts_no_more_and_may_be_removed_again() -> None:
    usage = NodeUsage([pod("1", {"cpu": "1"}), pod("2", {"memory": "1Gi"})])
    usage.remove("1")
    usage.remove("1")
    assert (len(usage), usage.used("cpu"), usage.used("memory")) == (1, 0, GIB)
    assert "1" not in usage
    assert [each.metadata.uid for each in usage.pods()] == ["2"]


def test_a_pod_can_be_left_out_of_the_count() -> None:
    usage = NodeUsage([pod("1", {"cpu": "1"}), pod("2", {"cpu": "2"})])
    assert (usage.used("cpu", besides="2"), usage.used("pods", besides="2")) == (1000, 1)
    assert (usage.used("cpu", besides="3"), usage.used("pods", besides="3")) == (3000, 2)


REQUESTS = st.dictionaries(
    st.sampled_from(("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu", "far.away/licence")),
    st.sampled_from(("0", "1", "100m", "1500u", "1Gi", "333n")),
)
PORTS = st.lists(st.fixed_dictionaries({"containerPort": st.just(1), "hostPort": st.integers(0, 3)}), max_size=2)
PODS = st.builds(lambda uid, requests, ports: pod(str(uid), requests, ports=ports), st.integers(0, 4), REQUESTS, PORTS)


@given(st.lists(PODS | st.integers(0, 4)))
def test_the_totals_equal_a_new_count_whatever_came_and_went(steps: list[Pod | int]) -> None:
    usage = NodeUsage()
    present: dict[str, Pod] = {}
    for step in steps:
        if isinstance(step, int):
            usage.remove(str(step))
            present.pop(str(step), None)
        else:
            usage.add(step)
            present[step.metadata.uid] = step
        expected: dict[str, int] = {}
        for each in present.values():
            for name, much in held(each).items():
                expected[name] = expected.get(name, 0) + much
        assert {name: much for name, much in usage.totals.items() if much} == {n: m for n, m in expected.items() if m}
        assert usage.used("pods") == len(usage) == len(present)
        recount = NodeUsage(present.values())
        for number in range(4):
            probe = pod("probe", ports=[{"containerPort": 1, "hostPort": number}])
            assert _admits(usage, probe) == _admits(recount, probe)


def _admits(usage: NodeUsage, asking: Pod) -> object:
    return Admission(node({"pods": "99"})).admit(asking, usage)


def steps_of(action: Callable[[], object]) -> int:
    """How many instructions of Python an action takes."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    gc.disable()  # a collection may run somebody else's finalizers in the middle
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def test_admission_costs_the_same_beside_ten_pods_and_beside_two_thousand() -> None:
    def cost(pods: int) -> tuple[int, ...]:
        usage = NodeUsage(
            pod(str(n), {"cpu": "1m"}, ports=[{"containerPort": 1, "hostPort": n + 1}]) for n in range(pods)
        )
        admission = Admission(node({"cpu": "4", "pods": "9999"}))
        asking = pod(requests={"cpu": "2"}, ports=[{"containerPort": 1, "hostPort": 1}])
        return (
            steps_of(lambda: admission.admit(asking, usage)),
            steps_of(lambda: usage.add(asking)),
            steps_of(lambda: usage.remove("new")),
        )

    cost(10)  # fills the caches of names and quantities
    assert cost(10) == cost(2000)
    assert all(cost(10))


# --- what is short


def test_shortages_come_with_pods_first_then_cpu_memory_and_storage() -> None:
    everything = {"example.com/gpu": "3", "ephemeral-storage": "11Gi", "memory": "5Gi", "cpu": "5"}
    full = amounts(node({**dict.fromkeys(everything, "1"), "pods": "1"}).status.allocatable) | {"pods": 1}
    short = shortages(pod(requests=everything), full, NodeUsage([pod("1", {"cpu": "1"})]))
    assert [each.resource for each in short] == ["pods", "cpu", "memory", "ephemeral-storage", "example.com/gpu"]
    assert [each.missing for each in short[:2]] == [1, 5000]


def test_a_pod_that_fits_exactly_fits() -> None:
    usage = NodeUsage([pod("1", {"cpu": "3"})])
    assert shortages(pod(requests={"cpu": "1"}), {"cpu": 4000, "pods": 2}, usage) == []
    assert shortages(pod(requests={"cpu": "1001m"}), {"cpu": 4000, "pods": 2}, usage) == [
        Shortage("cpu", requested=1001, used=3000, capacity=4000)
    ]


def test_who_asks_for_nothing_is_not_held_up_by_a_node_that_is_overcommitted() -> None:
    usage = NodeUsage([pod("1", {"cpu": "9"})])
    assert shortages(pod(requests={"cpu": "0"}), {"cpu": 4000, "pods": 2}, usage) == []
