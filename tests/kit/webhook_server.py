"""A real webhook over TLS, whose answers a test chooses."""

import base64
import inspect
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from kit.certificates import Authority

Answer = Callable[[dict[str, Any]], dict[str, Any] | bytes | Awaitable[Any]]
"""From the request of a review to the response, or to all bytes of an answer."""


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


class WebhookServer:
    def __init__(self, authority: Authority, port: int) -> None:
        self.bundle = base64.b64encode(authority.pem).decode()
        self.port = port
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """The path, and what was asked there."""
        self.answers: dict[str, Answer] = {}

    def hook(self, name: str, answer: Answer | None = None, **more: Any) -> dict[str, Any]:
        """One that is asked about config maps, at a path of its own."""
        path = f"/{name}"
        if answer is not None:
            self.answers[path] = answer
        rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        return {
            "name": f"{name}.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.bundle},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }

    def seen(self, name: str) -> list[dict[str, Any]]:
        return [request for path, request in self.asked if path == f"/{name}"]

    async def answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.asked.append((request.path, review["request"]))
        answer = self.answers.get(request.path)
        found: Any = {"allowed": True} if answer is None else answer(review["request"])
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, bytes):
            return web.Response(body=found, content_type="application/json")
        if isinstance(found, web.Response):
            return found
        response = {"uid": review["request"]["uid"], **found}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


@asynccontextmanager
async def webhook_server(folder: Path, *hosts: str) -> AsyncIterator[WebhookServer]:
    authority = Authority("webhooks")
    issued = authority.issue("webhook", hosts=["127.0.0.1", *hosts])
    file = folder / "webhook.pem"
    file.write_bytes(issued.certificate + issued.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    server = WebhookServer(authority, 0)
    app = web.Application(client_max_size=16 << 20)
    app.router.add_post("/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        server.port = runner.addresses[0][1]
        yield server
    finally:
        await runner.cleanup()
