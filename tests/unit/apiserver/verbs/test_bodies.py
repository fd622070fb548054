import json

import pytest

from kit.api_process import Api
from pykubelet.apiserver.verbs.bodies import _map, _without_loss


@pytest.mark.parametrize(
    ("text", "is_sure"),
    [
        ('{"a": 1, "b": [true, null, "\\u00e9", 1.5]}', False),
        ('{"a": 1, "b": [true, null, "é", 1.5]}', True),
        ('{"a": 1, "a": 1}', False),
        ('{"x": {"a": 1, "a": {}}}', False),
        ('{"a": 1e2}', False),
        ('{"a": ', False),
    ],
)
def test_a_text_is_taken_quickly_only_if_nothing_is_there_twice(text: str, is_sure: bool) -> None:
    assert _without_loss(text.encode()) == json.loads(text) if is_sure else _without_loss(text.encode()) is None


@pytest.mark.timeout(10)
def test_names_that_are_there_twice_are_counted_in_one_go() -> None:
    duplicates: list[str] = []
    assert len(_map([(f"k{n // 2}", n) for n in range(400_000)], duplicates)) == 200_000
    assert duplicates == [f"k{n}" for n in range(100)]  # nobody is told of more
    assert _map([("a", 1), ("a", 2)], duplicates) == {"a": 2}
    assert len(duplicates) == 100


async def test_what_is_large_is_answered_like_what_is_small(api: Api) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    data = {f"k{n}": "v" * 100 for n in range(1000)}
    code, made = await api.ask("POST", path, {"metadata": {"name": "large"}, "data": data, "bogus": 1})
    assert (code, made["data"]) == (201, data)
    changed = {"data": {"k0": "w"}}
    code, patched = await api.ask("PATCH", f"{path}/large", changed, kind="application/merge-patch+json")
    assert (code, patched["data"]) == (200, {**data, "k0": "w"})
    assert (await api.ask("POST", path, {"metadata": {"name": "large"}, "data": data}))[0] == 409
    assert (await api.ask("PUT", f"{path}/large", {"metadata": {"name": "other"}, "data": data}))[0] == 400
    assert (await api.ask("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}, "data": data}))[
        0
    ] == 404
    assert (await api.ask("POST", path, {"metadata": {"name": "a"}, "x": data, "y": [data] * 3}))[0] == 201


async def test_clients_are_told_no_more_than_fits_in_a_head(api: Api) -> None:
    body = {"metadata": {"name": "a"}, **{f"bogus-{n:0200}": 1 for n in range(500)}}
    url = f"{api.url}/api/v1/namespaces/default/configmaps"
    async with api.session.post(url, data=json.dumps(body), headers={"Content-Type": "application/json"}) as answer:
        assert answer.status == 201
        warnings = answer.headers.getall("Warning")
    assert 10 < len(warnings) < 30
    assert sum(map(len, warnings)) < 6000
    code, told = await api.ask("POST", "/api/v1/namespaces/default/configmaps?fieldValidation=Strict", body)
    assert code == 400
    assert told["message"].count("unknown field") == 100


async def test_a_pod_of_more_containers_than_any_node_runs_is_refused(api: Api) -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [{}] * 1001}}
    code, told = await api.ask("POST", "/api/v1/namespaces/default/pods", pod)
    assert (code, "spec: has more than 1,000 containers" in told["message"]) == (400, True)


async def test_unknown_fields_are_named_in_their_order(api: Api) -> None:
    body = {"zeta": 1, "metadata": {"name": "m", "bb": 1, "aa": 2}, "alpha": 2}
    _, said = await api.ask("POST", "/api/v1/namespaces/default/configmaps?fieldValidation=Strict", body)
    named = [f'unknown field "{name}"' for name in ("zeta", "metadata.bb", "metadata.aa", "alpha")]
    assert said["message"].endswith(f"strict decoding error: {', '.join(named)}")
