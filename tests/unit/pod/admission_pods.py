"""Pods and nodes for the tests of admission, from the fields as a manifest spells them."""

from typing import Any

from pykubelet.api import codec
from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.api.rules.well_known import SOURCE_ANNOTATION

CRITICAL = 2_000_000_000
ALLOCATABLE = {"cpu": "4", "memory": "4Gi", "ephemeral-storage": "10Gi", "pods": "10", "example.com/gpu": "2"}


def pod(
    uid: str = "new",
    requests: dict[str, str] | None = None,
    *,
    limits: dict[str, str] | None = None,
    static: bool = False,
    ports: list[dict[str, Any]] | None = None,
    labels: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A pod of one container, with more of its spec as keywords."""
    container = {
        "name": "c",
        "image": "app",
        "resources": {"requests": requests or {}, "limits": limits or {}},
        "ports": ports or [],
    }
    annotations = {SOURCE_ANNOTATION: "file" if static else "api"}
    return codec.convert(
        Pod,
        {
            "metadata": {
                "uid": uid,
                "name": f"pod-{uid}",
                "namespace": "default",
                "labels": labels or {},
                "annotations": annotations,
            },
            "spec": {"containers": [container], **spec},
            "status": status or {},
        },
    )


def guaranteed(uid: str, requests: dict[str, str], **more: Any) -> Pod:
    whole = {"cpu": "1m", "memory": "1", **requests}
    return pod(uid, whole, limits=whole, **more)


def node(
    allocatable: dict[str, str] | None = None,
    *,
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    name: str = "n1",
    kernel: str = "6.1.0-13-amd64",
    **status: Any,
) -> Node:
    return codec.convert(
        Node,
        {
            "metadata": {"name": name, "uid": "uid-n1", "labels": labels or {}},
            "spec": {"taints": taints or []},
            "status": {
                "allocatable": ALLOCATABLE if allocatable is None else allocatable,
                "nodeInfo": {"kernelVersion": kernel},
                **status,
            },
        },
    )
