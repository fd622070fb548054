"""Ingresses and their classes."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

INGRESSES = strategy_of("networking.k8s.io", "ingresses")
CLASSES = strategy_of("networking.k8s.io", "ingressclasses")
SERVICE = {"service": {"name": "s", "port": {"number": 80}}}


def rule(**more: Any) -> dict[str, Any]:
    path = {"path": "/", "pathType": "Prefix", "backend": SERVICE, **more}
    return {"rules": [{"http": {"paths": [path]}}]}


PATH = "spec.rules[0].http.paths[0]"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (rule(), []),
        ({"defaultBackend": SERVICE}, []),
        ({"rules": [{"host": "*.example.com"}]}, []),
        ({}, ["spec"]),
        (rule(pathType=None), [f"{PATH}.pathType"]),
        (rule(pathType="Fuzzy"), [f"{PATH}.pathType"]),
        (rule(path="x"), [f"{PATH}.path"]),
        (rule(path="/a//b"), [f"{PATH}.path"]),
        (rule(path="/a/.."), [f"{PATH}.path"]),
        (rule(backend={}), [f"{PATH}.backend"]),
        (rule(backend={"service": {"name": "s"}}), [f"{PATH}.backend"]),
        (rule(backend={"service": {"name": "s", "port": {"number": 1, "name": "a"}}}), [f"{PATH}.backend"]),
        (rule(backend={"service": {"name": "s", "port": {"number": 99999}}}), [f"{PATH}.backend.service.port.number"]),
        (rule(backend={**SERVICE, "resource": {"kind": "a", "name": "b"}}), [f"{PATH}.backend"]),
        ({"rules": [{"host": "1.2.3.4"}]}, ["spec.rules[0].host"]),
        ({"rules": [{"host": "*a.b"}]}, ["spec.rules[0].host"]),
        ({"rules": [{"http": {"paths": []}}]}, ["spec.rules[0].http.paths"]),
        ({"defaultBackend": SERVICE, "tls": [{"hosts": ["A_"]}]}, ["spec.tls[0].hosts[0]"]),
        ({"defaultBackend": SERVICE, "ingressClassName": "A_"}, ["spec.ingressClassName"]),
    ],
)
def test_an_ingress_leads_somewhere(spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(INGRESSES, made(INGRESSES, spec=spec)) == expected


def test_a_class_is_named_once() -> None:
    annotations = {"kubernetes.io/ingress.class": "a"}
    spec = {"defaultBackend": SERVICE, "ingressClassName": "b"}
    both = made(INGRESSES, spec=spec, metadata={"annotations": annotations})
    assert faults(INGRESSES, both) == ["annotations.kubernetes.io/ingress.class"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"controller": "a.b/c"}, []),
        ({}, ["spec.controller"]),
        (
            {"controller": "a.b/c", "parameters": {"kind": "K", "name": "n", "apiGroup": "k8s.example.com/v1"}},
            ["spec.parameters.apiGroup"],
        ),
        ({"controller": "x"}, ["spec.controller"]),
        ({"controller": "a/" + "b" * 300}, ["spec.controller"]),
        (
            {"controller": "a/b", "parameters": {"kind": "K", "name": "n", "scope": "Namespace"}},
            ["spec.parameters.namespace"],
        ),
        (
            {"controller": "a/b", "parameters": {"kind": "K", "name": "n", "namespace": "x"}},
            ["spec.parameters.namespace"],
        ),
        ({"controller": "a/b", "parameters": {}}, ["spec.parameters.kind", "spec.parameters.name"]),
    ],
)
def test_a_class_has_a_controller(spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(CLASSES, made(CLASSES, spec=spec)) == expected


def test_a_class_keeps_its_controller() -> None:
    one, other = (made(CLASSES, spec={"controller": f"a/{name}"}) for name in "bc")
    assert faults(CLASSES, one, other) == ["spec.controller"]
