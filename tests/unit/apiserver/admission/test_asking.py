"""Who has a word in what is written has one in what is done to it: evictions, bindings, scales, tokens, connections."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import pytest

from kit.tls_world import PODS, World
from kit.webhook_server import WebhookServer, patch, webhook_server

ROOT: Final = "/apis/admissionregistration.k8s.io/v1"
ACCOUNT: Final = "/api/v1/namespaces/default/serviceaccounts/default"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World, None]:
    async with World(tmp_path).running() as running:
        yield running


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncGenerator[WebhookServer, None]:
    async with webhook_server(tmp_path) as running:
        yield running


async def asked_about(world: World, hooks: WebhookServer, resource: str, answer: Any, kind: str = "Validating") -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource]}
    hook = hooks.hook("v", answer, rules=[rule])
    body = {"metadata": {"name": "v"}, "webhooks": [hook]}
    code, made = await world.ask("POST", f"{ROOT}/{kind.lower()}webhookconfigurations", body=body)
    assert code == 201, made
    await world.server.backend.cache.list_newest("/registry/")


def refuses(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": False, "status": {"code": 403, "message": "no"}}


def deployment() -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"metadata": {"name": "d"}, "spec": spec}


EVICTION: Final = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "x"}}
BINDING: Final = {"metadata": {"name": "waiting"}, "target": {"kind": "Node", "name": "n1"}}
TOKEN: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
SCALE: Final = {"metadata": {"name": "d"}, "spec": {"replicas": 5}}


@pytest.mark.parametrize(
    ("resource", "method", "path", "body", "told"),
    [
        ("pods/eviction", "POST", f"{PODS}/x/eviction", EVICTION, ("CREATE", "Eviction", "x")),
        ("pods/binding", "POST", f"{PODS}/waiting/binding", BINDING, ("CREATE", "Binding", "waiting")),
        ("serviceaccounts/token", "POST", f"{ACCOUNT}/token", TOKEN, ("CREATE", "TokenRequest", "default")),
        ("deployments/scale", "PUT", f"{DEPLOYMENTS}/d/scale", SCALE, ("UPDATE", "Scale", "d")),
        ("pods/proxy", "GET", f"{PODS}/x/proxy/path", None, ("CONNECT", "PodProxyOptions", "x")),
        ("pods/exec", "POST", f"{PODS}/x/exec?command=a&command=b&stdout=1", None, ("CONNECT", "PodExecOptions", "x")),
        ("nodes/proxy", "GET", "/api/v1/nodes/n1/proxy/pods", None, ("CONNECT", "NodeProxyOptions", "n1")),
    ],
)
async def test_what_is_done_to_an_object_can_be_refused(
    world: World, hooks: WebhookServer, resource: str, method: str, path: str, body: Any, told: tuple[str, str, str]
) -> None:
    assert (await world.ask("POST", DEPLOYMENTS, body=deployment()))[0] == 201
    await asked_about(world, hooks, resource, refuses)
    code, answer = await world.ask(method, path, body=body)
    assert (code, answer["message"]) == (403, 'admission webhook "v.example.com" denied the request: no'), answer
    (request,) = hooks.seen("v")
    assert (request["operation"], request["kind"]["kind"], request["name"]) == told
    assert request["subResource"] == resource.partition("/")[2]
    assert request["object"]["kind"] == told[1]
    assert world.asked == []


async def test_the_options_of_a_connection_are_told(world: World, hooks: WebhookServer) -> None:
    await asked_about(world, hooks, "pods/*", refuses)
    await world.ask("POST", f"{PODS}/x/exec?command=a&command=b&stdin=true&container=main")
    assert (await world.ask("GET", f"{PODS}/x/log?container=main"))[0] == 200
    (request,) = hooks.seen("v")
    given = {name: request["object"][name] for name in ("command", "stdin", "container")}
    assert given == {"command": ["a", "b"], "stdin": True, "container": "main"}


async def test_an_eviction_is_not_asked_about_once_more_as_a_deletion(world: World, hooks: WebhookServer) -> None:
    await asked_about(world, hooks, "*/*", lambda _: {"allowed": True})
    code, answer = await world.ask("POST", f"{PODS}/x/eviction", body=EVICTION)
    assert code == 201, answer
    assert [(each["operation"], each.get("subResource")) for each in hooks.seen("v")] == [("CREATE", "eviction")]


async def test_what_is_done_to_an_object_cannot_be_changed_into_something_else(
    world: World, hooks: WebhookServer
) -> None:
    assert (await world.ask("POST", DEPLOYMENTS, body=deployment()))[0] == 201
    more = patch({"op": "replace", "path": "/spec/replicas", "value": 100})
    await asked_about(world, hooks, "deployments/scale", lambda _: more, "Mutating")
    code, answer = await world.ask("PUT", f"{DEPLOYMENTS}/d/scale", body=SCALE)
    assert (code, "attempted to modify the object" in answer["message"]) == (500, True), answer
    assert (await world.ask("GET", f"{DEPLOYMENTS}/d"))[1]["spec"]["replicas"] == 1
