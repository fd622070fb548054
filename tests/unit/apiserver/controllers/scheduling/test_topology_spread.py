"""Pods that are to lie evenly over nodes and zones."""

from typing import Any

import pytest

from kit.cluster import cluster
from kit.virtual_time import virtual_time
from pykubelet.api.codec import convert
from pykubelet.api.pod import PodSpec
from pykubelet.api.scheduling import Taint
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.scheduling.fit import Place
from pykubelet.apiserver.controllers.scheduling.scheduler import Scheduler
from pykubelet.apiserver.controllers.scheduling.topology_spread import UNEVEN, UNLABELLED, Crowd, Spread

HOST = "kubernetes.io/hostname"
OK: list[str] = []
WEB = {"matchLabels": {"app": "web"}}


def rule(key: str = "zone", skew: int = 1, **more: Any) -> dict[str, Any]:
    base = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    return {**base, **more}


def node(name: str, *taints: str, **labels: str) -> Place:
    found = tuple(Taint(key=key, effect="NoSchedule") for key in taints)
    return Place(name, {HOST: name, **labels}, found, {}, False)


THREE = [node("a1", zone="a"), node("a2", zone="a"), node("b1", zone="b")]


def spread(
    *rules: dict[str, Any],
    there: dict[str, int],
    nodes: list[Place],
    labels: dict[str, str] | None = None,
    others: tuple[tuple[str, dict[str, str], str], ...] = (),
    **spec: Any,
) -> Spread:
    pods = [("ns", {"app": "web", "hash": "1"}, name) for name, count in there.items() for _ in range(count)]
    typed = convert(PodSpec, {"containers": [], "topologySpreadConstraints": list(rules), **spec})
    labels = {"app": "web", "hash": "1"} if labels is None else labels
    return Spread(typed, "ns", labels, nodes, Crowd([*pods, *others]))


def told(found: Spread, nodes: list[Place]) -> dict[str, list[str]]:
    return {each.name: found.reasons(each) for each in nodes}


@pytest.mark.parametrize(
    ("rules", "there", "expected"),
    [
        ([], {"a1": 9}, (OK, OK, OK)),
        ([rule()], {}, (OK, OK, OK)),
        ([rule()], {"a1": 1}, ([UNEVEN], [UNEVEN], OK)),
        ([rule()], {"a1": 1, "b1": 1}, (OK, OK, OK)),
        ([rule(skew=2)], {"a1": 1}, (OK, OK, OK)),
        ([rule(skew=2)], {"a1": 1, "a2": 1}, ([UNEVEN], [UNEVEN], OK)),
        ([rule(HOST)], {"a1": 1}, ([UNEVEN], OK, OK)),
        ([rule(), rule(HOST)], {"b1": 1, "a1": 1}, ([UNEVEN], OK, [UNEVEN])),
        ([rule("rack")], {}, ([UNLABELLED], [UNLABELLED], [UNLABELLED])),
        ([rule(minDomains=2)], {"a1": 1, "b1": 1}, (OK, OK, OK)),
        ([rule(minDomains=3)], {"a1": 1, "b1": 1}, ([UNEVEN], [UNEVEN], [UNEVEN])),  # a third zone may come
        ([rule(minDomains=3)], {"a1": 1}, ([UNEVEN], [UNEVEN], OK)),
        ([rule(labelSelector={})], {"a1": 1}, ([UNEVEN], [UNEVEN], OK)),
        ([rule(labelSelector=None)], {"a1": 5}, (OK, OK, OK)),
        ([rule(matchLabelKeys=["hash"])], {"a1": 1}, ([UNEVEN], [UNEVEN], OK)),
        ([rule(matchLabelKeys=["unknown"])], {"a1": 1}, ([UNEVEN], [UNEVEN], OK)),
        ([rule(whenUnsatisfiable="ScheduleAnyway")], {"a1": 9}, (OK, OK, OK)),
    ],
)
def test_which_nodes_a_pod_may_go_to(
    rules: list[dict[str, Any]], there: dict[str, int], expected: tuple[list[str], ...]
) -> None:
    assert tuple(told(spread(*rules, there=there, nodes=THREE), THREE).values()) == expected


def test_only_pods_of_the_same_namespace_and_revision_count() -> None:
    others = (("other", {"app": "web"}, "a1"), ("ns", {"app": "db"}, "a1"), ("ns", {"app": "web", "hash": "0"}, "a1"))
    found = spread(rule(matchLabelKeys=["hash"]), there={}, nodes=THREE, others=others)
    assert told(found, THREE) == {"a1": OK, "a2": OK, "b1": OK}
    found = spread(rule(), there={}, nodes=THREE, others=others)
    assert told(found, THREE) == {"a1": [UNEVEN], "a2": [UNEVEN], "b1": OK}


