"""Pods that differ in what their containers ask for."""

from typing import Any

from pykubelet.api import codec
from pykubelet.api.pod import Pod


def pod_of(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **fields: Any) -> Pod:
    """A pod with these resources for its containers (`c0`, `c1`, ...) and init containers (`i0`, `i1`, ...)."""
    spec = {
        "containers": [{"name": f"c{n}", "resources": each} for n, each in enumerate(containers)],
        "initContainers": [
            {"name": f"i{n}", "resources": {k: v for k, v in each.items() if k != "sidecar"}}
            | ({"restartPolicy": "Always"} if each.get("sidecar") else {})
            for n, each in enumerate(init)
        ],
        **{key: value for key, value in fields.items() if key not in ("metadata", "status")},
    }
    return codec.convert(
        Pod, {"spec": spec, "metadata": fields.get("metadata", {}), "status": fields.get("status", {})}
    )
