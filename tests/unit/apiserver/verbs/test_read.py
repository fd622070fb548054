"""Get and list, as a client sees them."""

import pytest

from kit.api_process import Api
from unit.apiserver.verbs.bodies import MAPS, config_map


async def test_pages_are_of_one_moment(api: Api) -> None:
    for name in "abcde":
        await api.ask("POST", MAPS, config_map(name))
    _, first = await api.ask("GET", f"{MAPS}?limit=2")
    assert [each["metadata"]["name"] for each in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3
    await api.ask("DELETE", f"{MAPS}/d")
    _, rest = await api.ask("GET", f"{MAPS}?limit=9&continue={first['metadata']['continue']}")
    assert [each["metadata"]["name"] for each in rest["items"]] == ["c", "d", "e"]
    assert "continue" not in rest["metadata"]


async def test_pages_are_full_of_what_was_selected(api: Api) -> None:
    for name, label in zip("abcdef", "xyxyxy", strict=True):
        await api.ask("POST", MAPS, config_map(name, metadata={"labels": {"l": label}}))
    _, first = await api.ask("GET", f"{MAPS}?limit=2&labelSelector=l%3Dy")
    _, rest = await api.ask("GET", f"{MAPS}?limit=2&labelSelector=l%3Dy&continue={first['metadata']['continue']}")
    assert [each["metadata"]["name"] for each in (*first["items"], *rest["items"])] == ["b", "d", "f"]
    assert "remainingItemCount" not in first["metadata"]


async def test_a_list_of_the_past_is_what_was_there_then(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    _, now = await api.ask("GET", MAPS)
    await api.ask("POST", MAPS, config_map("b"))
    version = now["metadata"]["resourceVersion"]
    _, then = await api.ask("GET", f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert [each["metadata"]["name"] for each in then["items"]] == ["a"]
    _, newer = await api.ask("GET", f"{MAPS}?resourceVersion={version}&resourceVersionMatch=NotOlderThan")
    assert [each["metadata"]["name"] for each in newer["items"]] == ["a", "b"]


@pytest.mark.parametrize(
    "query", ["labelSelector=-a", "labelSelector=a%3D%3D%3Db", "fieldSelector=x%3D1", "continue=x"]
)
async def test_selectors_that_make_no_sense_are_refused(api: Api, query: str) -> None:
    assert (await api.ask("GET", f"{MAPS}?{query}"))[0] == 400


async def test_lists_come_as_metadata_alone_if_that_is_wanted(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a", data={"x": "y"}))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    _, found = await api.ask("GET", MAPS, Accept=accept)
    assert found["kind"] == "PartialObjectMetadataList"
    assert set(found["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_an_answer_can_be_had_as_yaml(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    _, text = await api.ask("GET", f"{MAPS}/a", Accept="application/yaml")
    assert "kind: ConfigMap" in text


async def test_a_version_of_the_future_is_waited_for_and_then_told(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.apiserver.store.watch_cache._PATIENCE", 0.1)
    await api.ask("POST", MAPS, config_map("a"))
    for path in (f"{MAPS}/a", MAPS):
        code, refused = await api.ask("GET", f"{path}?resourceVersion=999999999")
        assert (code, refused["reason"]) == (504, "Timeout")
        assert refused["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_an_object_has_no_head_alone(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    for path, code in ((f"{MAPS}/a", 405), (MAPS, 405), ("/version", 200)):
        async with api.session.head(f"{api.url}{path}") as answer:
            assert answer.status == code


@pytest.mark.parametrize("path", [MAPS, f"{MAPS}/a", f"{MAPS}/none", f"{MAPS}?pretty=1", "/api", "/apis", "/version"])
async def test_an_answer_is_a_line_of_text(api: Api, path: str) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    async with api.session.get(f"{api.url}{path}") as answer:
        assert (await answer.read()).endswith(b"}\n")


@pytest.mark.parametrize(
    ("agent", "query", "lines"),
    [
        ("curl/8", "", 2),
        ("Mozilla/5.0 (X11)", "", 2),
        ("kubectl/v1", "", 1),
        ("curl/8", "pretty=0", 1),
        ("x", "pretty=1", 2),
    ],
)
async def test_people_get_it_indented(api: Api, agent: str, query: str, lines: int) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    for path in (f"{MAPS}/a", MAPS, f"{MAPS}/none"):
        async with api.session.get(f"{api.url}{path}?{query}", headers={"User-Agent": agent}) as answer:
            assert min(2, (await answer.text()).count("\n")) == lines
