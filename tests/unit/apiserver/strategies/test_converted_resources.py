"""Versions that a webhook converts: in every way to read and to write, and when it does not answer as it should."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from kit.api_process import Api
from kit.custom_resources import CRDS, NAME, WIDGETS, define, definition, widget
from kit.webhook_server import WebhookServer, webhook_server

NEWER = WIDGETS.replace("/v1/", "/v2/")
MERGE = "application/merge-patch+json"
V1 = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"host": {"type": "string"}}}}}
PARTS = {"name": {"type": "string"}, "port": {"type": "string"}}
V2 = {"type": "object", "properties": {"spec": {"type": "object", "properties": PARTS}}}


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncGenerator[WebhookServer, None]:
    async with webhook_server(tmp_path) as running:
        yield running


def convert(request: dict[str, Any]) -> list[dict[str, Any]]:
    """v1 has `host: name:port`, v2 has both apart."""
    made = []
    for obj in request["objects"]:
        spec = obj.get("spec", {})
        if request["desiredAPIVersion"].endswith("v2"):
            name, _, port = spec.get("host", "").partition(":")
            spec = {"name": name, "port": port}
        else:
            spec = {"host": f"{spec.get('name', '')}:{spec.get('port', '')}"}
        made.append({**obj, "apiVersion": request["desiredAPIVersion"], "spec": spec})
    return made


def answer(request: dict[str, Any], objects: Any = None, **more: Any) -> bytes:
    response = {
        "uid": request["uid"],
        "result": {"status": "Success"},
        "convertedObjects": convert(request) if objects is None else objects,
        **more,
    }
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}
    return json.dumps(review).encode()


async def defined(api: Api, hooks: WebhookServer, how: Any = answer) -> None:
    hooks.answers["/convert"] = how
    crd = definition(V1)
    second = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": V2}}
    crd["spec"]["versions"].append(second)
    client = {"url": f"https://127.0.0.1:{hooks.port}/convert", "caBundle": hooks.bundle}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    await define(api, crd)


async def test_both_versions_read_and_write_the_same_objects(api: Api, hooks: WebhookServer) -> None:
    await defined(api, hooks)
    await api.ask("POST", WIDGETS, widget("a", spec={"host": "x:1"}))
    made = {**widget("b", spec={"name": "y", "port": "2"}), "apiVersion": "example.com/v2"}
    code, created = await api.ask("POST", NEWER, made)
    assert (code, created["spec"]) == (201, {"name": "y", "port": "2"})

    assert (await api.ask("GET", f"{NEWER}/a"))[1]["spec"] == {"name": "x", "port": "1"}
    assert (await api.ask("GET", f"{WIDGETS}/b"))[1]["spec"] == {"host": "y:2"}
    _, listed = await api.ask("GET", NEWER)
    assert [each["spec"]["name"] for each in listed["items"]] == ["x", "y"]
    _, changed = await api.ask("PATCH", f"{NEWER}/a", {"spec": {"port": "9"}}, kind=MERGE)
    assert changed["spec"] == {"name": "x", "port": "9"}
    assert (await api.ask("GET", f"{WIDGETS}/a"))[1]["spec"] == {"host": "x:9"}
    await api.ask("DELETE", f"{NEWER}/a")
    assert (await api.ask("GET", f"{WIDGETS}/a"))[0] == 404


async def test_a_watch_is_told_in_its_own_version(api: Api, hooks: WebhookServer) -> None:
    await defined(api, hooks)
    await api.ask("POST", WIDGETS, widget("a", spec={"host": "x:1"}))

    async with asyncio.timeout(10), api.session.get(f"{api.url}{NEWER}?watch=1&resourceVersion=0") as answered:
        first = json.loads(await answered.content.readline())
        await api.ask("PATCH", f"{WIDGETS}/a", {"spec": {"host": "x:2"}}, kind=MERGE)
        second = json.loads(await answered.content.readline())
        await api.ask("DELETE", f"{WIDGETS}/a")
        third = json.loads(await answered.content.readline())

    told = [
        (each["type"], each["object"]["apiVersion"], each["object"]["spec"]["port"]) for each in (first, second, third)
    ]
    assert told == [
        ("ADDED", "example.com/v2", "1"),
        ("MODIFIED", "example.com/v2", "2"),
        ("DELETED", "example.com/v2", "2"),
    ]


async def test_what_was_converted_once_is_not_asked_for_again(api: Api, hooks: WebhookServer) -> None:
    await defined(api, hooks)
    for number in range(5):
        await api.ask("POST", WIDGETS, widget(f"w{number}", spec={"host": "x:1"}))

    await api.ask("GET", NEWER)
    await api.ask("GET", NEWER)
    await api.ask("GET", f"{NEWER}/w3")

    assert [len(request["objects"]) for request in hooks.seen("convert")] == [5]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda request: b"{", "its answer cannot be read"),
        (lambda request: answer(request, uid="another"), "expected response.uid="),
        (lambda request: answer(request, result={"status": "Failure", "message": "not today"}), "not today"),
        (lambda request: answer(request, []), "returned 0 objects, expected 1"),
        (lambda request: answer(request, request["objects"]), "invalid groupVersion"),
        (lambda request: answer(request, [{**convert(request)[0], "kind": "Other"}]), "invalid kind"),
        (
            lambda request: answer(request, [{**convert(request)[0], "metadata": {"name": "b"}}]),
            "must have the same name",
        ),
        (lambda request: answer(request, [{**convert(request)[0], "metadata": None}]), "missing metadata"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_told_to_who_asked(
    api: Api, hooks: WebhookServer, how: Any, said: str
) -> None:
    await defined(api, hooks, how)
    await api.ask("POST", WIDGETS, widget("a", spec={"host": "x:1"}))

    code, told = await api.ask("GET", f"{NEWER}/a")

    assert code == 500
    assert "conversion webhook for example.com/v2, Kind=Widget failed: " in told["message"]
    assert said in told["message"]
    assert (await api.ask("GET", f"{WIDGETS}/a"))[0] == 200  # what needs no conversion is served


async def test_only_labels_and_annotations_of_the_metadata_are_taken(api: Api, hooks: WebhookServer) -> None:
    def greedy(request: dict[str, Any]) -> bytes:
        (made,) = convert(request)
        metadata = {**made["metadata"], "labels": {"a": "b"}, "finalizers": ["stay"], "ownerReferences": [{}]}
        return answer(request, [{**made, "metadata": metadata}])

    await defined(api, hooks, greedy)
    await api.ask("POST", WIDGETS, widget("a", spec={"host": "x:1"}))

    _, found = await api.ask("GET", f"{NEWER}/a")

    assert found["metadata"]["labels"] == {"a": "b"}
    assert not {"finalizers", "ownerReferences"} & found["metadata"].keys()


async def test_a_webhook_that_is_not_there_is_named(api: Api, hooks: WebhookServer) -> None:
    await defined(api, hooks)
    await api.ask("POST", WIDGETS, widget("a", spec={"host": "x:1"}))
    _, crd = await api.ask("GET", f"{CRDS}/{NAME}")
    service = {"name": "none", "namespace": "default", "port": 443}
    crd["spec"]["conversion"]["webhook"]["clientConfig"] = {"service": service}
    assert (await api.ask("PUT", f"{CRDS}/{NAME}", crd))[0] == 200

    async with asyncio.timeout(5):
        while True:
            code, told = await api.ask("GET", f"{NEWER}/a")
            if code == 500:
                break
            await asyncio.sleep(0.01)

    assert 'service "none" not found' in told["message"]
