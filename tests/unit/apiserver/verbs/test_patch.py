"""Patch and apply, as a client sees them."""

import asyncio

from kit.api_process import Api
from unit.apiserver.verbs.bodies import MAPS, MERGE, config_map

APPLY = "application/apply-patch+yaml"


async def test_patches_at_the_same_time_all_count(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    patches = [api.ask("PATCH", f"{MAPS}/a", {"data": {f"k{n}": "v"}}, kind=MERGE) for n in range(20)]
    assert {code for code, _ in await asyncio.gather(*patches)} == {200}
    _, found = await api.ask("GET", f"{MAPS}/a")
    assert len(found["data"]) == 20


async def test_a_patch_may_not_rename_an_object(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    code, refused = await api.ask("PATCH", f"{MAPS}/a", {"metadata": {"name": "b"}}, kind=MERGE)
    assert code == 422
    assert {each["field"] for each in refused["details"]["causes"]} == {"metadata.name"}


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
