"""The numbers of a rollout."""

from typing import Any

import msgspec
import pytest

from pykubelet.apiserver.controllers.workloads import deployment_rules as rules
from pykubelet.apiserver.controllers.workloads.deployment_rules import ReplicaSetView, replica_set_view
from pykubelet.apiserver.controllers.workloads.percentages import scaled
from pykubelet.apiserver.controllers.workloads.template_hash import safe, template_hash
from pykubelet.apiserver.objects import Object
from pykubelet.base.fnv import fnv1a


def deployment(replicas: int, surge: int | str = "25%", unavailable: int | str = "25%", **more: Any) -> Object:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    spec = {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}
    return {"metadata": {"name": "web"}, "spec": spec, **more}


def one(name: str, replicas: int, most: int = 0, **facts: Any) -> ReplicaSetView:
    annotations = {rules.MOST: str(most)} if most else {}
    metadata = {"name": name, "uid": name, "annotations": annotations, "creationTimestamp": name}
    view = replica_set_view({"metadata": metadata, "spec": {"replicas": replicas}})
    return msgspec.structs.replace(view, **facts)


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [(3, 10, 3, 3), ("25%", 10, 3, 2), ("100%", 7, 7, 7), ("1%", 2, 1, 0), (None, 5, 0, 0), ("x", 5, 0, 0)],
)
def test_a_percentage_is_rounded_up_or_down(value: int | str | None, total: int, up: int, down: int) -> None:
    assert (scaled(value, total, up=True), scaled(value, total, up=False)) == (up, down)


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (2, "0%", "1%", (0, 1)),
        (1, "0%", "1%", (0, 1)),
        (2, "1%", "25%", (1, 0)),
        (1, "1%", "25%", (1, 0)),
        (10, "25%", "25%", (3, 2)),
        (10, 3, 2, (3, 2)),
    ],
)
def test_something_may_always_move(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    assert rules.fenceposts(deployment(replicas, surge, unavailable)) == expected


@pytest.mark.parametrize(
    ("replicas", "before", "sizes", "expected"),
    [
        # old and new of a rollout, with a surge of 3 before and after
        (15, 13, {"1": 8, "2": 5}, {"1": 11, "2": 7}),
        (5, 13, {"1": 8, "2": 5}, {"1": 5, "2": 3}),
        (12, 13, {"1": 10, "2": 3}, {"1": 12, "2": 3}),
        (10, 13, {"1": 8, "2": 5}, {"1": 8, "2": 5}),
        (0, 13, {"1": 8, "2": 5}, {"1": 0, "2": 0}),
    ],
)
def test_what_is_added_or_taken_is_shared(
    replicas: int, before: int, sizes: dict[str, int], expected: dict[str, int]
) -> None:
    sets = [one(name, size, before) for name, size in sizes.items()]
    assert rules.proportions(deployment(replicas, 3, 2), sets) == expected


@pytest.mark.parametrize(
    ("is_growing", "replicas", "expected"), [(True, 5, {"1": 2, "2": 3}), (False, 3, {"1": 1, "2": 2})]
)
def test_of_equals_the_newer_grows_and_the_older_shrinks(
    is_growing: bool, replicas: int, expected: dict[str, int]
) -> None:
    assert rules.proportions(deployment(replicas, 0, 1), [one("1", 2, 4), one("2", 2, 4)]) == expected


def test_the_new_one_grows_into_the_room_there_is() -> None:
    wanted = deployment(10, 3, 2)
    assert rules.new_size(wanted, [one("1", 10)], 0) == 3
    assert rules.new_size(wanted, [one("1", 8), one("2", 3)], 3) == 5
    assert rules.new_size(wanted, [one("1", 13)], 0) == 0
    assert rules.new_size(wanted, [one("2", 9)], 9) == 10
    recreated = {**wanted, "spec": {"replicas": 10, "strategy": {"type": "Recreate"}}}
    assert rules.new_size(recreated, [one("1", 10)], 0) == 10


def test_a_replica_set_that_serves_again_keeps_its_history_within_bounds() -> None:
    first = rules.revised({}, deployment(1), 1)
    assert first == {rules.REVISION: "1"}
    third = rules.revised(first, deployment(1), 3)
    assert third == {rules.REVISION: "3", rules.REVISION_HISTORY: "1"}
    assert rules.revised(third, deployment(1), 2) == third
    annotations = third
    for number in range(1000, 2000):
        annotations = rules.revised(annotations, deployment(1), number)
    history = annotations[rules.REVISION_HISTORY]
    assert len(history) <= 2000
    assert history.endswith(",1997,1998")


def test_the_hash_is_short_safe_and_of_the_template_alone() -> None:
    assert fnv1a(b"hello") == 0x4F9F2CAB  # a known value of FNV-1a
    assert safe("0123456789") == "456789bcdf"
    template = {"spec": {"containers": [{"name": "a", "image": "b"}]}}
    turned = {"spec": {"containers": [{"image": "b", "name": "a"}]}}
    assert template_hash(template, None) == template_hash(turned, None)
    assert len({template_hash(template, count) for count in (None, 0, 1, 2)}) == 4
