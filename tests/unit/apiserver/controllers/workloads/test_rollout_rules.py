"""One step of a rollout, from what is there."""

from typing import Any

import msgspec
import pytest

from kit.cluster import START
from kit.workloads import template
from pykubelet.apiserver.controllers.workloads import deployment_rules as rules
from pykubelet.apiserver.controllers.workloads.deployment_rules import ReplicaSetView, replica_set_view
from pykubelet.apiserver.controllers.workloads.rollout_rules import plan
from pykubelet.apiserver.objects import Object


def deployment(replicas: int, image: str = "web:2", **spec: Any) -> Object:
    rolling = {"maxSurge": 1, "maxUnavailable": 1}
    whole = {
        "replicas": replicas,
        "template": template(image),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "progressDeadlineSeconds": 600,
        "revisionHistoryLimit": 10,
        **spec,
    }
    metadata = {"name": "web", "namespace": "default", "uid": "d", "generation": 2}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": whole, "status": {}}


def one(number: int, replicas: int, available: int | None = None, desired: int = 4, **facts: Any) -> ReplicaSetView:
    annotations = {rules.REVISION: str(number), rules.DESIRED: str(desired), rules.MOST: str(desired + 1)}
    metadata = {
        "name": f"web-{number}",
        "uid": str(number),
        "annotations": annotations,
        "creationTimestamp": str(number),
    }
    spec = {"replicas": replicas, "template": template(f"web:{number}")}
    count = replicas if available is None else available
    status = {"replicas": count, "readyReplicas": count, "availableReplicas": count}
    return msgspec.structs.replace(replica_set_view({"metadata": metadata, "spec": spec, "status": status}), **facts)


def sizes(wanted: Object, *sets: ReplicaSetView) -> dict[str, int]:
    """Of those that are to have another."""
    before, found = {each.uid: each.replicas for each in sets}, plan(wanted, sets, (), START)
    return {uid: each.replicas for uid, each in found.updates.items() if each.replicas != before[uid]}


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        pytest.param([one(1, 4), one(2, 0)], {"2": 1}, id="the new one grows by the surge"),
        pytest.param([one(1, 4), one(2, 1, 0)], {"1": 3}, id="then an old one goes"),
        pytest.param([one(1, 3), one(2, 1, 0)], {"2": 2}, id="and there is room for another"),
        pytest.param([one(1, 3), one(2, 2, 0)], {}, id="too few are well: wait"),
        pytest.param([one(1, 3), one(2, 2, 2)], {"1": 1}, id="new ones that are well let old ones go"),
        pytest.param([one(1, 0), one(2, 4)], {}, id="done"),
        pytest.param([one(1, 4, 2), one(2, 1, 0)], {"1": 3}, id="what is not well goes first"),
        pytest.param([one(1, 3, 4), one(2, 2, 2)], {}, id="one that still counts what it gave up is waited for"),
        pytest.param(
            [one(1, 0, 3), one(3, 4, 3), one(2, 1, 0)], {"3": 3}, id="pods of one that wants none any more do not count"
        ),
    ],
)
def test_old_and_new_take_turns(sets: list[ReplicaSetView], expected: dict[str, int]) -> None:
    assert sizes(deployment(4), *sets) == expected


def test_one_that_has_the_size_already_is_told_that_it_is_meant() -> None:
    """Somebody scaled the replica set by hand first: the rollout is not held up for ever."""
    found = plan(deployment(4), [one(1, 4, desired=2)], (), START)
    assert found.updates["1"].annotations[rules.DESIRED] == "4"
    assert found.create is None
    later = plan(deployment(4), [found.updates["1"]], (), START)
    assert later.create is not None


def test_what_is_paused_keeps_what_it_just_scaled() -> None:
    wanted = deployment(3, paused=True, revisionHistoryLimit=0)
    found = plan(wanted, [one(1, 0, is_observed=True)], (), START)
    assert found.updates["1"].replicas == 3
    assert found.removes == []
