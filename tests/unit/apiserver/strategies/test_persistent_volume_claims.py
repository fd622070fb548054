"""Persistent volume claims."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kit.cluster import cluster
from kit.strategies import faults, made, strategy_of
from kit.virtual_time import virtual_time

CLAIMS = strategy_of("", "persistentvolumeclaims")
DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}
SPEC: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@virtual_time
async def test_a_claim_that_names_no_class_gets_the_newest_default() -> None:
    async with cluster() as c:
        for name, time in (("old", "2026-01-01T00:00:00Z"), ("new", "2026-01-02T00:00:00Z")):
            metadata = {"name": name, "annotations": DEFAULT, "creationTimestamp": time}
            await c.add("storage.k8s.io", "storageclasses", {"metadata": metadata, "provisioner": "x.io/y"})
        await c.add("storage.k8s.io", "storageclasses", {"metadata": {"name": "z"}, "provisioner": "x.io/y"})
        chosen = []
        for name, spec in (
            ("a", SPEC),
            ("b", {**SPEC, "storageClassName": ""}),
            ("c", {**SPEC, "storageClassName": "z"}),
        ):
            await c.create(
                ("", "persistentvolumeclaims"), {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
            )
            chosen.append((await c.get("persistentvolumeclaims", name))["spec"]["storageClassName"])
        assert chosen == ["new", "", "z"]


def test_a_claim_says_how_much_and_for_whom() -> None:
    assert faults(CLAIMS, made(CLAIMS)) == ["spec.accessModes", "spec.resources[storage]"]
    assert faults(CLAIMS, made(CLAIMS, spec=SPEC)) == []


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ({}, {"volumeName": "v", "storageClassName": "s"}, []),
        ({}, {"resources": {"requests": {"storage": "2Gi"}}}, ["spec"]),
        ({}, {"volumeMode": "Block"}, ["spec", "volumeMode"]),
        ({"volumeName": "v"}, {"volumeName": "w"}, ["spec"]),
        ({"storageClassName": "s"}, {"storageClassName": "t"}, ["spec"]),
        ({"storageClassName": ""}, {"storageClassName": "t"}, ["spec"]),
        ({}, {"accessModes": ["ReadWriteMany"]}, ["spec"]),
    ],
)
def test_once_made_a_claim_may_be_bound(was: dict[str, Any], now: dict[str, Any], expected: list[str]) -> None:
    assert faults(CLAIMS, made(CLAIMS, spec={**SPEC, **now}), made(CLAIMS, spec={**SPEC, **was})) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"accessModes": ["Sometimes"]}, ["spec.accessModes"]),
        ({"resources": {"requests": {"storage": "-1"}}}, ["spec.resources[storage]"]),
        ({"volumeMode": "Tape"}, ["spec.volumeMode"]),
        ({"storageClassName": "Bad_"}, ["spec.storageClassName"]),
    ],
)
def test_what_cannot_be_fulfilled_is_refused(spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(CLAIMS, made(CLAIMS, spec={**SPEC, **spec})) == expected


def test_a_bound_claim_may_grow_and_not_shrink_below_what_it_has() -> None:
    def claim(size: str) -> dict[str, Any]:
        status = {"phase": "Bound", "capacity": {"storage": "2Gi"}}
        return made(CLAIMS, spec={**SPEC, "resources": {"requests": {"storage": size}}}, status=status)

    assert faults(CLAIMS, claim("4Gi"), claim("3Gi")) == []
    assert faults(CLAIMS, claim("1Gi"), claim("3Gi")) == ["spec.resources.requests.storage"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"capacity": {"storage": "2Gi"}, "allocatedResources": {"storage": "3Gi", "example.com/x": "1"}}, []),
        ({"allocatedResourceStatuses": {"storage": "NodeResizePending"}}, []),
        ({"allocatedResourceStatuses": {"storage": "Soon"}}, ["status.allocatedResourceStatuses"]),
        ({"allocatedResourceStatuses": {"cpu": "NodeResizePending"}}, ["status.allocatedResourceStatuses"]),
        ({"allocatedResources": {"storage": "-1"}}, ["status.allocatedResources[storage]"]),
        ({"capacity": {"storage": "-1"}}, ["status.capacity[storage]"]),
    ],
)
def test_what_is_said_of_its_growth_makes_sense(status: dict[str, Any], expected: list[str]) -> None:
    was, now = made(CLAIMS, spec=SPEC), made(CLAIMS, spec=SPEC, status=status)
    assert [each.field for each in CLAIMS.validate_update(now, was, "status")] == expected


@pytest.mark.parametrize(("name", "expected"), [("gold", []), ("", ["spec.volumeAttributesClassName"])])
def test_a_class_of_attributes_once_applied_is_changed_and_not_dropped(name: str, expected: list[str]) -> None:
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "currentVolumeAttributesClassName": "silver"}
    was = made(CLAIMS, spec={**SPEC, "volumeAttributesClassName": "silver"}, status=status)
    now = {**SPEC, **({"volumeAttributesClassName": name} if name else {})}
    assert faults(CLAIMS, made(CLAIMS, spec=now, status=status), was) == expected


@virtual_time
async def test_a_claim_grows_if_its_class_lets_it_and_is_protected() -> None:
    async with cluster() as c:
        for name, grows in (("no", False), ("yes", True)):
            await c.add(
                "storage.k8s.io",
                "storageclasses",
                {"metadata": {"name": name}, "provisioner": "x.io/y", "allowVolumeExpansion": grows},
            )
            spec = {**SPEC, "storageClassName": name}
            metadata = {"name": name, "namespace": "default"}
            await c.create(("", "persistentvolumeclaims"), {"metadata": metadata, "spec": spec})
            made_ = await c.get("persistentvolumeclaims", name)
            assert made_["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
            bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
            await c.change(("", "persistentvolumeclaims"), made_, lambda old, b=bound: {**old, **b}, part="status")  # type: ignore[misc]
            larger = {**spec, "resources": {"requests": {"storage": "2Gi"}}}
            changed = await c.change(("", "persistentvolumeclaims"), made_, lambda old, s=larger: {**old, "spec": s})  # type: ignore[misc]
            assert (changed is not None) == grows


def test_what_a_claim_is_filled_from_is_said_in_both_fields() -> None:
    snapshot = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    for given in ({"dataSource": snapshot}, {"dataSourceRef": snapshot}):
        claim = made(CLAIMS, spec={**SPEC, **given})
        CLAIMS.prepare_create(claim, datetime(2026, 1, 2, tzinfo=UTC))
        assert claim["spec"]["dataSource"] == claim["spec"]["dataSourceRef"] == snapshot
    claim = made(CLAIMS, spec={**SPEC, "dataSource": {"kind": "Strange", "name": "s"}})
    CLAIMS.prepare_create(claim, datetime(2026, 1, 2, tzinfo=UTC))
    assert "dataSource" not in claim["spec"]
