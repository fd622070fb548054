"""Persistent volumes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

VOLUMES = strategy_of("", "persistentvolumes")
SPEC: dict[str, Any] = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/data"},
}


def test_a_volume_is_kept_and_holds_files_unless_it_says_otherwise_and_waits_to_be_claimed() -> None:
    volume = made(VOLUMES, spec=SPEC)
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["volumeMode"] == "Filesystem"
    assert volume["spec"]["hostPath"] == {"path": "/data", "type": ""}
    VOLUMES.prepare_create(volume, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert volume["status"] == {"phase": "Pending", "lastPhaseTransitionTime": "2026-01-02T03:04:05Z"}
    assert volume["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert faults(VOLUMES, volume) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"hostPath": None}, ["spec"]),
        ({"nfs": {"server": "s", "path": "/"}}, ["spec.nfs"]),
        ({"accessModes": ["Sometimes"]}, ["spec.accessModes"]),
        ({"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}, ["spec.accessModes"]),
        ({"capacity": {"storage": "0"}}, ["spec.capacity[storage]"]),
        ({"capacity": {"cpu": "1"}}, ["spec.capacity"]),
        ({"persistentVolumeReclaimPolicy": "Burn"}, ["spec.persistentVolumeReclaimPolicy"]),
        ({"volumeMode": "Tape"}, ["spec.volumeMode"]),
        ({"hostPath": {"path": "/a/../b"}}, ["spec.hostPath.path"]),
        ({"hostPath": None, "local": {"path": "/x"}}, ["spec.nodeAffinity"]),
        ({"hostPath": None, "csi": {"driver": "d"}}, ["spec.csi.volumeHandle"]),
        ({"storageClassName": "Bad_"}, ["spec.storageClassName"]),
    ],
)
def test_a_volume_says_how_large_it_is_where_it_is_and_who_may_mount_it(
    spec: dict[str, Any], expected: list[str]
) -> None:
    assert faults(VOLUMES, made(VOLUMES, spec={**SPEC, **spec})) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"capacity": {"storage": "2Gi"}}, []),
        ({"hostPath": {"path": "/other"}}, ["spec.persistentvolumesource"]),
        ({"volumeMode": "Block"}, ["volumeMode"]),
    ],
)
def test_once_made_a_volume_stays_where_it_is(spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(VOLUMES, made(VOLUMES, spec={**SPEC, **spec}), made(VOLUMES, spec=SPEC)) == expected
