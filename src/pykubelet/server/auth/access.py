"""What a request to the agent's HTTP API asks for, in the words of the API server's authorizer: verb and subresource.

Several accesses mean that any of them will do: a narrow right first, then `proxy`, which covers the whole API.
"""

from typing import Final

from pykubelet.pod.ports.server import Access

_VERBS: Final = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

_NARROW: Final = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}
"""Rights that were once part of `proxy`, and still are."""

_OWN: Final = {
    "stats": "stats",
    "metrics": "metrics",
    "logs": "log",
    "checkpoint": "checkpoint",
    "statusz": "statusz",
    "flagz": "configz",
}
"""Rights that `proxy` does not include."""

_EVERYTHING: Final = "proxy"


def accesses(method: str, path: str, node: str, *, fine_grained: bool = True) -> tuple[Access, ...]:
    """Of a request whose `path` is decoded, without its query. A method that has no verb gets an empty one."""
    verb = _VERBS.get(method, "")
    return tuple(
        Access(verb=verb, subresource=subresource, node=node) for subresource in _subresources(path, fine_grained)
    )


def _subresources(path: str, fine_grained: bool) -> tuple[str, ...]:
    root, first, *rest = path.split("/") if path.startswith("/") else ("", "")
    if root or "." in rest or ".." in rest:
        return (_EVERYTHING,)  # whoever follows such a path may end up elsewhere
    if first in _OWN:
        return (_OWN[first],)
    if fine_grained and first in _NARROW:
        return (_NARROW[first], _EVERYTHING)
    return (_EVERYTHING,)
