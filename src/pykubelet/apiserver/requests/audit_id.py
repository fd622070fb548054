"""The name of a request, by which its answer and what was written down about it are found."""

from typing import Final

from aiohttp import web

AUDIT_ID: Final = web.RequestKey("audit-id", str)
HEADER: Final = "Audit-Id"


def named(request: web.Request) -> dict[str, str]:
    """The header that says which request is answered."""
    return {HEADER: request[AUDIT_ID]} if AUDIT_ID in request else {}
