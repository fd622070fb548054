"""Persistent volumes."""

from datetime import UTC, datetime

from kit.strategies import faults, made, strategy_of

VOLUMES = strategy_of("", "persistentvolumes")


def test_a_volume_is_kept_and_holds_files_unless_it_says_otherwise_and_waits_to_be_claimed() -> None:
    volume = made(VOLUMES, spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]})
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["spec"]["volumeMode"] == "Filesystem"
    VOLUMES.prepare_create(volume, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert volume["status"] == {"phase": "Pending", "lastPhaseTransitionTime": "2026-01-02T03:04:05Z"}
    assert faults(VOLUMES, volume) == []


def test_a_volume_says_how_large_it_is_and_who_may_mount_it() -> None:
    assert faults(VOLUMES, made(VOLUMES)) == ["spec.accessModes", "spec.capacity"]
