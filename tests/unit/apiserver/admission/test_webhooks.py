"""Webhooks over real TLS: who is asked about what, what they change, and what becomes of those who do not answer."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from kit.api_process import Api
from kit.waiting import eventually
from kit.webhook_server import WebhookServer, patch, webhook_server
from pykubelet.apiserver.objects import stored

GROUP: Final = "admissionregistration.k8s.io"
ROOT: Final = f"/apis/{GROUP}/v1"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
SERVICE_NAME: Final = "hooks.default.svc"


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncGenerator[WebhookServer, None]:
    async with webhook_server(tmp_path, SERVICE_NAME) as running:
        yield running


async def configured(api: Api, kind: str, name: str, *hooks: dict[str, Any]) -> dict[str, Any]:
    body = {"apiVersion": f"{GROUP}/v1", "kind": f"{kind}WebhookConfiguration", "metadata": {"name": name}}
    path = f"{ROOT}/{kind.lower()}webhookconfigurations"
    code, made = await api.ask("POST", path, {**body, "webhooks": list(hooks)})
    assert code == 201, made
    await api.backend.cache.list_newest("/registry/")
    return dict(made)


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, **({"labels": labels} if labels else {})}, "data": data}


async def create(api: Api, name: str, query: str = "", **more: Any) -> tuple[int, Any]:
    return await api.ask("POST", f"{MAPS}{query}", config_map(name, **more))


def sets(path: str, value: Any) -> Any:
    return lambda _: patch({"op": "add", "path": path, "value": value})


def refuses(**status: Any) -> Any:
    return lambda _: {"allowed": False, "status": status}


# --- asking


async def test_a_webhook_is_told_what_is_about_to_be_written_by_whom(api: Api, hooks: WebhookServer) -> None:
    await configured(api, "Validating", "v", hooks.hook("v"))
    assert (await create(api, "a", "?fieldManager=me", x="1"))[0] == 201
    assert (await api.ask("PUT", f"{MAPS}/a", config_map("a", x="2")))[0] == 200
    assert (await api.ask("DELETE", f"{MAPS}/a"))[0] == 200
    made, changed, gone = hooks.seen("v")
    assert (made["operation"], changed["operation"], gone["operation"]) == ("CREATE", "UPDATE", "DELETE")
    assert (made["name"], made["namespace"], made["dryRun"]) == ("a", "default", False)
    assert made["kind"] == made["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert made["resource"] == made["requestResource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert made["userInfo"]["username"] == "admin"
    assert made["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
    assert (made["object"]["data"], made["oldObject"]) == ({"x": "1"}, None)
    assert (changed["oldObject"]["data"], changed["object"]["data"]) == ({"x": "1"}, {"x": "2"})
    assert (gone["object"], gone["oldObject"]["data"]) == (None, {"x": "2"})


async def test_a_refusal_is_told_in_the_words_of_the_webhook(api: Api, hooks: WebhookServer) -> None:
    await configured(
        api,
        "Validating",
        "v",
        hooks.hook("no", refuses(code=403, reason="Forbidden", message="not here"), objectSelector=labelled("no")),
        hooks.hook("mute", refuses(), objectSelector=labelled("mute")),
        hooks.hook("lies", refuses(code=200, status="Success"), objectSelector=labelled("lies")),
    )
    code, answer = await create(api, "a", labels={"to": "no"})
    words = 'admission webhook "no.example.com" denied the request: not here'
    assert (code, answer["code"], answer["reason"], answer["message"]) == (403, 403, "Forbidden", words)
    for name in ("mute", "lies"):
        code, answer = await create(api, "a", labels={"to": name})
        words = f'admission webhook "{name}.example.com" denied the request without explanation'
        assert (code, answer["status"], answer["message"]) == (400, "Failure", words)
    assert (await create(api, "a", labels={"to": "nobody"}))[0] == 201


def labelled(to: str) -> dict[str, Any]:
    return {"matchLabels": {"to": to}}


async def test_selectors_rules_and_conditions_say_who_is_asked(api: Api, hooks: WebhookServer) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    conditions = [{"name": "mine", "expression": "object.metadata.name == 'mine' && request.operation == 'CREATE'"}]
    await configured(
        api,
        "Validating",
        "v",
        hooks.hook("namespaces", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "default"}}),
        hooks.hook("elsewhere", namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}),
        hooks.hook("updates", rules=[{**rule, "operations": ["UPDATE"]}]),
        hooks.hook("cluster", rules=[{**rule, "scope": "Cluster"}]),
        hooks.hook("parts", rules=[{**rule, "resources": ["*/status"]}]),
        hooks.hook("conditions", matchConditions=conditions),
        hooks.hook("everything", rules=[rule]),
    )
    assert (await create(api, "mine"))[0] == 201
    assert {path for path, _ in hooks.asked} == {"/namespaces", "/conditions", "/everything"}
    hooks.asked.clear()
    assert (await create(api, "other"))[0] == 201
    assert {path for path, _ in hooks.asked} == {"/namespaces", "/everything"}
    hooks.asked.clear()
    code, _ = await api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    assert code == 201
    assert {path for path, _ in hooks.asked} == {"/cluster", "/everything"}


async def test_a_condition_that_fails_counts_as_the_webhook_wants_it(api: Api, hooks: WebhookServer) -> None:
    fails = [{"name": "x", "expression": "object.data.none == 'x'"}]
    await configured(api, "Validating", "a", hooks.hook("open", matchConditions=fails, failurePolicy="Ignore"))
    assert (await create(api, "a"))[0] == 201
    await configured(api, "Validating", "b", hooks.hook("closed", matchConditions=fails))
    code, answer = await create(api, "b")
    assert (code, answer["reason"]) == (403, "Forbidden"), answer
    assert hooks.asked == []


async def test_who_is_meant_by_another_version_sees_the_object_in_that_one(api: Api, hooks: WebhookServer) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"]}
    rules = [{**rule, "apiVersions": ["v1"]}]
    await configured(
        api,
        "Validating",
        "v",
        hooks.hook("equivalent", rules=rules),
        hooks.hook("exact", rules=rules, matchPolicy="Exact"),
    )
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3}
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    code, made = await api.ask("POST", path, {"metadata": {"name": "h"}, "spec": spec})
    assert code == 201, made
    (asked,) = hooks.seen("equivalent")
    assert (asked["kind"]["version"], asked["requestKind"]["version"]) == ("v1", "v2")
    assert asked["object"]["apiVersion"] == "autoscaling/v1"
    assert hooks.seen("exact") == []


async def test_nobody_is_asked_about_the_configurations_themselves(api: Api, hooks: WebhookServer) -> None:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    await configured(api, "Validating", "v", hooks.hook("v", refuses(), rules=[everything]))
    await configured(api, "Mutating", "m", hooks.hook("m", refuses(), rules=[everything]))
    for side in ("validating", "mutating"):
        code, answer = await api.ask("DELETE", f"{ROOT}/{side}webhookconfigurations/{side[0]}")
        assert code == 200, answer
    assert hooks.asked == []


# --- changing


async def test_webhooks_change_objects_one_after_the_other_by_name(api: Api, hooks: WebhookServer) -> None:
    await configured(api, "Mutating", "b", hooks.hook("second", sets("/data/b", "2")))
    await configured(api, "Mutating", "a", hooks.hook("first", sets("/data", {"a": "1"})))
    await configured(api, "Validating", "v", hooks.hook("last"))
    code, made = await create(api, "x")
    assert (code, made["data"]) == (201, {"a": "1", "b": "2"}), made
    assert [path for path, _ in hooks.asked] == ["/first", "/second", "/last"]
    assert hooks.seen("second")[0]["object"]["data"] == {"a": "1"}
    assert hooks.seen("last")[0]["object"]["data"] == {"a": "1", "b": "2"}
    assert (await api.ask("GET", f"{MAPS}/x"))[1]["data"] == {"a": "1", "b": "2"}


async def test_who_wants_to_see_it_again_sees_what_others_have_changed(api: Api, hooks: WebhookServer) -> None:
    await configured(
        api,
        "Mutating",
        "m",
        hooks.hook("again", reinvocationPolicy="IfNeeded"),
        hooks.hook("once"),
        hooks.hook("changes", sets("/data", {"a": "1"}), reinvocationPolicy="IfNeeded"),
    )
    assert (await create(api, "x"))[0] == 201
    assert [path for path, _ in hooks.asked] == ["/again", "/once", "/changes", "/again"]
    assert hooks.seen("again")[1]["object"]["data"] == {"a": "1"}


async def test_an_injected_container_gets_what_the_server_gives_to_all(api: Api, hooks: WebhookServer) -> None:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    sidecar = {"name": "sidecar", "image": "i"}
    await configured(api, "Mutating", "m", hooks.hook("m", sets("/spec/containers/-", sidecar), rules=[rule]))
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "i"}]}}
    code, made = await api.ask("POST", "/api/v1/namespaces/default/pods", pod)
    assert code == 201, made
    main, injected = made["spec"]["containers"]
    assert injected["imagePullPolicy"] == "Always"
    assert injected["volumeMounts"] == main["volumeMounts"]


@pytest.mark.parametrize(
    ("operations", "words"),
    [
        ([{"op": "remove", "path": "/nothing"}], "nothing"),
        ([{"op": "replace", "path": "/kind", "value": "Secret"}], "changed the kind"),
        ([{"op": "add", "path": "/data", "value": 7}], "data"),
        ([{"op": "replace", "path": "", "value": []}], "not an object"),
    ],
)
async def test_a_patch_that_makes_no_sense_is_the_webhooks_fault(
    api: Api, hooks: WebhookServer, operations: list[dict[str, Any]], words: str
) -> None:
    await configured(api, "Mutating", "m", hooks.hook("m", lambda _: patch(*operations)))
    code, answer = await create(api, "x")
    assert (code, answer["reason"]) == (500, "InternalError"), answer
    assert words in answer["message"]
    assert (await api.ask("GET", f"{MAPS}/x"))[0] == 404


async def test_a_webhook_moves_nothing_to_another_namespace_and_takes_over_no_name(
    api: Api, hooks: WebhookServer
) -> None:
    moves = patch(
        {"op": "replace", "path": "/metadata/namespace", "value": "kube-system"},
        {"op": "add", "path": "/metadata/uid", "value": "mine"},
        {"op": "add", "path": "/metadata/managedFields", "value": []},
    )
    await configured(api, "Mutating", "m", hooks.hook("m", lambda _: moves))
    code, made = await create(api, "x", a="1")
    assert (code, made["metadata"]["namespace"]) == (201, "default"), made
    assert made["metadata"]["uid"] != "mine"
    assert made["metadata"]["managedFields"]
    hooks.answers["/m"] = sets("/metadata/name", "other")
    code, made = await api.ask("PUT", f"{MAPS}/x", config_map("x", a="2"))
    assert (code, made["metadata"]["name"]) == (200, "x"), made


async def test_a_webhook_does_not_say_who_asks_for_a_certificate(api: Api, hooks: WebhookServer) -> None:
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["certificatesigningrequests"]}
    forged = patch(
        {"op": "add", "path": "/spec/username", "value": "system:node:n1"},
        {"op": "add", "path": "/spec/groups", "value": ["system:nodes"]},
        {"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}},
    )
    await configured(api, "Mutating", "m", hooks.hook("m", lambda _: forged, rules=[rule]))
    request = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n").decode()
    spec = {"signerName": "example.com/x", "usages": ["client auth"], "request": request}
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    code, made = await api.ask("POST", path, {"metadata": {"name": "x"}, "spec": spec})
    assert (code, made["metadata"]["labels"]) == (201, {"seen": "yes"}), made
    assert (made["spec"]["username"], made["spec"]["groups"]) == ("admin", ["system:masters", "system:authenticated"])


async def test_what_a_webhook_leaves_is_checked_like_anything_else(api: Api, hooks: WebhookServer) -> None:
    await configured(api, "Mutating", "m", hooks.hook("m", sets("/metadata/labels", {"-bad-": "1"})))
    code, answer = await create(api, "x")
    assert (code, answer["reason"]) == (422, "Invalid"), answer


async def test_warnings_reach_the_client(api: Api, hooks: WebhookServer) -> None:
    warns = lambda _: {"allowed": True, "warnings": ["mind the gap"]}  # noqa: E731
    await configured(api, "Validating", "v", hooks.hook("v", warns))
    async with api.session.post(api.url + MAPS, json=config_map("x")) as answer:
        assert answer.status == 201
        assert "mind the gap" in answer.headers["Warning"]


async def test_warnings_reach_the_client_with_a_refusal_too(api: Api, hooks: WebhookServer) -> None:
    warns = lambda _: {"allowed": False, "warnings": ["mind the gap"], "status": {"message": "no"}}  # noqa: E731
    await configured(api, "Validating", "v", hooks.hook("v", warns))
    async with api.session.post(api.url + MAPS, json=config_map("x")) as answer:
        assert answer.status == 400
        assert "mind the gap" in answer.headers["Warning"]


RULE: Final = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}


@pytest.mark.parametrize(
    ("webhooks", "refuses_maps", "refuses_secrets"),
    [
        ([{"name": "a.b.c", "rules": [RULE], "clientConfig": {"caBundle": "!"}}], True, False),
        ([{"name": "a.b.c", "rules": [RULE], "clientConfig": {"caBundle": "!"}, "failurePolicy": "Ignore"}], 0, 0),
        ([{"name": "a.b.c", "rules": [RULE]}], True, False),
        ([{"name": "a.b.c", "rules": [7], "clientConfig": {}}], True, True),
        ([7], True, True),
        ({"a": "b"}, True, True),
        ([], False, False),
    ],
)
async def test_a_configuration_that_cannot_be_read_refuses_what_it_may_be_meant_for(
    api: Api, webhooks: Any, refuses_maps: bool, refuses_secrets: bool
) -> None:
    kind = "ValidatingWebhookConfiguration"
    found = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "odd", "uid": "1"}, "webhooks": webhooks}
    resource = api.backend.resources.of(GROUP, "validatingwebhookconfigurations")
    await api.backend.store.create(resource.key("", "odd"), stored(found))  # as no server of ours would write it
    await api.backend.cache.list_newest("/registry/")
    for path, is_refused in ((MAPS, refuses_maps), (MAPS.replace("configmaps", "secrets"), refuses_secrets)):
        code, told = await api.ask("POST", path, {"metadata": {"name": "x"}})
        assert code == (500 if is_refused else 201), told
        assert not is_refused or "odd cannot be read" in told["message"], told
    assert (await api.ask("DELETE", f"{ROOT}/validatingwebhookconfigurations/odd"))[0] == 200
    await api.backend.cache.list_newest("/registry/")
    assert (await api.ask("POST", MAPS, {"metadata": {"name": "y"}}))[0] == 201


async def test_a_configuration_that_is_no_object_at_all_refuses_everything(api: Api) -> None:
    resource = api.backend.resources.of(GROUP, "mutatingwebhookconfigurations")
    await api.backend.store.create(resource.key("", "odd"), b"\x00nonsense")
    await api.backend.cache.list_newest("/registry/")
    code, told = await api.ask("POST", MAPS, {"metadata": {"name": "x"}})
    assert (code, "odd cannot be read" in told["message"]) == (500, True), told


async def test_a_dry_run_asks_and_leaves_nothing(api: Api, hooks: WebhookServer) -> None:
    await configured(api, "Mutating", "m", hooks.hook("m", sets("/data", {"a": "1"})))
    code, made = await create(api, "x", "?dryRun=All")
    assert (code, made["data"], hooks.seen("m")[0]["dryRun"]) == (201, {"a": "1"}, True)
    assert (await api.ask("GET", f"{MAPS}/x"))[0] == 404


# --- those who do not answer


def nonsense(request: dict[str, Any]) -> bytes:
    return b"<html>"


def of_another(request: dict[str, Any]) -> dict[str, Any]:
    return {"uid": "another", "allowed": True}


def silent(request: dict[str, Any]) -> bytes:
    return b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}'


def endless(request: dict[str, Any]) -> bytes:
    return b'{"response": {"allowed": true, "x": "' + b"x" * (4 << 20) + b'"}}'


def elsewhere(request: dict[str, Any]) -> Any:
    async def redirected() -> web.Response:
        return web.Response(status=302, headers={"Location": "https://127.0.0.1:1/"})

    return redirected()


def changes_though_it_may_not(request: dict[str, Any]) -> dict[str, Any]:
    return patch({"op": "add", "path": "/data", "value": {"a": "1"}})


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (nonsense, "its answer cannot be read"),
        (of_another, "expected response.uid="),
        (silent, "webhook response was absent"),
        (endless, "its answer is larger than"),
        (elsewhere, "it answers with 302"),
        (changes_though_it_may_not, "validating webhook may not return response.patch"),
    ],
)
async def test_who_answers_nonsense_counts_as_it_wants_to(
    api: Api, hooks: WebhookServer, answer: Any, words: str
) -> None:
    await configured(api, "Validating", "v", hooks.hook("v", answer, objectSelector=labelled("closed")))
    await configured(api, "Validating", "w", hooks.hook("w", answer, failurePolicy="Ignore"))
    code, refused = await create(api, "x", labels={"to": "closed"})
    assert (code, refused["reason"]) == (500, "InternalError"), refused
    assert refused["message"].startswith('Internal error occurred: failed calling webhook "v.example.com": ')
    assert words in refused["message"]
    assert (await create(api, "x"))[0] == 201


async def hangs() -> dict[str, Any]:
    await asyncio.sleep(60)
    return {}


async def test_a_webhook_that_hangs_keeps_nobody_else_waiting(api: Api, hooks: WebhookServer) -> None:
    slow = hooks.hook("v", lambda _: hangs(), timeoutSeconds=30, objectSelector=labelled("slow"))
    await configured(api, "Mutating", "m", slow)
    large = {"blob": "x" * 100_000}
    waiting = [asyncio.create_task(create(api, f"slow-{n}", labels={"to": "slow"}, **large)) for n in range(3)]
    await eventually(lambda: len(hooks.asked) == 3)
    for number in range(5):
        assert (await create(api, f"fast-{number}", **large))[0] == 201
        secret = {"metadata": {"name": f"s{number}"}, "stringData": large}
        assert (await api.ask("POST", "/api/v1/namespaces/default/secrets", secret))[0] == 201
    assert not any(each.done() for each in waiting)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_webhook_has_its_time_and_no_more(api: Api, hooks: WebhookServer) -> None:
    await configured(api, "Validating", "v", hooks.hook("v", lambda _: hangs(), timeoutSeconds=1))
    code, answer = await create(api, "x")
    assert (code, "context deadline exceeded" in answer["message"]) == (500, True), answer


async def test_a_webhook_has_to_show_a_certificate_that_is_trusted(api: Api, hooks: WebhookServer) -> None:
    hook = hooks.hook("v")
    del hook["clientConfig"]["caBundle"]
    await configured(api, "Validating", "v", hook)
    code, answer = await create(api, "x")
    assert (code, "certificate verify failed" in answer["message"].lower()) == (500, True), answer
    assert hooks.asked == []


# --- services


async def service(api: Api, hooks: WebhookServer, address: str, ready: bool = True) -> None:
    port = {"name": "https", "port": 443, "targetPort": hooks.port}
    body = {"metadata": {"name": "hooks"}, "spec": {"ports": [port], "clusterIP": "None"}}
    assert (await api.ask("POST", "/api/v1/namespaces/default/services", body))[0] == 201
    subset = {
        "addresses" if ready else "notReadyAddresses": [{"ip": address}],
        "ports": [{"name": "https", "port": hooks.port}],
    }
    resource = api.backend.resources.of("", "endpoints")
    whole = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "hooks", "namespace": "default"}}
    await api.backend.store.create(resource.key("default", "hooks"), stored({**whole, "subsets": [subset]}))


def of_service(hooks: WebhookServer, **more: Any) -> dict[str, Any]:
    reference = {"namespace": "default", "name": "hooks", "path": "/v", **more}
    return hooks.hook("v", clientConfig={"service": reference, "caBundle": hooks.bundle})


async def test_a_service_is_called_at_a_ready_endpoint_by_its_own_name(api: Api, hooks: WebhookServer) -> None:
    await service(api, hooks, "127.0.0.1")
    await configured(api, "Validating", "v", of_service(hooks))
    code, answer = await create(api, "x")
    assert code == 201, answer
    assert len(hooks.seen("v")) == 1


async def test_a_service_without_anybody_behind_it_cannot_be_called(api: Api, hooks: WebhookServer) -> None:
    await configured(api, "Validating", "v", of_service(hooks))
    assert 'service "hooks" not found' in (await create(api, "x"))[1]["message"]
    await service(api, hooks, "127.0.0.1", ready=False)
    assert 'no endpoints available for service "default/hooks"' in (await create(api, "x"))[1]["message"]


# --- custom resources


def widgets() -> dict[str, Any]:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "colour": {"type": "string"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")]
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    whole = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    return {"metadata": {"name": "widgets.example.com"}, "spec": whole}


async def test_a_custom_resource_is_seen_and_changed_in_the_version_that_is_meant(
    api: Api, hooks: WebhookServer
) -> None:
    code, made = await api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
    assert code == 201, made
    await eventually(lambda: api.backend.resources.find("example.com", "v2", "widgets"))
    rule = {"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"]}
    await configured(api, "Mutating", "m", hooks.hook("m", sets("/spec/colour", "red"), rules=[rule]))
    path = "/apis/example.com/v2/namespaces/default/widgets"
    code, made = await api.ask(
        "POST", path, {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    )
    assert (code, made["apiVersion"]) == (201, "example.com/v2"), made
    assert made["spec"] == {"size": 1, "colour": "red"}
    (seen,) = hooks.seen("m")
    assert (seen["object"]["apiVersion"], seen["kind"]["version"]) == ("example.com/v1", "v1")
    assert (seen["requestKind"]["version"], "uid" in seen["object"]["metadata"]) == ("v2", False)
    changed = {**made, "spec": {"size": 2}}
    code, made = await api.ask("PUT", f"{path}/w", changed)
    assert (code, made["spec"]) == (200, {"size": 2, "colour": "red"}), made
    assert hooks.seen("m")[1]["oldObject"]["metadata"]["uid"] == made["metadata"]["uid"]
