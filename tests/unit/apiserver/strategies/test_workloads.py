"""The kinds that make pods: their defaults, their rules, and what may change."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of
from pykubelet.api.codec import DecodeError
from pykubelet.apiserver.schema.schema import copied

NOW = datetime(2026, 1, 2, tzinfo=UTC)
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "a", "image": "b"}]},
}
SELECTOR = {"matchLabels": {"app": "web"}}
KINDS = ("deployments", "replicasets", "statefulsets", "daemonsets")


def obj(plural: str, group: str = "apps", **spec: Any) -> dict[str, Any]:
    return made(strategy_of(group, plural), spec={"selector": SELECTOR, "template": copied(TEMPLATE), **spec})


def rules_of(plural: str, **spec: Any) -> list[str]:
    return faults(strategy_of("apps", plural), obj(plural, **spec))


def changed(plural: str, new: dict[str, Any], old: dict[str, Any], part: str = "") -> dict[str, Any]:
    result = copied(new)
    strategy_of("apps", plural).prepare_update(result, old, part)
    return dict(result)


# --- defaults


def test_a_deployment_rolls_out_by_quarters() -> None:
    spec = obj("deployments")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    assert (spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (10, 600)
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert obj("deployments", strategy={"type": "Recreate"})["spec"]["strategy"] == {"type": "Recreate"}


def test_a_stateful_set_is_in_order_and_keeps_its_claims() -> None:
    spec = obj("statefulsets", volumeClaimTemplates=[{"metadata": {"name": "data"}}])["spec"]
    assert spec["podManagementPolicy"] == "OrderedReady"
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert (spec["replicas"], spec["revisionHistoryLimit"]) == (1, 10)
    (claim,) = spec["volumeClaimTemplates"]
    assert (claim["apiVersion"], claim["kind"]) == ("v1", "PersistentVolumeClaim")
    assert claim["spec"]["volumeMode"] == "Filesystem"
    assert claim["status"] == {"phase": "Pending"}
    plain = obj("statefulsets", updateStrategy={"type": "RollingUpdate"})["spec"]["updateStrategy"]
    assert plain == {"type": "RollingUpdate"}, "only who says nothing gets a partition"


def test_a_daemon_set_is_renewed_one_at_a_time() -> None:
    spec = obj("daemonsets")["spec"]
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert spec["revisionHistoryLimit"] == 10


def test_a_replication_controller_takes_its_selector_and_labels_from_the_template() -> None:
    strategy = strategy_of("", "replicationcontrollers")
    controller = made(strategy, spec={"template": copied(TEMPLATE)})
    assert controller["spec"]["selector"] == controller["metadata"]["labels"] == {"app": "web"}
    assert controller["spec"]["replicas"] == 1
    assert faults(strategy, controller) == []
    bare = made(strategy, spec={"template": {"spec": TEMPLATE["spec"]}})
    assert "spec.selector" in faults(strategy, bare)
    assert strategy.orphans_by_default
    assert faults(strategy, made(strategy, spec={"selector": {"app": "web"}})) == ["spec.template"]


@pytest.mark.parametrize("plural", KINDS)
def test_what_has_its_defaults_stays_as_it_is_and_nothing_is_wrong_with_it(plural: str) -> None:
    strategy, first = strategy_of("apps", plural), obj(plural)
    assert strategy.normal(copied(first)) == first
    assert faults(strategy, first) == []


@pytest.mark.parametrize(
    ("plural", "status"),
    [
        ("deployments", {}),
        ("replicasets", {"replicas": 0}),
        ("statefulsets", {"replicas": 0, "availableReplicas": 0}),
        (
            "daemonsets",
            dict.fromkeys(("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0),
        ),
    ],
)
def test_a_new_one_has_the_first_generation_and_no_status(plural: str, status: dict[str, int]) -> None:
    new = {**obj(plural), "status": {"replicas": 9, "numberReady": 7}}
    strategy_of("apps", plural).prepare_create(new, NOW)
    assert new["status"] == status
    assert new["metadata"]["generation"] == 1


# --- rules


@pytest.mark.parametrize("plural", KINDS)
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minReadySeconds": -1}, "spec.minReadySeconds"),
        ({"selector": None}, "spec.selector"),
        ({"selector": {}}, "spec.selector"),
        ({"selector": {"matchLabels": {"app": "db"}}}, "spec.template.metadata.labels"),
        ({"selector": {"matchLabels": {"a b": "c"}}}, "spec.selector.matchLabels"),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}},
            "spec.selector.matchExpressions[0].operator",
        ),
        ({"template": {**TEMPLATE, "spec": {"containers": []}}}, "spec.template.spec.containers"),
        (
            {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}},
            "spec.template.spec.restartPolicy",
        ),
        (
            {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "activeDeadlineSeconds": 5}}},
            "spec.template.spec.activeDeadlineSeconds",
        ),
    ],
)
def test_what_is_wrong_is_named(plural: str, spec: dict[str, Any], field: str) -> None:
    if spec.get("selector", True) is None:
        without = obj(plural)
        del without["spec"]["selector"]
        found = faults(strategy_of("apps", plural), without)
        assert (field in found) == (plural != "daemonsets"), (
            "a daemon set without one is only told that it finds nothing"
        )
        assert "spec.template.metadata.labels" in found
    else:
        assert field in rules_of(plural, **spec)


@pytest.mark.parametrize("plural", KINDS)
def test_a_selector_that_cannot_be_read_is_told_as_a_whole_but_for_daemon_sets(plural: str) -> None:
    found = rules_of(plural, selector={"matchExpressions": [{"key": "app", "operator": "In"}]})
    whole = [] if plural == "daemonsets" else ["spec.selector"]
    assert found == ["spec.selector.matchExpressions[0].values", *whole]


ROLLING = "spec.strategy.rollingUpdate"
UPDATE = "spec.updateStrategy.rollingUpdate"


def rolling(**numbers: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": numbers}


@pytest.mark.parametrize(
    ("plural", "spec", "expected"),
    [
        ("deployments", {"replicas": -1}, ["spec.replicas"]),
        ("deployments", {"revisionHistoryLimit": -1}, ["spec.revisionHistoryLimit"]),
        ("deployments", {"progressDeadlineSeconds": 5, "minReadySeconds": 5}, ["spec.progressDeadlineSeconds"]),
        ("deployments", {"strategy": {"type": "Other"}}, ["spec.strategy"]),
        ("deployments", {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}, [ROLLING]),
        ("deployments", {"strategy": rolling(maxSurge=0, maxUnavailable=0)}, [f"{ROLLING}.maxUnavailable"]),
        ("deployments", {"strategy": rolling(maxSurge="0%", maxUnavailable="0%")}, [f"{ROLLING}.maxUnavailable"]),
        ("deployments", {"strategy": rolling(maxSurge=-1)}, [f"{ROLLING}.maxSurge"]),
        ("deployments", {"strategy": rolling(maxSurge="many")}, [f"{ROLLING}.maxSurge"]),
        ("deployments", {"strategy": rolling(maxUnavailable="101%")}, [f"{ROLLING}.maxUnavailable"]),
        ("deployments", {"strategy": rolling(maxSurge="200%")}, []),
        ("replicasets", {"replicas": -1}, ["spec.replicas"]),
        ("statefulsets", {"podManagementPolicy": "Other"}, ["spec.podManagementPolicy"]),
        ("statefulsets", {"updateStrategy": {"type": "Other"}}, ["spec.updateStrategy"]),
        ("statefulsets", {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}}, [UPDATE]),
        ("statefulsets", {"updateStrategy": rolling(partition=-1)}, [f"{UPDATE}.partition"]),
        ("statefulsets", {"updateStrategy": rolling(maxUnavailable=0)}, [f"{UPDATE}.maxUnavailable"]),
        ("statefulsets", {"ordinals": {"start": -1}}, ["spec.ordinals.start"]),
        ("statefulsets", {"serviceName": "Not a name"}, ["spec.serviceName"]),
        (
            "statefulsets",
            {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Burn"}},
            ["spec.persistentVolumeClaimRetentionPolicy.whenScaled"],
        ),
        (
            "statefulsets",
            {"volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]},
            ["spec.volumeClaimTemplates[0].spec.resources[storage]"],
        ),
        ("daemonsets", {"updateStrategy": {"type": "Other"}}, ["spec.updateStrategy"]),
        ("daemonsets", {"updateStrategy": rolling(maxSurge=1)}, [f"{UPDATE}.maxSurge"]),
        ("daemonsets", {"updateStrategy": rolling(maxUnavailable=0)}, [f"{UPDATE}.maxUnavailable"]),
        ("daemonsets", {"updateStrategy": rolling(maxUnavailable=0, maxSurge="30%")}, []),
        ("daemonsets", {"updateStrategy": {"type": "OnDelete"}}, []),
        ("daemonsets", {"revisionHistoryLimit": -1}, ["spec.revisionHistoryLimit"]),
    ],
)
def test_the_rules_of_each_kind(plural: str, spec: dict[str, Any], expected: list[str]) -> None:
    assert rules_of(plural, **spec) == expected


def test_a_stateful_sets_name_is_a_label_and_its_pods_may_mount_the_claims() -> None:
    strategy = strategy_of("apps", "statefulsets")
    assert "metadata.name" in faults(strategy, {**obj("statefulsets"), "metadata": {"name": "a.b", "namespace": "d"}})
    container = {"name": "a", "image": "b", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    template = {**TEMPLATE, "spec": {"containers": [container]}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{"metadata": {"name": "data"}, "spec": spec}]
    assert rules_of("statefulsets", template=template, volumeClaimTemplates=claims) == []
    assert rules_of("statefulsets", template=template) == ["spec.template.spec.containers[0].volumeMounts[0].name"]


# --- changing


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets"])
def test_the_selector_never_changes(plural: str) -> None:
    labels = {"app": "web", "more": "labels"}
    template = {**TEMPLATE, "metadata": {"labels": labels}}
    old, new = obj(plural, template=template), obj(plural, template=template, selector={"matchLabels": labels})
    (fault,) = strategy_of("apps", plural).validate_update(new, old, "")
    assert (fault.field, fault.detail) == ("spec.selector", "field is immutable")


def test_of_a_stateful_set_only_a_few_things_change() -> None:
    strategy, old = strategy_of("apps", "statefulsets"), obj("statefulsets")
    free: dict[str, Any] = {"replicas": 3, "minReadySeconds": 1, "ordinals": {"start": 1}, "revisionHistoryLimit": 2}
    assert faults(strategy, obj("statefulsets", **free), old) == []
    assert faults(strategy, obj("statefulsets", serviceName="x"), old) == ["spec"]
    assert faults(strategy, obj("statefulsets", podManagementPolicy="Parallel"), old) == ["spec"]


@pytest.mark.parametrize("plural", KINDS)
def test_generations_count_what_is_wanted_and_not_what_is_so(plural: str) -> None:
    old = obj(plural)
    old["metadata"]["generation"], old["status"] = 4, {"observedGeneration": 3}
    other = obj(plural, minReadySeconds=5)
    assert changed(plural, other, old)["metadata"]["generation"] == 5
    assert changed(plural, other, old)["status"] == {"observedGeneration": 3}
    told = changed(plural, {**other, "status": {"observedGeneration": 4}, "metadata": old["metadata"]}, old, "status")
    assert told["metadata"]["generation"] == 4
    assert told["spec"] == old["spec"]
    assert told["status"]["observedGeneration"] == 4


def test_annotations_count_for_a_deployment_unless_its_status_brings_them() -> None:
    old = obj("deployments")
    old["metadata"]["generation"] = 1
    new = {**old, "metadata": {**old["metadata"], "annotations": {"a": "b"}, "labels": {"c": "d"}}}
    assert changed("deployments", new, old)["metadata"]["generation"] == 2
    told = changed("deployments", {**new, "status": {}}, old, "status")["metadata"]
    assert told["generation"] == 1
    assert told["annotations"] == {"a": "b"}
    assert "labels" not in told


def test_templates_of_a_daemon_set_are_counted_in_an_annotation() -> None:
    key = "deprecated.daemonset.template.generation"
    old = obj("daemonsets")
    strategy_of("apps", "daemonsets").prepare_create(old, NOW)
    assert old["metadata"]["annotations"] == {key: "1"}
    same = changed("daemonsets", {**obj("daemonsets", minReadySeconds=1), "metadata": {"generation": 1}}, old)
    assert same["metadata"]["annotations"] == {key: "1"}
    template = {**TEMPLATE, "metadata": {"labels": {"app": "web", "version": "2"}}}
    other = changed("daemonsets", {**obj("daemonsets", template=template), "metadata": {"generation": 1}}, old)
    assert other["metadata"]["annotations"] == {key: "2"}
    with pytest.raises(DecodeError):
        made(strategy_of("apps", "daemonsets"), metadata={"annotations": {key: "many"}}, spec={"template": TEMPLATE})


def test_features_that_nobody_has_yet_are_left_out() -> None:
    new = obj("statefulsets", updateStrategy=rolling(partition=1, maxUnavailable=2))
    strategy_of("apps", "statefulsets").prepare_create(new, NOW)
    assert new["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 1}
    old = obj("deployments")
    old["metadata"]["generation"] = 1
    told = changed("deployments", {**old, "status": {"replicas": 1, "terminatingReplicas": 1}}, old, "status")
    assert told["status"] == {"replicas": 1}


@pytest.mark.parametrize(
    ("plural", "status", "field"),
    [
        ("deployments", {"replicas": -1}, "status.replicas"),
        ("deployments", {"replicas": 1, "updatedReplicas": 2}, "status.updatedReplicas"),
        ("deployments", {"replicas": 2, "availableReplicas": 2, "readyReplicas": 1}, "status.availableReplicas"),
        ("deployments", {"collisionCount": 1}, "status.collisionCount"),
        ("replicasets", {"replicas": 1, "fullyLabeledReplicas": 2}, "status.fullyLabeledReplicas"),
        ("statefulsets", {"replicas": 1, "currentReplicas": 2}, "status.currentReplicas"),
        ("daemonsets", {"numberReady": -1}, "status.numberReady"),
    ],
)
def test_counts_that_cannot_be_are_refused(plural: str, status: dict[str, int], field: str) -> None:
    old = {**obj(plural), "status": {"collisionCount": 2} if field.endswith("collisionCount") else {}}
    found = strategy_of("apps", plural).validate_update({**obj(plural), "status": status}, old, "status")
    assert next(found).field == field


def test_unavailable_replicas_may_be_more_than_there_are() -> None:
    strategy, old = strategy_of("apps", "deployments"), obj("deployments")
    new = {**old, "status": {"replicas": 1, "unavailableReplicas": 3}}
    assert list(strategy.validate_update(new, old, "status")) == []


@pytest.mark.parametrize(
    ("plural", "times"),
    [(plural, ("lastTransitionTime",)) for plural in KINDS[1:]]
    + [("deployments", ("lastUpdateTime", "lastTransitionTime"))],
)
def test_conditions_have_their_times_if_only_as_null(plural: str, times: tuple[str, ...]) -> None:
    status = {"conditions": [{"type": "X", "status": "True"}]}
    (condition,) = strategy_of("apps", plural).normal({**obj(plural), "status": status})["status"]["conditions"]
    assert condition == {"type": "X", "status": "True", **dict.fromkeys(times)}


def test_claims_are_checked_as_claims_are() -> None:
    spec = {"accessModes": ["Wrong"], "resources": {"requests": {"storage": "-1"}}}
    found = rules_of("statefulsets", volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": spec}])
    where = "spec.volumeClaimTemplates[0].spec"
    assert found == [f"{where}.accessModes", f"{where}.resources[storage]"]


# --- revisions


def test_what_a_revision_holds_is_written_once() -> None:
    strategy = strategy_of("apps", "controllerrevisions")
    revision = made(strategy, data={"spec": {}}, revision=1)
    assert faults(strategy, revision) == []
    assert faults(strategy, {**revision, "revision": 2}, revision) == []
    assert faults(strategy, {**revision, "data": {"spec": {"a": 1}}}, revision) == ["data"]
    assert faults(strategy, {**revision, "revision": -1}) == ["revision"]
    assert faults(strategy, made(strategy, revision=1)) == ["data"]
    assert faults(strategy, {**revision, "data": ["x"]}) == ["data"]
