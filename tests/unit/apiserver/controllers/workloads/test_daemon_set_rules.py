"""Where a daemon belongs, and who is renewed next."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kit.cluster import START
from kit.workloads import template
from pykubelet.api.scheduling import Taint
from pykubelet.apiserver.controllers.workloads.daemon_set_rules import (
    DaemonPlan,
    Daemons,
    NodeView,
    belongs,
    daemon_spec,
    node_view,
    tolerations,
)
from pykubelet.apiserver.controllers.workloads.pod_views import PodView, pod_view
from pykubelet.apiserver.objects import Object

EXISTS = {"key": "k", "operator": "Exists"}


def daemon_set(pods: dict[str, Any] | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": "web", "uid": "d"}, "spec": {"template": template(**(pods or {})), **spec}}


def node(name: str = "n0", *taints: tuple[str, str], **labels: str) -> NodeView:
    return NodeView(name, labels, tuple(Taint(key=key, effect=effect) for key, effect in taints))


@pytest.mark.parametrize(
    ("spec", "where", "expected"),
    [
        ({}, node(), (True, True)),
        ({"nodeName": "n1"}, node(), (False, False)),
        ({"nodeSelector": {"d": "f"}}, node(d="f"), (True, True)),
        ({"nodeSelector": {"d": "f"}}, node(d="s"), (False, False)),
        ({}, node("n0", ("k", "NoSchedule")), (False, True)),
        ({}, node("n0", ("k", "NoExecute")), (False, False)),
        ({}, node("n0", ("k", "PreferNoSchedule")), (True, True)),
        ({"tolerations": [EXISTS]}, node("n0", ("k", "NoExecute")), (True, True)),
        ({}, node("n0", ("node.kubernetes.io/unschedulable", "NoSchedule")), (True, True)),
        ({}, node("n0", ("node.kubernetes.io/not-ready", "NoExecute")), (True, True)),
        ({}, node("n0", ("node.kubernetes.io/not-ready", "NoSchedule")), (False, True)),
        ({}, node("n0", ("node.kubernetes.io/network-unavailable", "NoSchedule")), (False, True)),
        ({"hostNetwork": True}, node("n0", ("node.kubernetes.io/network-unavailable", "NoSchedule")), (True, True)),
    ],
)
def test_taints_and_labels_say_who_may_come_and_who_may_stay(
    spec: dict[str, Any], where: NodeView, expected: tuple[bool, bool]
) -> None:
    assert belongs(where, daemon_spec(daemon_set(spec))) == expected


def test_on_a_node_that_cannot_be_read_who_is_there_stays_and_nobody_comes() -> None:
    strange = node_view({"metadata": {"name": "n0"}, "spec": {"taints": "many"}})
    assert belongs(strange, daemon_spec(daemon_set())) == (False, True)


def test_tolerations_are_added_once() -> None:
    own = tolerations({"tolerations": [EXISTS]})
    assert own[0] == EXISTS
    assert tolerations({"tolerations": own}) == own


def pod(name: str, where: str, *, new: bool = False, available: bool = True, **facts: Any) -> PodView:
    since = START - timedelta(hours=1)
    plain = pod_view({"metadata": {"name": name, "uid": name, "labels": {}}})
    known = {
        "labels": {"controller-revision-hash": "new" if new else "old"},
        "node": where,
        "aimed_at": where,
        "phase": "Running",
        "is_ready": available,
        "ready_since": since if available else None,
        "created": since,
    }
    return msgspec.structs.replace(plain, **{**known, **facts})


def planned(rolling: dict[str, Any], *pods: PodView, nodes: int = 3) -> DaemonPlan:
    obj = daemon_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    return Daemons(obj, "new", [node(f"n{number}") for number in range(nodes)], pods, START).plan()


def names(found: DaemonPlan) -> tuple[list[str], list[str]]:
    return found.creates, [each.name for each in found.deletes]


ONE_LESS, ONE_MORE = {"maxUnavailable": 1, "maxSurge": 0}, {"maxUnavailable": 0, "maxSurge": 1}


@pytest.mark.parametrize(
    ("rolling", "pods", "expected"),
    [
        pytest.param(ONE_LESS, [pod("a", "n0")], (["n1", "n2"], []), id="first each node has one"),
        pytest.param(ONE_LESS, [pod(n, f"n{n}") for n in "012"], ([], ["0"]), id="one at a time"),
        pytest.param(
            ONE_LESS,
            [pod("0", "n0", new=True, available=False), pod("1", "n1"), pod("2", "n2")],
            ([], []),
            id="the next waits for the one before",
        ),
        pytest.param(
            ONE_LESS,
            [pod("0", "n0", available=False), pod("1", "n1", available=False), pod("2", "n2")],
            ([], ["0", "1"]),
            id="what is not well anyway is renewed at once",
        ),
        pytest.param(ONE_MORE, [pod(n, f"n{n}") for n in "012"], (["n0"], []), id="a new one beside the old one"),
        pytest.param(
            ONE_MORE,
            [pod("0", "n0"), pod("a", "n0", new=True, available=False), pod("1", "n1"), pod("2", "n2")],
            ([], []),
            id="until the new one is well",
        ),
        pytest.param(
            ONE_MORE,
            [pod("0", "n0"), pod("a", "n0", new=True), pod("1", "n1"), pod("2", "n2")],
            ([], ["0"]),
            id="and then the old one goes",
        ),
        pytest.param(
            ONE_LESS, [pod(n, f"n{n}", new=True) for n in "012"] + [pod("x", "n0")], ([], ["x"]), id="one is enough"
        ),
    ],
)
def test_nodes_are_put_right_and_then_renewed(
    rolling: dict[str, Any], pods: list[PodView], expected: tuple[list[str], list[str]]
) -> None:
    assert names(planned(rolling, *pods)) == expected


def test_what_is_left_on_a_node_that_is_gone_stands_in_nobodys_way() -> None:
    there = [pod(n, f"n{n}", new=True) for n in "012"]
    assert names(planned(ONE_MORE, *there, pod("lost", "gone"))) == ([], [])
    assert names(planned(ONE_LESS, *there, pod("never came", "gone", node=""))) == ([], ["never came"])
