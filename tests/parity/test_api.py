"""Conversations with an API server, replayed against what a real kube-apiserver answered."""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest

from kit.api_process import Api, serving_api
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Store
from pykubelet.apiserver.store.sqlite import SqliteStore

_RECORDED: Final = Path(__file__).parents[1] / "data" / "vectors" / "api.json"
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_SHOWN: Final = 10
_HEADERS: Final = {"Authorization": "Bearer somebody", "User-Agent": "transcript/v1"}
_STATUS: Final = ("kind", "status", "reason", "code")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_requests_are_answered_as_by_upstream(kind: str, tmp_path: Path) -> None:
    store: Store = MemoryStore() if kind == "memory" else await SqliteStore.open(tmp_path / "store.db")
    try:
        await _replay(store)
    finally:
        await store.close()


async def _replay(store: Store) -> None:
    files = [_RECORDED, *map(Path, filter(None, [os.environ.get("PYKUBELET_API_VECTORS")]))]
    scenarios = [each for file in files for each in json.loads(file.read_text(encoding="utf-8"))]
    total, differences = 0, []
    async with serving_api(store, needs_token=True) as api:
        for scenario in scenarios:
            saved: dict[str, str] = {}
            for number, step in enumerate(scenario["steps"]):
                total += 1
                try:
                    found = await _difference(api, step, saved)
                except Exception as error:  # a step that breaks us is one in which we differ
                    found = f"{type(error).__name__}: {error}"
                if found:
                    differences.append(f"{scenario['name']}, step {number}: {step['do']}\n{found}"[:2000])
    verdict = f"api: {total - len(differences)} of {total} agree"
    print(verdict)
    if differences:
        pytest.fail("\n".join([verdict, *differences[:_SHOWN]]), pytrace=False)


async def _difference(api: Api, step: dict[str, Any], saved: dict[str, str]) -> str:
    method, _, path = _filled(step["do"], saved).partition(" ")
    headers = {} if step.get("auth") is False else dict(_HEADERS)
    if "accept" in step:
        headers["Accept"] = step["accept"]
    data = None
    if "raw" in step:
        data = step["raw"].encode()
    elif "body" in step:
        data = _filled(json.dumps(step["body"]), saved).encode()
    if data is not None:
        headers["Content-Type"] = step.get("type", "application/json")
    async with api.session.request(method, api.url + path, data=data, headers=headers) as answer:
        text, code = await answer.text(), answer.status
    body = _parsed(text, is_watch=bool(step.get("watch")))
    for name, place in step.get("save", {}).items():
        saved[name] = str(_at(body, place))
    expected = step["expect"]
    if code != expected["code"]:
        return f"  ours     {code} {text[:600]}\n  recorded {expected['code']}"
    compare = step["compare"]
    if compare == "code":
        return ""
    ours, theirs = _seen(_normal(body), compare), _seen(_normal(expected["body"]), compare)
    return "" if ours == theirs else f"  ours     {ours}\n  recorded {theirs}"


def _filled(text: str, saved: dict[str, str]) -> str:
    for name, value in saved.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def _parsed(text: str, *, is_watch: bool) -> Any:
    if is_watch:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _at(value: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(value, list) and part.isdecimal():
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            return None
    return value


def _seen(body: Any, compare: Any) -> Any:
    if compare == "full":
        return body
    if compare == "status":
        causes = _at(body, "details.causes") or []
        pairs = sorted((str(each.get("reason")), str(each.get("field"))) for each in causes)
        parts = [_at(body, name) for name in (*_STATUS, "details.name", "details.kind")]
        return [*parts, pairs]
    return {path: _at(body, path) for path in compare}


def _normal(value: Any, key: str = "") -> Any:
    if key == "managedFields" and isinstance(value, list):
        if value and isinstance(value[0], list):
            return value
        owners = {(each["manager"], each["operation"], each.get("subresource", "")) for each in value}
        return [list(owner) for owner in sorted(owners)]
    if isinstance(value, dict):
        return {name: _normal(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [_normal(inner) for inner in value]
    if isinstance(value, str):
        if key == "resourceVersion" and value not in ("", "0"):
            return "<rv>"
        if key in ("continue", "token"):
            return "<token>"
        value = _UID.sub("<uid>", _TIME.sub("<time>", value))
        return re.sub(r"\bgen-[a-z0-9]{5}\b", "gen-<rand>", value)
    return value
