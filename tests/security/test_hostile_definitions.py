"""Somebody who may define resources, or only make their objects, tries to keep everybody else waiting."""

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kit.api_fuzz import Ask
from kit.custom_resources import CRDS, definition
from kit.held_server import HeldServer, held_server
from kit.loop_hold import slowness
from kit.waiting import wait_for

_LONGEST_HOLD: Final = 0.3
_MOST_WORK: Final = 15.0
_TEXT: Final = {"type": "string"}
_SHORT: Final = {"type": "string", "maxLength": 3}
_WHOLE: Final = {"type": "integer"}
_LOOP: Final = "lists.range(990).all(x, lists.range(990).all(y, x + y >= 0))"


def _rule(rule: str, **more: Any) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"rule": rule, **more}]}


def _ruled(rule: str) -> dict[str, Any]:
    return {**_WHOLE, **_rule(rule)}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = _TEXT
    for _ in range(levels):
        found = _object(a=found)
    return found


ATTACKS: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    "pattern": ({**_TEXT, "pattern": "^(a+)+(a*)*$"}, "a" * 30_000 + "!"),
    "alternatives": (_list({**_WHOLE, "anyOf": [{"minimum": 5}] * 1_000}), [1] * 10_000),
    "enumeration": (_list({**_TEXT, "enum": [f"value-{n}" for n in range(20_000)]}), ["other"] * 4_000),
    "required": (_list({"type": "object", "required": [f"n{n}" for n in range(20_000)]}), [{} for _ in range(9_000)]),
    "wide": (_object(**{f"n{n}": _SHORT for n in range(10_000)}), {f"n{n}": "x" for n in range(2_000)}),
    "deep": (_deep(50), {}),
    "default": (_list(_object(a={**_TEXT, "default": "x" * 50_000})), [{} for _ in range(9_000)]),
    "rule": (_ruled(f"{_LOOP} && {_LOOP}"), 1),
    "rules": ({**_WHOLE, "x-kubernetes-validations": [{"rule": _LOOP}] * 300}, 1),
    "rule for each": (_list(_ruled("self > 5 && self < 4")), [1] * 14_000),
    "growing text": ({**_TEXT, **_rule("[self]" + ".map(s, s + s)" * 40 + ".size() == 2")}, "x"),
    "rule within bounds": (_ruled("[1].map(s, s + s).size() == 2 && [self].all(x, x > 2 || [self].all(y, y > x))"), 1),
    "message": ({**_TEXT, **_rule("false", messageExpression="self" + ".replace('x', self)" * 9)}, "x" * 3_000),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldServer]:
    with held_server(tmp_path_factory.mktemp("pki")) as held:
        _define(held, "warm", _ruled("self >= 0"))  # what is loaded once is loaded
        yield held


_TOO_DEAR: Final = ("rule", "rules", "growing text")
"""What is refused for what it might cost, before any object is there."""


def _define(server: HeldServer, name: str, schema: dict[str, Any]) -> str:
    """-> where its objects are; empty: it is refused"""
    crd = definition({"type": "object", "properties": {"spec": _object(value=schema)}})
    plural = "".join(each for each in name if each.isalpha()) + "s"
    crd["metadata"]["name"] = f"{plural}.example.com"
    crd["spec"]["names"] = {"plural": plural, "kind": plural.capitalize()}
    code, told = server.ask(Ask("POST", CRDS, json.dumps(crd).encode()))
    if name in _TOO_DEAR:
        assert (code, b"exceeds budget" in told) == (422, True), told
        return ""
    assert code == 201, told
    path = f"/apis/example.com/v1/namespaces/default/{plural}"
    wait_for(lambda: server.ask(Ask("GET", path))[0] == 200, seconds=20)
    return path


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ATTACKS)
def test_no_definition_and_no_object_holds_the_loop(server: HeldServer, name: str) -> None:
    schema, value = ATTACKS[name]
    server.hold.forget()
    path = _define(server, name, schema)
    slow = slowness()
    assert server.hold.step < _LONGEST_HOLD * slow, (server.hold.step, server.hold.where)
    if not path:
        return

    kind = path.rpartition("/")[2].capitalize()
    obj = {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {"value": value}}
    for _ in range(2):  # the first one has the schema read
        cost = server.cost(Ask("POST", path, json.dumps(obj).encode()))
        assert cost.code in (201, 409, 413, 422), cost
        assert cost.step < _LONGEST_HOLD * slow, cost
        assert cost.cpu < _MOST_WORK * slow, cost
