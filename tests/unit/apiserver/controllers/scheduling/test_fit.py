"""Where a pod fits, and what is said when it does not."""

from typing import Any

import pytest

from pykubelet.api.codec import convert
from pykubelet.api.pod import PodSpec
from pykubelet.apiserver.controllers.scheduling.fit import Place, Use, Wish, chosen, message, place, reasons, use, wish


def node(name: str = "n1", *, ready: str = "True", labels: dict[str, str] | None = None, **spec: Any) -> Place:
    allocatable = {"cpu": "2", "memory": "4Gi", "pods": "3"}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]}
    return place({"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status})


def pod(**spec: Any) -> Wish:
    return wish(convert(PodSpec, {"containers": [{"name": "main"}], **spec}))


def asking(**requests: str) -> dict[str, Any]:
    return {"containers": [{"name": "main", "resources": {"requests": requests}}]}


def affinity(**expression: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": [expression]}] if expression else [{}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


PORT = {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
EVICTED = {"key": "gpu", "operator": "Exists", "effect": "NoExecute"}
TAINTED = ["node(s) had untolerated taint(s)"]
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "place", "used", "expected"),
    [
        ({}, node(), Use(), []),
        ({}, node(ready="False"), Use(), TAINTED),
        ({}, node(ready="Unknown"), Use(), TAINTED),
        ({"tolerations": [{"operator": "Exists"}]}, node(ready="False"), Use(), []),
        ({}, node(unschedulable=True), Use(), ["node(s) were unschedulable"]),
        ({"tolerations": [{"operator": "Exists"}]}, node(unschedulable=True), Use(), []),
        ({}, node(taints=[TAINT]), Use(), TAINTED),
        ({"tolerations": [{"key": "gpu", "value": "yes"}]}, node(taints=[TAINT]), Use(), []),
        ({"tolerations": [{"key": "gpu", "value": "no"}]}, node(taints=[TAINT]), Use(), TAINTED),
        ({"tolerations": [EVICTED]}, node(taints=[TAINT]), Use(), TAINTED),
        ({}, node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), Use(), []),
        ({"nodeSelector": {"a": "b"}}, node(labels={"a": "b"}), Use(), []),
        ({"nodeSelector": {"a": "b"}}, node(), Use(), ["node(s) didn't match Pod's node affinity/selector"]),
        (affinity(key="a", operator="In", values=["b"]), node(labels={"a": "b"}), Use(), []),
        (affinity(key="a", operator="Exists"), node(), Use(), ["node(s) didn't match Pod's node affinity/selector"]),
        (affinity(), node(), Use(), ["node(s) didn't match Pod's node affinity/selector"]),
        (PORT, node(), use([pod(**PORT)]), ["node(s) didn't have free ports for the requested pod ports"]),
        (PORT, node(), use([pod()]), []),
        (asking(cpu="2"), node(), Use(), []),
        (asking(cpu="2001m"), node(), Use(), ["Insufficient cpu"]),
        (asking(cpu="3", memory="5Gi"), node(), Use(), ["Insufficient cpu", "Insufficient memory"]),
        (asking(cpu="1500m"), node(), use([pod(**asking(cpu="600m"))]), ["Insufficient cpu"]),
        (asking(**{"example.com/gpu": "1"}), node(), Use(), ["Insufficient example.com/gpu"]),
        ({}, node(), use([pod(), pod(), pod()]), ["Too many pods"]),
    ],
)  # fmt: skip
def test_a_pod_fits_or_it_is_said_why_not(spec: dict[str, Any], place: Place, used: Use, expected: list[str]) -> None:
    assert reasons(pod(**spec), place, used) == expected


def test_what_stands_in_the_way_is_counted_over_all_nodes() -> None:
    nodes = {name: (node(name), Use()) for name in ("n1", "n2")} | {"n3": (node("n3", unschedulable=True), Use())}

    name, faults = chosen(pod(**asking(cpu="9", memory="9Gi")), nodes)
    wanted = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 2 Insufficient memory."
    assert (name, message(faults.values())) == ("", wanted)


def test_without_nodes_there_is_nothing_to_count() -> None:
    assert chosen(pod(), {}) == ("", {})
    assert message(()) == "no nodes available to schedule pods"


def test_the_emptier_node_is_chosen() -> None:
    busy = use([pod(**asking(cpu="1"))])

    assert chosen(pod(), {"n1": (node("n1"), busy), "n2": (node("n2"), Use())})[0] == "n2"


def test_among_equals_the_one_with_fewer_pods_is_chosen() -> None:
    assert chosen(pod(), {"n1": (node("n1"), use([pod()])), "n2": (node("n2"), Use())})[0] == "n2"


def test_a_node_that_the_pod_prefers_is_chosen_though_it_is_fuller() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}}]
    wanted = pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})
    nodes = {"n1": (node("n1", labels={"ssd": ""}), use([pod(**asking(cpu="1"))])), "n2": (node("n2"), Use())}

    assert chosen(wanted, nodes)[0] == "n1"


def test_a_node_that_cannot_be_read_takes_no_pods() -> None:
    broken = place({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "much"}}})

    assert reasons(pod(), broken, Use()) == ["node(s) were unschedulable"]


def test_the_ports_of_an_init_container_that_ends_are_free_again() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    passing = pod(initContainers=[{"name": "i", "ports": ports}])
    lasting = pod(initContainers=[{"name": "i", "ports": ports, "restartPolicy": "Always"}])
    assert reasons(pod(**PORT), node(), use([passing])) == []
    assert reasons(pod(**PORT), node(), use([lasting])) == [
        "node(s) didn't have free ports for the requested pod ports"
    ]
