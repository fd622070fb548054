"""Patch and apply, as a client sees them."""

import asyncio
from typing import Any

import pytest

from kit.api_process import Api
from unit.apiserver.verbs.bodies import MAPS, MERGE, config_map

APPLY = "application/apply-patch+yaml"


async def test_patches_at_the_same_time_all_count(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    patches = [api.ask("PATCH", f"{MAPS}/a", {"data": {f"k{n}": "v"}}, kind=MERGE) for n in range(20)]
    assert {code for code, _ in await asyncio.gather(*patches)} == {200}
    _, found = await api.ask("GET", f"{MAPS}/a")
    assert len(found["data"]) == 20


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MERGE, {"metadata": {"name": "b"}}),
        ("application/strategic-merge-patch+json", {"metadata": {"name": "b"}}),
        ("application/json-patch+json", [{"op": "replace", "path": "/metadata/name", "value": "b"}]),
    ],
)
async def test_a_patch_may_not_rename_an_object(api: Api, kind: str, body: Any) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    code, refused = await api.ask("PATCH", f"{MAPS}/a", body, kind=kind)
    assert (code, refused["reason"]) == (400, "BadRequest")
    assert refused["message"] == "the name of the object (b) does not match the name on the URL (a)"


async def test_what_is_applied_for_the_first_time_is_nobody_yet(api: Api) -> None:
    body = config_map("a", metadata={"uid": "abc"})
    code, refused = await api.ask("PATCH", f"{MAPS}/a?fieldManager=me", body, kind=APPLY)
    assert (code, refused["reason"]) == (409, "Conflict")
    assert "uid mismatch" in refused["message"]
    assert (await api.ask("GET", f"{MAPS}/a"))[0] == 404


_TWICE = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: first\n  x: last\n"


@pytest.mark.parametrize(
    ("method", "path", "kind"), [("PATCH", f"{MAPS}/a", APPLY), ("POST", MAPS, "application/yaml")]
)
async def test_a_key_that_is_there_twice_is_told_and_the_last_counts(
    api: Api, method: str, path: str, kind: str
) -> None:
    headers = {"Content-Type": kind}
    async with api.session.request(
        method, f"{api.url}{path}?fieldManager=me&fieldValidation=Strict", data=_TWICE, headers=headers
    ) as answer:
        assert answer.status == 400
        assert "line 6: key" in (await answer.json())["message"]
    async with api.session.request(method, f"{api.url}{path}?fieldManager=me", data=_TWICE, headers=headers) as answer:
        assert answer.status == 201
        assert answer.headers["Warning"] == r'299 - "line 6: key \"x\" already set in map"'
        assert (await answer.json())["data"] == {"x": "last"}


async def test_a_patch_that_leaves_nonsense_is_refused(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    code, refused = await api.ask("PATCH", f"{MAPS}/a", {"data": "x"}, kind=MERGE)
    assert (code, refused["details"]["causes"][0]["field"]) == (422, "patch")


async def test_whoever_applies_owns_what_it_says(api: Api) -> None:
    first = {**config_map("a"), "data": {"x": "1"}}
    code, made = await api.ask("PATCH", f"{MAPS}/a?fieldManager=me", first, kind=APPLY)
    assert code == 201
    assert [each["manager"] for each in made["metadata"]["managedFields"]] == ["me"]
    code, refused = await api.ask(
        "PATCH", f"{MAPS}/a?fieldManager=you", {**config_map("a"), "data": {"x": "2"}}, kind=APPLY
    )
    assert (code, refused["details"]["causes"][0]["reason"]) == (409, "FieldManagerConflict")
    _, emptied = await api.ask("PATCH", f"{MAPS}/a?fieldManager=me", config_map("a"), kind=APPLY)
    assert "data" not in emptied
