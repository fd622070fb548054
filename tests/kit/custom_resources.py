"""A custom resource definition as people write it, and a client that waits until it is served."""

import asyncio
from typing import Any, Final

from kit.api_process import Api

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME: Final = "widgets.example.com"
WIDGETS: Final = "/apis/example.com/v1/namespaces/default/widgets"
_SECONDS: Final = 10.0


def definition(schema: dict[str, Any] | None = None, **version: Any) -> dict[str, Any]:
    """Of widgets, with one version. `version` says more about it."""
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    status = {"type": "object", "properties": {"ready": {"type": "integer"}}}
    whole = schema or {"type": "object", "properties": {"spec": spec, "status": status}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole}, **version}
            ],
        },
    }


def widget(name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, **rest}


async def define(api: Api, crd: dict[str, Any]) -> dict[str, Any]:
    """-> the definition, once what it defines is served"""
    code, made = await api.ask("POST", CRDS, crd)
    assert code == 201, made
    return await has_condition(api, crd["metadata"]["name"], "Established", "True")


async def has_condition(api: Api, name: str, kind: str, status: str) -> dict[str, Any]:
    async with asyncio.timeout(_SECONDS):
        while True:
            code, found = await api.ask("GET", f"{CRDS}/{name}")
            assert code == 200, found
            conditions = {each["type"]: each["status"] for each in found.get("status", {}).get("conditions", ())}
            if conditions.get(kind) == status:
                return dict(found)
            await asyncio.sleep(0.01)


async def is_gone(api: Api, path: str) -> None:
    async with asyncio.timeout(_SECONDS):
        while True:
            if (await api.ask("GET", path))[0] == 404:
                return
            await asyncio.sleep(0.01)
