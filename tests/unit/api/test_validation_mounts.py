"""How containers use the volumes of their pod: as directories and as devices."""

from typing import Any

import pytest

from unit.api.validation_pods import (
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    REQUIRED,
    Expected,
    Fragment,
    Row,
    container,
    found,
    names_of,
    under,
)


def mount(**fields: Any) -> dict[str, Any]:
    return {"volumeMounts": [{"name": "v", "mountPath": "/v"} | fields]}


MOUNTS: list[Row] = [
    ("a mount", mount(readOnly=True, recursiveReadOnly="Enabled", mountPropagation="None"), []),
    ("a mount has a volume", mount(name=""), [("volumeMounts[0].name", REQUIRED), ("volumeMounts[0].name", NOT_FOUND)]),
    ("a mount's volume exists", mount(name="x"), [("volumeMounts[0].name", NOT_FOUND)]),
    ("a mount's volume is valid", mount(name="broken"), [("volumeMounts[0].name", NOT_FOUND)]),
    ("a mount has a path", mount(mountPath=""), [("volumeMounts[0].mountPath", REQUIRED)]),
    (
        "a path is taken once",
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}] * 2},
        [("volumeMounts[1].mountPath", INVALID)],
    ),
    ("a part of a volume is inside of it", mount(subPath="/../a"), [("volumeMounts.subPath", INVALID)] * 2),
    (
        "a part of a volume is named once",
        mount(subPath="a", subPathExpr="/b"),
        [("volumeMounts[0].subPathExpr", INVALID), ("volumeMounts.subPathExpr", INVALID)],
    ),
    ("propagation is known", mount(mountPropagation="x"), [("volumeMounts.mountPropagation", NOT_SUPPORTED)]),
    (
        "propagation to the host is for the privileged",
        mount(mountPropagation="Bidirectional"),
        [("volumeMounts.mountPropagation", FORBIDDEN)],
    ),
    ("who may", mount(mountPropagation="Bidirectional") | {"securityContext": {"privileged": True}}, []),
    (
        "read-only to the ground needs read-only",
        mount(recursiveReadOnly="IfPossible", mountPropagation="HostToContainer"),
        [("volumeMounts.recursiveReadOnly", FORBIDDEN)] * 2,
    ),
    (
        "read-only to the ground is known",
        mount(recursiveReadOnly="x"),
        [("volumeMounts.recursiveReadOnly", NOT_SUPPORTED)],
    ),
    ("a device", {"volumeDevices": [{"name": "claim", "devicePath": "/dev/a"}]}, []),
    (
        "a device is a claim",
        {"volumeDevices": [{"name": "v", "devicePath": "/dev/a"}]},
        [("volumeDevices[0].name", INVALID)],
    ),
    (
        "a device has a volume and a path",
        {"volumeDevices": [{}]},
        [
            ("volumeDevices[0].name", REQUIRED),
            ("volumeDevices[0].name", NOT_FOUND),
            ("volumeDevices[0].devicePath", REQUIRED),
        ],
    ),
    (
        "a device's path does not step back",
        {"volumeDevices": [{"name": "claim", "devicePath": "../a"}]},
        [("volumeDevices[0].devicePath", INVALID)],
    ),
    (
        "devices differ",
        {"volumeDevices": [{"name": "claim", "devicePath": "/dev/a"}] * 2},
        [("volumeDevices[1].name", INVALID), ("volumeDevices[1].devicePath", INVALID)],
    ),
    (
        "a volume is a mount or a device",
        {
            "volumeMounts": [{"name": "claim", "mountPath": "/a"}],
            "volumeDevices": [{"name": "claim", "devicePath": "/a"}],
        },
        [
            ("volumeMounts[0].name", INVALID),
            ("volumeMounts[0].mountPath", INVALID),
            ("volumeDevices[0].name", INVALID),
            ("volumeDevices[0].devicePath", INVALID),
        ],
    ),
]


@pytest.mark.parametrize(("_what", "fields", "expected"), MOUNTS, ids=names_of(MOUNTS))
def test_a_container_uses_the_volumes_of_its_pod(_what: str, fields: Fragment, expected: Expected) -> None:
    volumes: list[Fragment] = [
        {"name": "v", "emptyDir": {}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "broken", "secret": {}},
    ]
    broken = ("spec.volumes[2].secret.secretName", REQUIRED)
    faults = found({"volumes": volumes, "containers": [container(**fields)]})
    assert faults == [broken, *under("spec.containers[0]", expected)]
