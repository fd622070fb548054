"""Persistent volume claims."""

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
        ({}, {"resources": {"requests": {"storage": "2Gi"}}}, []),
        ({"volumeName": "v"}, {"volumeName": "w"}, ["spec"]),
        ({"storageClassName": "s"}, {"storageClassName": "t"}, ["spec"]),
        ({}, {"accessModes": ["ReadWriteMany"]}, ["spec"]),
    ],
)
def test_once_made_a_claim_may_be_bound_and_grow(was: dict[str, Any], now: dict[str, Any], expected: list[str]) -> None:
    assert faults(CLAIMS, made(CLAIMS, spec={**SPEC, **now}), made(CLAIMS, spec={**SPEC, **was})) == expected
