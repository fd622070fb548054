"""Pods that want to be near each other, and pods that do not."""

from typing import Any

import pytest

from kit.cluster import cluster
from kit.virtual_time import virtual_time
from pykubelet.api.codec import convert
from pykubelet.api.pod import PodSpec
from pykubelet.apiserver.controllers.scheduling.pod_affinity import (
    APART,
    NEAR,
    SHUNNED,
    Neighbour,
    Neighbourhood,
    neighbour,
)
from pykubelet.apiserver.controllers.scheduling.scheduler import Scheduler

HOST = "kubernetes.io/hostname"
N1, N2 = {HOST: "n1", "zone": "a"}, {HOST: "n2", "zone": "a"}


def term(key: str = HOST, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}, **more}


def pod(app: str = "web", namespace: str = "ns", **affinity: dict[str, Any]) -> Neighbour:
    wishes = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [wish]} for kind, wish in affinity.items()}
    return neighbour(namespace, {"app": app}, convert(PodSpec, {"containers": [], "affinity": wishes}))


@pytest.mark.parametrize(
    ("wanting", "there", "expected"),
    [
        (pod(), pod(), []),
        (pod(podAntiAffinity=term()), pod(), [APART]),
        (pod(podAntiAffinity=term()), pod("db"), []),
        (pod(podAntiAffinity=term()), pod(namespace="other"), []),
        (pod(podAntiAffinity=term(namespaces=["other"])), pod(namespace="other"), [APART]),
        (pod(podAntiAffinity=term(namespaceSelector={})), pod(namespace="other"), [APART]),
        (pod(podAntiAffinity=term(namespaceSelector={"matchLabels": {"team": "x"}})), pod(namespace="other"), [APART]),
        (pod(podAntiAffinity=term(namespaceSelector={"matchLabels": {"team": "y"}})), pod(namespace="other"), []),
        (pod(podAntiAffinity=term("rack")), pod(), []),
        (pod(podAntiAffinity={"topologyKey": HOST}), pod(), []),
        (pod(), pod(podAntiAffinity=term()), [SHUNNED]),
        (pod("db"), pod(podAntiAffinity=term()), []),
        (pod("db", podAffinity=term()), pod(), []),
        (pod("db", podAffinity=term()), pod("db"), [NEAR]),
        (pod("db", podAffinity=term("rack")), pod(), [NEAR]),
    ],
)  # fmt: skip
def test_what_pods_on_the_same_node_want_of_each_other(
    wanting: Neighbour, there: Neighbour, expected: list[str]
) -> None:
    around = Neighbourhood([(there, N1)], {"ns": {}, "other": {"team": "x"}})

    assert around.reasons(wanting, N1) == expected


def test_a_zone_reaches_farther_than_a_host() -> None:
    around = Neighbourhood([(pod(), N1)], {})

    assert around.reasons(pod(podAntiAffinity=term()), N2) == []
    assert around.reasons(pod(podAntiAffinity=term("zone")), N2) == [APART]
    assert around.reasons(pod(podAffinity=term()), N2) == [NEAR]
    assert around.reasons(pod(podAffinity=term("zone")), N2) == []


def test_the_first_of_a_group_that_wants_to_be_together_may_go_anywhere() -> None:
    assert Neighbourhood([], {}).reasons(pod(podAffinity=term()), N1) == []
    assert Neighbourhood([], {}).reasons(pod("db", podAffinity=term()), N1) == [NEAR]


@virtual_time
async def test_pods_that_come_together_and_do_not_want_to_be_are_kept_apart() -> None:
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("zone")]}}
    async with cluster() as c:
        for name, zone in (("n1", "a"), ("n2", "b")):
            node = await c.node(name)
            labels = {"metadata": {**node["metadata"], "labels": {"zone": zone}}}
            await c.change(("", "nodes"), node, lambda live, labels=labels: {**live, **labels})  # type: ignore[misc]
        for name in ("p1", "p2", "p3"):
            await c.pod(name, {"affinity": apart}, metadata={"labels": {"app": "web"}})
        await Scheduler(c).sync()

        nodes = [(await c.get("pods", name))["spec"].get("nodeName") for name in ("p1", "p2", "p3")]
        assert nodes == ["n1", "n2", None]
        why = next(text for reason, text in await c.events() if reason == "FailedScheduling")
        assert why.startswith(f"0/2 nodes are available: 2 {APART}. preemption: ")
