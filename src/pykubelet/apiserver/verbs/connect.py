"""Connections to pods, services and nodes, as those see them who have a word in it: by the options in their path."""

from typing import Any, Final

from multidict import MultiMapping

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.calls import Call
from pykubelet.apiserver.writer.asking import ask
from pykubelet.apiserver.writer.author import Author

_CONNECTED: Final = ("attach", "exec", "portforward", "proxy")
_TRUTHS: Final = ("stdin", "stdout", "stderr", "tty")


async def admit_connection(backend: Backend, call: Call, query: MultiMapping[str]) -> None:
    """Raises ApiError. Logs are read, and nobody is asked about that."""
    part = call.info.subresource
    if part not in _CONNECTED:
        return
    author = Author(call.user, "", call.info, False, call.warnings, call.notes)
    await ask(backend, author, call.resource, part, options_of(call, query), operation="CONNECT")


def options_of(call: Call, query: MultiMapping[str]) -> Object:
    """What the request is for, as an object of its kind."""
    info, found = call.info, call.resource.subresource(call.info.subresource)
    options: dict[str, Any] = {}
    for name in _TRUTHS if info.subresource in ("attach", "exec") else ():
        if query.get(name, "").lower() in ("1", "t", "true"):
            options[name] = True
    if query.get("container"):
        options["container"] = query["container"]
    if info.subresource == "exec":
        options["command"] = query.getall("command", [])
    if info.subresource == "portforward" and (ports := query.getall("ports", [])):
        options["ports"] = [int(each) for text in ports for each in text.split(",") if each.isdecimal()]
    if info.subresource == "proxy":
        options["path"] = f"/{info.rest}"
    metadata = {"name": info.name, **({"namespace": info.namespace} if info.namespace else {})}
    kind = found.kind if found is not None else call.resource.kind
    return {"kind": kind, "apiVersion": "v1", "metadata": metadata, **options}
