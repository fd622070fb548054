"""The real kubectl reads discovery and OpenAPI as this server makes them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kit.kubectl import KUBECTL, Kubectl
from pykubelet.apiserver.discovery import discovery
from pykubelet.apiserver.discovery.openapi import roots, v2_document, v3_document, v3_index
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.kinds import Resources
from pykubelet.apiserver.schema.schema import unknown_fields

pytestmark = pytest.mark.skipif(not KUBECTL, reason="needs kubectl")

RESOURCES = Resources()


@asynccontextmanager
async def server(home: Path, *, is_aggregated: bool = True) -> AsyncIterator[tuple[Kubectl, list[str]]]:
    """-> kubectl, and the paths that it asked for"""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(f"{request.method} {request.path_qs}")
        if request.method in ("POST", "PATCH"):
            return await _refused_if_unknown(request)
        version = discovery.aggregated_version(request.headers.get("Accept", "")) if is_aggregated else None
        if version and request.path in ("/api", "/apis"):
            body = discovery.aggregated(RESOURCES, is_core=request.path == "/api", version=version)
            kind = discovery.aggregated_content_type(version)
            return web.Response(body=json.dumps(body), headers={"Content-Type": kind})
        return _document(request.path)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        yield Kubectl(port, home, {}), asked
    finally:
        await runner.cleanup()


def _document(path: str) -> web.Response:
    parts = path.strip("/").split("/")
    found: Any = None
    if path == "/version":
        found = {"major": "1", "minor": "34", "gitVersion": "v1.34.0"}
    elif path == "/api":
        found = discovery.api_versions("127.0.0.1")
    elif path == "/apis":
        found = discovery.group_list(RESOURCES)
    elif path == "/openapi/v3":
        found = v3_index(roots(RESOURCES))
    elif path == "/openapi/v2":
        found = v2_document(RESOURCES)
    elif path.startswith("/openapi/v3/"):
        here = roots(RESOURCES)[path.removeprefix("/openapi/v3/")]
        return web.Response(body=v3_document(here), content_type="application/json")
    elif parts[0] == "api" and len(parts) == 2:
        found = discovery.resource_list(RESOURCES, "", parts[1])
    elif parts[0] == "apis" and len(parts) == 3:
        found = discovery.resource_list(RESOURCES, parts[1], parts[2])
    if found is None:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        return web.json_response(status, status=404)
    return web.json_response(found)


async def _refused_if_unknown(request: web.Request) -> web.Response:
    value = await request.json()
    assert request.query.get("fieldValidation") == "Strict"
    unknown = list(unknown_fields(value, schema_of("v1", "Pod")))
    if not unknown:
        return web.json_response(value, status=201)
    said = ", ".join(f'unknown field "{each}"' for each in unknown)
    message = f'Pod in version "v1" cannot be handled as a Pod: strict decoding error: {said}'
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "BadRequest", "code": 400}
    return web.json_response({**status, "message": message}, status=400)


@pytest.mark.parametrize("is_aggregated", [True, False])
async def test_kubectl_lists_all_resources_in_either_form_of_discovery(tmp_path: Path, is_aggregated: bool) -> None:
    async with server(tmp_path, is_aggregated=is_aggregated) as (kubectl, asked):
        done = await kubectl.run("api-resources", "--no-headers")
    assert done.code == 0, done.stderr
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    assert ["pods", "po", "v1", "true", "Pod"] in lines
    assert ["nodes", "no", "v1", "false", "Node"] in lines
    assert ["leases", "coordination.k8s.io/v1", "true", "Lease"] in lines
    assert ["pods", "metrics.k8s.io/v1beta1", "true", "PodMetrics"] in lines
    assert ("GET /api/v1" not in " ".join(asked)) == is_aggregated


async def test_kubectl_explains_the_fields_of_a_pod(tmp_path: Path) -> None:
    async with server(tmp_path) as (kubectl, _):
        field = await kubectl.run("explain", "pod.spec.containers")
        whole = await kubectl.run("explain", "pods", "--recursive")
        other = await kubectl.run("explain", "runtimeclass.scheduling.tolerations")
    assert field.code == 0, field.stderr
    text = field.stdout.decode()
    assert "FIELD: containers <[]Container>" in text
    assert "image\t<string>" in text
    assert "enum: Always, IfNotPresent, Never" in text
    assert "name\t<string> -required-" in text
    assert whole.code == 0, whole.stderr
    assert "preferredDuringSchedulingIgnoredDuringExecution" in whole.stdout.decode()
    assert other.code == 0, other.stderr
    assert "tolerationSeconds" in other.stdout.decode()


async def test_kubectl_leaves_the_search_for_unknown_fields_to_the_server(tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    good = {**pod, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": 1}}}]}}
    bad = {**pod, "spec": {"containers": [{"name": "c", "image": "i", "imagee": "j"}]}}
    (tmp_path / "good.json").write_text(json.dumps(good))
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    async with server(tmp_path) as (kubectl, asked):
        accepted = await kubectl.run("apply", "--validate=strict", "-f", str(tmp_path / "good.json"))
        refused = await kubectl.run("apply", "--validate=strict", "-f", str(tmp_path / "bad.json"))
        local = await kubectl.run("apply", "--dry-run=client", "-f", str(tmp_path / "good.json"))
    assert accepted.code == 0, accepted.stderr
    assert refused.code == 1
    assert b'unknown field "spec.containers[0].imagee"' in refused.stderr
    assert local.code == 0, local.stderr
    assert any("fieldValidation=Strict" in each for each in asked)
