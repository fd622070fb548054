"""Requests about resources as the verbs get them, without a connection."""

import json
from typing import Any

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.requests.calls import Call
from pykubelet.apiserver.requests.media_types import Accept
from pykubelet.apiserver.requests.request_info import request_info
from pykubelet.apiserver.requests.users import MASTERS, authenticated


def a_call(
    backend: Backend, method: str, path: str, body: Any, *, agent: str = "kubectl", dry_run: bool = False
) -> Call:
    """From the owner of the cluster."""
    info = request_info(method, path, {})
    resource = backend.resources.find(info.group, info.version, info.resource)
    assert resource is not None
    return Call(
        info=info,
        resource=resource,
        query={},
        dry_run=("All",) if dry_run else (),
        body=json.dumps(body).encode(),
        content_type="application/json",
        accept=Accept(),
        user=authenticated("admin", (MASTERS,)),
        user_agent=f"{agent}/v1",
        warnings=[],
    )
