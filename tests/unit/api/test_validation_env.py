"""A container's environment: names, values, and where values come from."""

from typing import Any

import pytest

from unit.api.validation_pods import (
    CONTAINER,
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    REQUIRED,
    Expected,
    Fragment,
    Row,
    found,
    names_of,
    under,
    with_container,
)


def env(**source: Any) -> dict[str, Any]:
    return {"env": [{"name": "A", "valueFrom": source}]}


def field(path: str) -> dict[str, Any]:
    return env(fieldRef={"apiVersion": "v1", "fieldPath": path})


def resource(name: str, divisor: str = "0") -> dict[str, Any]:
    return env(resourceFieldRef={"resource": name, "divisor": divisor})


ENVIRONMENT: list[Row] = [
    ("a variable has a name", {"env": [{}]}, [("env[0].name", REQUIRED)]),
    ("a variable's name may have spaces", {"env": [{"name": "1 a.b-c"}]}, []),
    ("but no equals sign", {"env": [{"name": "A=B"}]}, [("env[0].name", INVALID)]),
    ("and nothing beyond ASCII", {"env": [{"name": "é"}]}, [("env[0].name", INVALID)]),
    ("a variable may be given twice", {"env": [{"name": "A"}, {"name": "A"}]}, []),
    ("a value has a source", env(), [("env[0].valueFrom", INVALID)]),
    (
        "a value has one source",
        env(configMapKeyRef={"name": "a", "key": "b"}, secretKeyRef={"name": "a", "key": "b"}),
        [("env[0].valueFrom", INVALID)],
    ),
    (
        "a value or a source",
        {"env": [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]},
        [("env[0].valueFrom", INVALID)],
    ),
    (
        "a key of a config map",
        env(configMapKeyRef={}),
        [("env[0].valueFrom.configMapKeyRef.name", INVALID), ("env[0].valueFrom.configMapKeyRef.key", REQUIRED)],
    ),
    (
        "a key of a secret",
        env(secretKeyRef={"name": "a", "key": "a/b"}),
        [("env[0].valueFrom.secretKeyRef.key", INVALID)],
    ),
    (
        "a key is not a dot",
        env(secretKeyRef={"name": "a", "key": "."}),
        [("env[0].valueFrom.secretKeyRef.key", INVALID)],
    ),
    (
        "a key does not start with two dots",
        env(secretKeyRef={"name": "a", "key": "..a"}),
        [("env[0].valueFrom.secretKeyRef.key", INVALID)],
    ),
    ("a field of the pod", field("status.podIPs"), []),
    ("a field by its old name", field("spec.host"), []),
    ("a label of the pod", field("metadata.labels['example.com/app']"), []),
    ("an annotation in capitals", field("metadata.annotations['Example.com/App']"), []),
    (
        "a label has no domain in capitals",
        field("metadata.labels['Example.com/app']"),
        [("env[0].valueFrom.fieldRef", INVALID)],
    ),
    ("a label has a key", field("metadata.labels['']"), [("env[0].valueFrom.fieldRef", INVALID)] * 2),
    ("all labels are for files", field("metadata.labels"), [("env[0].valueFrom.fieldRef.fieldPath", NOT_SUPPORTED)]),
    (
        "the phase is known but not given",
        field("status.phase"),
        [("env[0].valueFrom.fieldRef.fieldPath", NOT_SUPPORTED)],
    ),
    ("an unknown field", field("spec.bogus"), [("env[0].valueFrom.fieldRef.fieldPath", INVALID)]),
    ("a key of a field that has none", field("spec.nodeName['a']"), [("env[0].valueFrom.fieldRef.fieldPath", INVALID)]),
    ("a field is named", field(""), [("env[0].valueFrom.fieldRef.fieldPath", REQUIRED)]),
    (
        "a field has a version",
        env(fieldRef={"fieldPath": "metadata.name"}),
        [("env[0].valueFrom.fieldRef.apiVersion", REQUIRED)],
    ),
    (
        "a field has the version v1",
        env(fieldRef={"apiVersion": "v2", "fieldPath": "metadata.name"}),
        [("env[0].valueFrom.fieldRef.fieldPath", INVALID)],
    ),
    ("a resource", resource("limits.cpu", "1m"), []),
    ("huge pages", resource("requests.hugepages-2Mi", "1Mi"), []),
    ("a resource is named", resource(""), [("env[0].valueFrom.resourceFieldRef.resource", REQUIRED)]),
    ("an unknown resource", resource("limits.gpu"), [("env[0].valueFrom.resourceFieldRef.resource", NOT_SUPPORTED)]),
    (
        "cpu is not divided by 1k",
        resource("limits.cpu", "1k"),
        [("env[0].valueFrom.resourceFieldRef.divisor", INVALID)],
    ),
    ("memory is divided by 1Ki", resource("limits.memory", "1Ki"), []),
    (
        "memory is not divided by 1m",
        resource("limits.memory", "1m"),
        [("env[0].valueFrom.resourceFieldRef.divisor", INVALID)],
    ),
    ("nor by 2", resource("requests.memory", "2"), [("env[0].valueFrom.resourceFieldRef.divisor", INVALID)]),
    (
        "storage is not divided by 3",
        resource("requests.ephemeral-storage", "3"),
        [("env[0].valueFrom.resourceFieldRef.divisor", INVALID)],
    ),
    (
        "a key in a file",
        env(fileKeyRef={}),
        under(
            "env[0].valueFrom.fileKeyRef",
            [("key", REQUIRED), ("volumeName", REQUIRED), ("path", REQUIRED), ("volumeName", NOT_FOUND)],
        ),
    ),
    (
        "a key in a file, misspelled",
        env(fileKeyRef={"key": "a=b", "volumeName": "A", "path": "../a"}),
        under(
            "env[0].valueFrom.fileKeyRef",
            [("key", INVALID), ("volumeName", INVALID), ("path", INVALID), ("volumeName", NOT_FOUND)],
        ),
    ),
    ("variables of a config map", {"envFrom": [{"prefix": "P_", "configMapRef": {"name": "a"}}]}, []),
    (
        "a prefix is spelled as a name",
        {"envFrom": [{"prefix": "=", "secretRef": {"name": "a"}}]},
        [("envFrom[0].prefix", INVALID)],
    ),
    ("variables come from somewhere", {"envFrom": [{}]}, [("envFrom", INVALID)]),
    (
        "variables come from one place",
        {"envFrom": [{"configMapRef": {"name": ""}, "secretRef": {"name": "A"}}]},
        [("envFrom[0].configMapRef.name", REQUIRED), ("envFrom[0].secretRef.name", INVALID), ("envFrom", INVALID)],
    ),
]


@pytest.mark.parametrize(("_what", "fields", "expected"), ENVIRONMENT, ids=names_of(ENVIRONMENT))
def test_a_variable_has_a_name_and_a_value(_what: str, fields: Fragment, expected: Expected) -> None:
    assert found(with_container(fields)) == under("spec.containers[0]", expected)


def test_a_variable_is_read_from_a_file_in_an_empty_dir() -> None:
    reference = {"key": "A", "volumeName": "v", "path": "a"}
    containers = {"containers": [CONTAINER | env(fileKeyRef=reference)]}
    place = "spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName"
    assert found(containers | {"volumes": [{"name": "v", "emptyDir": {}}]}) == []
    assert found(containers | {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}) == [(place, INVALID)]
