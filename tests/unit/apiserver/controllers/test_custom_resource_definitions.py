"""Definitions come into force, keep their names to themselves, and take their objects along when they go."""

import asyncio
from typing import Any

from kit.api_process import Api, serving_api
from kit.custom_resources import CRDS, NAME, WIDGETS, define, definition, has_condition, is_gone, widget
from pykubelet.apiserver.store.memory import MemoryStore

MERGE = "application/merge-patch+json"


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def named(plural: str, kind: str, *short: str) -> dict[str, Any]:
    crd = definition()
    names = {"plural": plural, "kind": kind, "shortNames": list(short)}
    return {**crd, "metadata": {"name": f"{plural}.example.com"}, "spec": {**crd["spec"], "names": names}}


async def test_a_definition_is_served_and_says_so(api: Api) -> None:
    found = await define(api, definition())

    assert found["status"]["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
    }
    assert found["status"]["storedVersions"] == ["v1"]
    assert found["metadata"]["generation"] == 1
    assert (await api.ask("POST", WIDGETS, widget("a", spec={"x": {"y": 1}})))[0] == 201
    code, listed = await api.ask("GET", WIDGETS)
    assert (code, listed["kind"], [each["spec"] for each in listed["items"]]) == (200, "WidgetList", [{"x": {"y": 1}}])
    _, resources = await api.ask("GET", "/apis/example.com/v1")
    assert [(each["name"], each["shortNames"]) for each in resources["resources"]] == [("widgets", ["wd"])]
    _, groups = await api.ask("GET", "/apis")
    assert "example.com" in [each["name"] for each in groups["groups"]]


async def test_names_that_another_has_are_refused_until_they_are_free(api: Api) -> None:
    await define(api, definition())
    await api.ask("POST", CRDS, named("gadgets", "Gadget", "wd"))

    refused = await has_condition(api, "gadgets.example.com", "NamesAccepted", "False")

    conditions = {each["type"]: each for each in refused["status"]["conditions"]}
    assert conditions["NamesAccepted"]["reason"] == "ShortNamesConflict"
    assert conditions["Established"]["status"] == "False"
    assert (await api.ask("GET", "/apis/example.com/v1/namespaces/default/gadgets"))[0] == 404
    await api.ask("DELETE", f"{CRDS}/{NAME}")
    await has_condition(api, "gadgets.example.com", "Established", "True")
    assert (await api.ask("GET", "/apis/example.com/v1/namespaces/default/gadgets"))[0] == 200


async def test_a_definition_takes_its_objects_along(api: Api) -> None:
    await define(api, definition())
    await api.ask("POST", WIDGETS, widget("a"))
    held = {**widget("held"), "metadata": {"name": "held", "finalizers": ["hold"]}}
    assert (await api.ask("POST", WIDGETS, held))[0] == 201

    await api.ask("DELETE", f"{CRDS}/{NAME}")

    await has_condition(api, NAME, "Terminating", "True")
    await is_gone(api, f"{WIDGETS}/a")
    code, _ = await api.ask("POST", WIDGETS, widget("late"))
    assert code == 405
    await api.ask("PATCH", f"{WIDGETS}/held", {"metadata": {"finalizers": None}}, kind=MERGE)
    await is_gone(api, f"{CRDS}/{NAME}")
    await is_gone(api, "/apis/example.com/v1")


async def test_definitions_are_served_from_the_start_after_a_restart() -> None:
    store = MemoryStore()
    async with serving_api(store) as api:
        await define(api, definition(schema(size={"type": "integer", "default": 3})))
        await api.ask("POST", WIDGETS, widget("a", spec={}))

    async with serving_api(store) as api:
        code, found = await api.ask("GET", f"{WIDGETS}/a")

    assert (code, found["spec"]) == (200, {"size": 3})


async def test_a_changed_schema_holds_at_once_and_what_is_stored_is_seen_through_it(api: Api) -> None:
    crd = await define(api, definition(schema(size={"type": "integer"}, old={"type": "string"})))
    await api.ask("POST", WIDGETS, widget("a", spec={"size": 1, "old": "x"}))
    whole = schema(size={"type": "integer"}, colour={"type": "string", "default": "red"})
    crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": whole}
    code, _ = await api.ask("PUT", f"{CRDS}/{NAME}", crd)
    assert code == 200

    async with asyncio.timeout(5):
        while True:
            _, found = await api.ask("GET", f"{WIDGETS}/a")
            if found["spec"] == {"size": 1, "colour": "red"}:
                break
            await asyncio.sleep(0.01)

    _, listed = await api.ask("GET", WIDGETS)
    assert listed["items"][0]["spec"] == {"size": 1, "colour": "red"}


async def test_a_status_that_changes_does_not_end_a_watch(api: Api) -> None:
    await define(api, definition())
    async with api.session.get(f"{api.url}{WIDGETS}?watch=1&timeoutSeconds=20") as answer:
        await api.ask("PATCH", f"{CRDS}/{NAME}/status", b'{"status": {"conditions": []}}', kind=MERGE)
        await has_condition(api, NAME, "Established", "True")
        await api.ask("POST", WIDGETS, widget("a"))
        async with asyncio.timeout(5):
            line = await answer.content.readline()

    assert b'"ADDED"' in line


async def test_another_server_on_the_same_store_serves_it_too() -> None:
    store = MemoryStore()
    async with serving_api(store) as one, serving_api(store) as other:
        await define(one, definition())
        async with asyncio.timeout(5):
            while True:
                if (await other.ask("POST", WIDGETS, widget("a")))[0] == 201:
                    break
                await asyncio.sleep(0.01)

        assert (await one.ask("GET", f"{WIDGETS}/a"))[0] == 200
        await other.ask("DELETE", f"{CRDS}/{NAME}")
        await is_gone(one, f"{CRDS}/{NAME}")
        await is_gone(one, "/apis/example.com/v1")
        await is_gone(other, "/apis/example.com/v1")


async def test_clients_of_either_openapi_see_the_words_of_the_author(api: Api) -> None:
    whole = schema(size={"type": "integer", "description": "How large it is."})
    await define(api, definition(whole))

    _, second = await api.ask("GET", "/openapi/v2")
    _, third = await api.ask("GET", "/openapi/v3/apis/example.com/v1")

    for types in (second["definitions"], third["components"]["schemas"]):
        found = types["com.example.v1.Widget"]
        assert found["properties"]["spec"]["properties"]["size"]["description"] == "How large it is."
        assert found["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]


async def test_clients_of_before_do_not_refuse_what_may_have_any_fields(api: Api) -> None:
    given = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"spec": {"type": "object"}}}
    await define(api, definition(given))
    _, found = await api.ask("GET", "/openapi/v2")
    (shown,) = [each for name, each in found["definitions"].items() if name.endswith(".Widget")]
    assert "properties" not in shown
    assert shown["x-kubernetes-group-version-kind"] == [{"group": "example.com", "version": "v1", "kind": "Widget"}]
