"""Drivers of storage and what they say."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

STORAGE = "storage.k8s.io"
DRIVERS = strategy_of(STORAGE, "csidrivers")
NODES = strategy_of(STORAGE, "csinodes")
CAPACITIES = strategy_of(STORAGE, "csistoragecapacities")
ATTACHMENTS = strategy_of(STORAGE, "volumeattachments")


def test_a_driver_has_its_defaults() -> None:
    assert made(DRIVERS)["spec"] == {
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "podInfoOnMount": False,
        "requiresRepublish": False,
        "seLinuxMount": False,
        "storageCapacity": False,
        "volumeLifecycleModes": ["Persistent"],
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"volumeLifecycleModes": ["Eternal"]}, ["spec.volumeLifecycleModes"]),
        ({"fsGroupPolicy": "X"}, ["spec.fsGroupPolicy"]),
        ({"tokenRequests": [{"audience": "a"}, {"audience": "a"}]}, ["spec.tokenRequests[1].audience"]),
        ({"tokenRequests": [{"expirationSeconds": 5}]}, ["spec.tokenRequests[0].expirationSeconds"]),
    ],
)
def test_a_driver_says_what_it_can(spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(DRIVERS, made(DRIVERS, spec=spec)) == expected


def test_changes_of_a_driver_are_counted_and_some_are_refused() -> None:
    old, new = made(DRIVERS), made(DRIVERS, spec={"podInfoOnMount": True})
    DRIVERS.prepare_update(new, old, "")
    assert (new["metadata"]["generation"], faults(DRIVERS, new, old)) == (1, [])
    assert faults(DRIVERS, made(DRIVERS, spec={"attachRequired": False}), old) == ["spec.attachedRequired"]


@pytest.mark.parametrize(
    ("driver", "expected"),
    [
        ({"name": "d.io", "nodeID": "n"}, []),
        ({"nodeID": "n"}, ["spec.drivers[0].name", "spec.drivers[0].name"]),
        ({"name": "d.io"}, ["spec.drivers[0].nodeID"]),
        ({"name": "d.io", "nodeID": "n" * 257}, ["spec.drivers[0].nodeID"]),
        ({"name": "d.io", "nodeID": "n", "allocatable": {"count": -1}}, ["spec.drivers[0].allocatable.count"]),
        ({"name": "d.io", "nodeID": "n", "topologyKeys": ["b d"]}, ["spec.drivers[0]"]),
    ],
)
def test_a_node_knows_its_drivers(driver: dict[str, Any], expected: list[str]) -> None:
    assert faults(NODES, made(NODES, spec={"drivers": [driver]})) == expected


def test_a_driver_on_a_node_changes_only_how_many_volumes_it_takes() -> None:
    def node(**more: Any) -> dict[str, Any]:
        return made(NODES, spec={"drivers": [{"name": "d.io", "nodeID": "n", **more}]})

    assert faults(NODES, node(allocatable={"count": 5}), node()) == []
    assert faults(NODES, node(nodeID="m"), node()) == ["spec.drivers"]


def test_room_is_left_in_a_class() -> None:
    assert faults(CAPACITIES, made(CAPACITIES, storageClassName="c", capacity="1Gi")) == []
    assert faults(CAPACITIES, made(CAPACITIES, capacity="-1")) == ["storageClassName", "capacity"]
    one, other = (made(CAPACITIES, storageClassName=name) for name in "cd")
    assert faults(CAPACITIES, one, other) == ["storageClassName"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"nodeName": ""}, ["spec.nodeName"]),
        ({"source": {}}, ["spec.source"]),
        ({"source": {"persistentVolumeName": ""}}, ["spec.source.persistentVolumeName"]),
        ({"source": {"persistentVolumeName": "p", "inlineVolumeSpec": {}}}, ["spec.source"]),
    ],
)
def test_a_volume_is_attached_to_a_node(spec: dict[str, Any], expected: list[str]) -> None:
    whole = {"attacher": "d.io", "nodeName": "n", "source": {"persistentVolumeName": "p"}, **spec}
    assert faults(ATTACHMENTS, made(ATTACHMENTS, spec=whole)) == expected


def test_an_attachment_stays_where_it_is() -> None:
    spec = {"attacher": "d.io", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
    moved = made(ATTACHMENTS, spec={**spec, "nodeName": "m"})
    assert faults(ATTACHMENTS, moved, made(ATTACHMENTS, spec=spec)) == ["spec"]
