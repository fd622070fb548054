"""Objects of custom resources, as clients meet them."""

import asyncio
from typing import Any

import pytest

from kit.api_process import Api
from kit.custom_resources import CRDS, NAME, WIDGETS, define, definition, widget
from kit.loop_hold import watched_loop

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
WHOLE = {"type": "integer"}


def schema(rules: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    ruled = {"x-kubernetes-validations": [{"rule": each} for each in rules]} if rules else {}
    status = {"type": "object", "properties": {"ready": WHOLE}}
    spec = {"type": "object", "properties": properties, **ruled}
    return {"type": "object", "properties": {"spec": spec, "status": status}}


async def test_fields_nobody_knows_are_refused_told_or_dropped(api: Api) -> None:
    await define(api, definition(schema(size=WHOLE)))
    body = widget("a", spec={"size": 1, "sise": 2})

    code, refused = await api.ask("POST", f"{WIDGETS}?fieldValidation=Strict", body)
    assert (code, 'unknown field "spec.sise"' in refused["message"]) == (400, True)
    async with api.session.post(f"{api.url}{WIDGETS}?fieldValidation=Warn", json=body) as answer:
        assert "unknown field" in answer.headers["Warning"]
        assert (await answer.json())["spec"] == {"size": 1}
    code, made = await api.ask("POST", f"{WIDGETS}?fieldValidation=Ignore", {**body, "metadata": {"name": "b"}})
    assert (code, made["spec"]) == (201, {"size": 1})


async def test_faults_are_told_by_field(api: Api) -> None:
    await define(api, definition(schema(["self.least <= self.most"], least=WHOLE, most=WHOLE)))

    code, told = await api.ask("POST", WIDGETS, widget("a", spec={"least": "x", "most": 1.5}))
    assert code == 422
    assert [(each["reason"], each["field"]) for each in told["details"]["causes"]] == [
        ("FieldValueTypeInvalid", "spec.least"),
        ("FieldValueTypeInvalid", "spec.most"),
        ("FieldValueInvalid", "<nil>"),
    ]
    assert "some validation rules were not checked" in told["message"]
    code, told = await api.ask("POST", WIDGETS, widget("a", spec={"least": 3, "most": 2}))
    assert (code, told["details"]["causes"][0]["field"]) == (422, "spec")
    assert "failed rule: self.least <= self.most" in told["message"]


async def test_the_status_is_written_on_its_own(api: Api) -> None:
    await define(api, definition(schema(size=WHOLE), subresources={"status": {}}))
    _, made = await api.ask("POST", WIDGETS, widget("a", spec={"size": 1}, status={"ready": 1}))
    assert "status" not in made
    assert made["metadata"]["generation"] == 1

    change = {"spec": {"size": 2}, "status": {"ready": 2}}
    _, written = await api.ask("PATCH", f"{WIDGETS}/a/status", change, kind=MERGE)
    assert (written["spec"], written["status"], written["metadata"]["generation"]) == ({"size": 1}, {"ready": 2}, 1)
    _, written = await api.ask("PATCH", f"{WIDGETS}/a", change, kind=MERGE)
    assert (written["spec"], written["status"], written["metadata"]["generation"]) == ({"size": 2}, {"ready": 2}, 2)
    assert (await api.ask("PATCH", f"{WIDGETS}/a/status", {"status": {"ready": "x"}}, kind=MERGE))[0] == 422


async def test_without_a_status_of_its_own_it_counts_as_any_field(api: Api) -> None:
    await define(api, definition(schema(size=WHOLE)))
    _, made = await api.ask("POST", WIDGETS, widget("a", status={"ready": 1}))
    assert made["status"] == {"ready": 1}

    _, written = await api.ask("PATCH", f"{WIDGETS}/a", {"status": {"ready": 2}}, kind=MERGE)

    assert written["metadata"]["generation"] == 2
    assert (await api.ask("GET", f"{WIDGETS}/a/status"))[0] == 404


async def test_scale_reads_and_writes_where_the_definition_says(api: Api) -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"}
    await define(api, definition(schema(size=WHOLE), subresources={"status": {}, "scale": paths}))
    await api.ask("POST", WIDGETS, widget("a", spec={"size": 1}))

    code, scaled = await api.ask("PATCH", f"{WIDGETS}/a/scale", {"spec": {"replicas": 4}}, kind=MERGE)

    assert (code, scaled["kind"], scaled["spec"]) == (200, "Scale", {"replicas": 4})
    assert (await api.ask("GET", f"{WIDGETS}/a"))[1]["spec"] == {"size": 4}


async def test_columns_and_fields_to_select_by(api: Api) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Tag", "type": "string", "jsonPath": ".spec.tags[?(@.on==true)].name", "priority": 1},
    ]
    tags = {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    fields = [{"jsonPath": ".spec.size"}]
    await define(
        api, definition(schema(size=WHOLE, tags=tags), additionalPrinterColumns=columns, selectableFields=fields)
    )
    spec = {"size": 7, "tags": [{"name": "x", "on": False}, {"name": "y", "on": True}]}
    await api.ask("POST", WIDGETS, widget("a", spec=spec))
    await api.ask("POST", WIDGETS, widget("b", spec={"size": 8}))

    _, table = await api.ask("GET", WIDGETS, Accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Size", "Tag"]
    assert [each["cells"] for each in table["rows"]] == [["a", 7, "y"], ["b", 8, None]]
    _, listed = await api.ask("GET", f"{WIDGETS}?fieldSelector=spec.size=8")
    assert [each["metadata"]["name"] for each in listed["items"]] == ["b"]
    assert (await api.ask("GET", f"{WIDGETS}?fieldSelector=spec.tags=8"))[0] == 400


async def test_applied_lists_merge_by_their_keys(api: Api) -> None:
    item = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": WHOLE}}
    keyed = {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
    await define(api, definition(schema(parts=keyed)))
    one = widget("a", spec={"parts": [{"k": "x", "v": 1}]})
    other = widget("a", spec={"parts": [{"k": "y", "v": 2}]})

    await api.ask("PATCH", f"{WIDGETS}/a?fieldManager=one", one, kind=APPLY)
    code, merged = await api.ask("PATCH", f"{WIDGETS}/a?fieldManager=other", other, kind=APPLY)

    assert (code, merged["spec"]["parts"]) == (200, [{"k": "x", "v": 1}, {"k": "y", "v": 2}])
    code, _ = await api.ask("PATCH", f"{WIDGETS}/a", b"{}", kind="application/strategic-merge-patch+json")
    assert code == 415


async def test_versions_show_the_same_objects(api: Api) -> None:
    crd = definition(schema(size=WHOLE))
    second = {**crd["spec"]["versions"][0], "name": "v2", "storage": False}
    second["schema"] = {"openAPIV3Schema": schema(size=WHOLE, colour={"type": "string", "default": "red"})}
    crd["spec"]["versions"].append(second)
    await define(api, crd)
    newer = WIDGETS.replace("/v1/", "/v2/")

    await api.ask("POST", WIDGETS, widget("a", spec={"size": 1}))
    await api.ask("POST", newer, {**widget("b", spec={"size": 2}), "apiVersion": "example.com/v2"})

    _, found = await api.ask("GET", f"{newer}/a")
    assert (found["apiVersion"], found["spec"]) == ("example.com/v2", {"size": 1})
    _, found = await api.ask("GET", f"{WIDGETS}/b")
    assert (found["apiVersion"], found["spec"]) == ("example.com/v1", {"size": 2})
    _, found = await api.ask("GET", f"{newer}/b")
    assert found["spec"] == {"size": 2}  # what the stored version does not know is not stored
    _, group = await api.ask("GET", "/apis/example.com")
    assert [each["version"] for each in group["versions"]] == ["v2", "v1"]
    _, changed = await api.ask("GET", f"{CRDS}/{NAME}")
    changed["spec"]["versions"][0]["storage"], changed["spec"]["versions"][1]["storage"] = False, True
    _, changed = await api.ask("PUT", f"{CRDS}/{NAME}", changed)
    assert changed["status"]["storedVersions"] == ["v1", "v2"]
    del changed["spec"]["versions"][0]
    code, told = await api.ask("PUT", f"{CRDS}/{NAME}", changed)
    assert (code, "was previously a storage version" in told["message"]) == (422, True)


async def test_expensive_rules_keep_nobody_waiting(api: Api) -> None:
    rule = "self.sizes.all(x, self.sizes.all(y, x + y >= 0))"
    await define(api, definition(schema([rule], sizes={"type": "array", "items": WHOLE, "maxItems": 1000})))

    with watched_loop() as hold:
        code, told = await api.ask("POST", WIDGETS, widget("a", spec={"sizes": [1] * 1000}))

    assert (code, "running out of cost budget" in told["message"]) == (422, True)
    assert hold.step < 0.2, hold.where


@pytest.mark.parametrize("properties", [{}, {"spec": {"type": "object", "properties": {"known": {"type": "string"}}}}])
async def test_what_may_have_anything_in_it_is_applied_with_anything_in_it(
    api: Api, properties: dict[str, Any]
) -> None:
    open_ = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    parts = {name: {**each, "x-kubernetes-preserve-unknown-fields": True} for name, each in properties.items()}
    await define(api, definition({**open_, "properties": parts}))
    body = widget("w", spec={"known": "a", "other": {"deep": [1, {"x": "y"}]}}, extra={"a": 1})
    code, made = await api.ask("PATCH", f"{WIDGETS}/w?fieldManager=me", body, kind=APPLY)
    assert (code, made["spec"], made["extra"]) == (201, body["spec"], {"a": 1})
    code, made = await api.ask("PATCH", f"{WIDGETS}/w?fieldManager=me", widget("w", extra={"a": 2}), kind=APPLY)
    assert (code, made.get("spec"), made["extra"]) == (200, None, {"a": 2})


async def test_fields_to_select_by_may_change(api: Api) -> None:
    crd = await define(api, definition(schema(a=WHOLE, b=WHOLE), selectableFields=[{"jsonPath": ".spec.a"}]))
    await api.ask("POST", WIDGETS, widget("x", spec={"a": 1, "b": 2}))
    assert len((await api.ask("GET", f"{WIDGETS}?fieldSelector=spec.a=1"))[1]["items"]) == 1

    crd["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.b"}]
    assert (await api.ask("PUT", f"{CRDS}/{NAME}", crd))[0] == 200

    async with asyncio.timeout(5):
        while True:
            code, listed = await api.ask("GET", f"{WIDGETS}?fieldSelector=spec.b=2")
            if code == 200:
                break
            await asyncio.sleep(0.01)
    assert [each["metadata"]["name"] for each in listed["items"]] == ["x"]


async def test_an_update_names_the_version_that_it_replaces(api: Api) -> None:
    await define(api, definition())
    await api.ask("POST", WIDGETS, widget("a"))

    code, told = await api.ask("PUT", f"{WIDGETS}/a", widget("a", spec={"x": 1}))

    assert (code, "must be specified for an update" in told["message"]) == (422, True)


async def test_a_rule_for_each_of_many_items_keeps_nobody_waiting(api: Api) -> None:
    ruled = {"type": "array", "items": {**WHOLE, "x-kubernetes-validations": [{"rule": "self >= 0"}]}}
    await define(api, definition(schema(many=ruled)))

    with watched_loop() as hold:
        code, _ = await api.ask("POST", WIDGETS, widget("a", spec={"many": [1] * 15_000}))

    assert code == 201
    assert hold.step < 0.2, hold.where


async def test_a_custom_object_says_what_it_is_also_in_a_list(api: Api) -> None:
    await define(api, definition())
    code, told = await api.ask("POST", WIDGETS, {"metadata": {"name": "a"}})
    assert (code, "Object 'Kind' is missing" in told["message"]) == (400, True)

    await api.ask("POST", WIDGETS, widget("a"))

    _, listed = await api.ask("GET", WIDGETS)
    assert [(each["apiVersion"], each["kind"]) for each in listed["items"]] == [("example.com/v1", "Widget")]


async def test_faults_of_values_and_of_rules_are_told_together(api: Api) -> None:
    await define(api, definition(schema(["self.least <= self.most"], least=WHOLE, most={**WHOLE, "maximum": 9})))

    _, told = await api.ask("POST", WIDGETS, widget("a", spec={"least": 99, "most": 10}))

    assert [each["field"] for each in told["details"]["causes"]] == ["spec.most", "spec"]


async def test_what_scale_reads_has_to_be_a_number(api: Api) -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"}
    open_ = {"x-kubernetes-preserve-unknown-fields": True}
    await define(api, definition(schema(size=open_), subresources={"scale": paths}))

    for value in ("3", -1, 2**31):
        code, told = await api.ask("POST", WIDGETS, widget("a", spec={"size": value}))
        assert (code, told["details"]["causes"][0]["field"]) == (422, ".spec.size")
    assert (await api.ask("POST", WIDGETS, widget("a", spec={"size": 3})))[0] == 201


async def test_a_status_has_its_defaults_whatever_its_author_said(api: Api) -> None:
    whole = schema(size=WHOLE)
    whole["properties"]["status"]["default"] = {"ready": 0}
    await define(api, definition(whole, subresources={"status": {}}))

    _, made = await api.ask("POST", WIDGETS, widget("a", status={"ready": 7}))

    assert made["status"] == {"ready": 0}
    assert (await api.ask("GET", f"{WIDGETS}/a"))[1]["status"] == {"ready": 0}
