"""Custom resources: what an object costs beside a config map, and what a thousand definitions cost at a start."""

import json
import statistics
from collections.abc import Sequence
from typing import Any, Final

from bench.api import Answered, Row, ask_all, served, show
from kit.apiserver_process import ApiServerProcess, request
from kit.waiting import wait_for

CREATES: Final = 3_000
ROUNDS: Final = 3
DEFINITIONS: Final = 1_000
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FLAGS: Final = "--controllers=-kube-scheduler"


def run() -> None:
    print("crd: custom resources in the embedded API server, with TLS and SQLite")
    print(f"\n{'step':<56} {'ours':>8} {'':<10} {'goal':>6} {'ratio':>6}")
    with served(_FLAGS) as server:
        show(_objects(server))
    with served(_FLAGS) as server:
        show(_definitions(server))
    print()


def _definition(number: int) -> dict[str, Any]:
    """Of the size and kind that operators bring along: some twenty fields with words about each."""
    text = {"type": "string", "description": "What it is, in a sentence or two as people write them." * 3}
    condition = {
        "type": "object",
        "required": ["type"],
        "properties": dict.fromkeys(("type", "status", "reason"), text),
    }
    keyed = {
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    spec = {
        "type": "object",
        "required": ["image"],
        "x-kubernetes-validations": [{"rule": "self.least <= self.most"}],
        "properties": {
            "image": {**text, "pattern": "^[a-z0-9/.:-]+$"},
            "replicas": {"type": "integer", "minimum": 0, "default": 1},
            "least": {"type": "integer", "default": 1},
            "most": {"type": "integer", "default": 5},
            "labels": {"type": "object", "additionalProperties": text},
            **{f"field{each}": text for each in range(12)},
        },
    }
    status = {"type": "object", "properties": {"conditions": keyed}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": f"widgets{number}", "kind": f"Widget{number}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets{number}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }


def _define(server: ApiServerProcess, numbers: Sequence[int]) -> None:
    ask_all(server, [request(b"POST", _CRDS, json.dumps(_definition(each)).encode()) for each in numbers], 1)
    last = f"/apis/example.com/v1/namespaces/default/widgets{numbers[-1]}"
    wait_for(lambda: _is_served(server, last), seconds=60)


def _is_served(server: ApiServerProcess, path: str) -> bool:
    with server.connected() as connection:
        connection.sendall(request(b"GET", path))
        return b" 200 " in connection.recv(200)


def _objects(server: ApiServerProcess) -> list[Row]:
    _define(server, [0])
    ours, theirs = [], []
    for turn in range(ROUNDS):  # one after the other, so that a noisy moment is everybody's
        theirs.append(_created(server, f"m{turn}", _config_map, "/api/v1/namespaces/default/configmaps"))
        ours.append(_created(server, f"w{turn}", _widget, "/apis/example.com/v1/namespaces/default/widgets0"))
    cost, other = (statistics.median(each.cpu / CREATES for each in found) * 1e6 for found in (ours, theirs))
    return [
        Row("config map creates, CPU of the server for each", other, "us"),
        Row("creates of custom objects", statistics.median(each.rate for each in ours), "/s"),
        Row("  CPU of the server for each", cost, "us", 1.5 * other),
    ]


def _created(server: ApiServerProcess, prefix: str, make: Any, path: str) -> Answered:
    bodies = [json.dumps(make(f"{prefix}-{number}")).encode() for number in range(CREATES)]
    return ask_all(server, [request(b"POST", path, body) for body in bodies])


def _config_map(name: str) -> dict[str, Any]:
    data = {"image": "registry.example/web:1.27", "replicas": "3", "app": "web", "tier": "front"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _widget(name: str) -> dict[str, Any]:
    spec = {"image": "registry.example/web:1.27", "replicas": 3, "labels": {"app": "web", "tier": "front"}}
    return {"apiVersion": "example.com/v1", "kind": "Widget0", "metadata": {"name": name}, "spec": spec}


def _definitions(server: ApiServerProcess) -> list[Row]:
    _define(server, range(DEFINITIONS))
    times = []
    for _ in range(3):
        server.stop()
        times.append(server.start())
        assert _is_served(server, f"/apis/example.com/v1/namespaces/default/widgets{DEFINITIONS - 1}")
    return [
        Row(f"start until /readyz with {DEFINITIONS:,} definitions", statistics.median(times), "s", 3),
        Row("  memory of the server", server.rss(), "MiB", 200),
    ]
