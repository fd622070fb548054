"""One request as those see it who count and log requests: what is known of it by and by, from its first line on."""

from datetime import datetime
from typing import Final

import msgspec
from aiohttp import web

from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.telemetry.audit_policy import Depth

REASON: Final = "authorization.k8s.io/reason"
"""The note that says why somebody may."""


class Seen(msgspec.Struct):
    request: web.Request
    began: float
    received: datetime | None
    """None: nobody writes it down."""
    audit_id: str
    info: RequestInfo | None = None
    resource: Resource | None = None
    depth: Depth | None = None
    """None: it is not known yet who it is."""
    body: bytes = b""
    content_type: str = ""
    answer: bytes = b""
    """Only where somebody wants it."""
    code: int = 0
    size: int = 0
    is_long: bool = False
    warnings: list[str] = []
    """What the client is told besides the answer, whether it gets what it asks for or not."""
    notes: dict[str, str] = {}
    """What those have to say of it who had a word in what is written."""