def test_a_pod_that_is_not_of_the_group_itself_makes_nothing_more_uneven() -> None:
    found = spread(rule(), there={"a1": 1}, nodes=THREE, labels={})
    assert told(found, THREE) == {"a1": OK, "a2": OK, "b1": OK}
    found = spread(rule(), there={"a1": 2}, nodes=THREE, labels={})
    assert told(found, THREE)["a1"] == [UNEVEN]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [({}, OK), ({"nodeAffinityPolicy": "Honor"}, OK), ({"nodeAffinityPolicy": "Ignore"}, [UNEVEN])],
)
def test_nodes_that_the_pod_does_not_select_are_no_domains_unless_told_so(
    policy: dict[str, Any], expected: list[str]
) -> None:
    found = spread(rule(**policy), there={"a1": 1}, nodes=THREE, nodeSelector={"zone": "a"})
    assert found.reasons(THREE[0]) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [({}, [UNEVEN]), ({"nodeTaintsPolicy": "Ignore"}, [UNEVEN]), ({"nodeTaintsPolicy": "Honor"}, OK)],
)
def test_nodes_with_taints_are_domains_unless_told_otherwise(policy: dict[str, Any], expected: list[str]) -> None:
    nodes = [*THREE[:2], node("b1", "broken", zone="b")]
    assert spread(rule(**policy), there={"a1": 1}, nodes=nodes).reasons(nodes[0]) == expected
    tolerant = spread(rule(**policy), there={"a1": 1}, nodes=nodes, tolerations=[{"operator": "Exists"}])
    assert tolerant.reasons(nodes[0]) == [UNEVEN]


def test_nodes_without_all_of_the_labels_are_in_no_domain() -> None:
    nodes = [*THREE, Place("bare", {"zone": "c"}, (), {}, False)]
    found = spread(rule(), rule(HOST), there={"a1": 1, "b1": 1}, nodes=nodes)
    assert told(found, nodes) == {"a1": [UNEVEN], "a2": OK, "b1": [UNEVEN], "bare": [UNLABELLED]}


def test_where_it_is_only_a_wish_the_emptier_domain_gets_more() -> None:
    found = spread(rule(whenUnsatisfiable="ScheduleAnyway"), there={"a1": 2, "b1": 1}, nodes=THREE)
    bonus = found.bonus(THREE)
    assert bonus["a1"] == bonus["a2"] < bonus["b1"]
    assert spread(rule(), there={"a1": 1}, nodes=THREE).bonus(THREE) == {}
    assert "bare" not in found.bonus([*THREE, Place("bare", {}, (), {}, False)])
    assert found.bonus([]) == {}


def test_a_pod_that_was_given_a_node_counts_for_the_next() -> None:
    crowd = Crowd([])
    spec = convert(PodSpec, {"containers": [], "topologySpreadConstraints": [rule()]})
    for name, expected in (("a1", OK), ("a1", [UNEVEN]), ("b1", OK)):
        found = Spread(spec, "ns", {"app": "web"}, THREE, crowd)
        assert found.reasons(next(each for each in THREE if each.name == name)) == expected
        if not expected:
            crowd.add("ns", {"app": "web"}, name)


# --- in a cluster


async def _zones(c: Any, *zones: str) -> None:
    for index, zone in enumerate(zones):
        made = await c.node(f"n{index}")
        await c.label(("", "nodes"), made, zone=zone)


@virtual_time
async def test_a_pod_that_finds_no_even_place_waits_and_says_so_until_there_is_one() -> None:
    spec = {"topologySpreadConstraints": [rule()]}
    async with cluster() as c:
        await _zones(c, "a", "b")
        full = {"cpu": "2", "memory": "4Gi", "pods": "1"}
        await c.label(("", "nodes"), await c.node("n1b", allocatable=full), zone="c")
        for name in "wxyz":
            await c.pod(name, spec, metadata={"labels": {"app": "web"}})
        await Scheduler(c).sync()
        at = [(await c.get("pods", name))["spec"].get("nodeName", "") for name in "wxyz"]
        assert sorted(at[:3]) == ["n0", "n1", "n1b"]
        assert at[3] in ("n0", "n1")
        for name in "stu":
            await c.pod(name, spec, metadata={"labels": {"app": "web"}})
        await Scheduler(c).sync()
        why = condition(await c.get("pods", "u"), "PodScheduled")
        words = (
            f"0/3 nodes are available: 1 Too many pods, 2 {UNEVEN}. "
            "preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
        )
        assert (why["reason"], why["message"]) == ("Unschedulable", words)
        assert ("FailedScheduling", words) in await c.events()


@virtual_time
async def test_pods_that_wish_to_be_spread_are() -> None:
    spec = {"topologySpreadConstraints": [rule(whenUnsatisfiable="ScheduleAnyway")]}
    async with cluster() as c:
        await _zones(c, "a", "a", "b")
        for name in "wxyz":
            await c.pod(name, spec, metadata={"labels": {"app": "web"}})
        await Scheduler(c).sync()
        at = [(await c.get("pods", name))["spec"]["nodeName"] for name in "wxyz"]
        assert at.count("n2") == 2
