"""One pod in one line: how many of its containers are ready, and the one word that says how it is."""

from datetime import datetime
from typing import Any, Final

from pykubelet.api.durations import ago
from pykubelet.api.rules.printed_pod import PrintedPod
from pykubelet.apiserver.objects import Object, at

NONE: Final = "<none>"


def pod_cells(pod: Object, now: datetime) -> list[Any]:
    shown = PrintedPod(pod)
    restarts = str(shown.restarts)
    if shown.restarts and shown.last_restart:
        restarts = f"{shown.restarts} ({ago(shown.last_restart, now)} ago)"
    addresses = at(pod, "status.podIPs", ())
    return [
        pod["metadata"].get("name", ""),
        f"{shown.ready}/{shown.total}",
        shown.reason,
        restarts,
        ago(pod["metadata"].get("creationTimestamp"), now),
        (addresses[0].get("ip") if addresses else "") or NONE,
        at(pod, "spec.nodeName", "") or NONE,
        at(pod, "status.nominatedNodeName", "") or NONE,
        _gates(pod),
    ]


def pod_conditions(pod: Object) -> list[dict[str, str]]:
    """What marks the row of a pod that has ended."""
    phase = at(pod, "status.phase")
    if phase not in ("Succeeded", "Failed"):
        return []
    message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def _gates(pod: Object) -> str:
    gates = at(pod, "spec.readinessGates", ())
    if not gates:
        return NONE
    true = {c.get("type") for c in at(pod, "status.conditions", ()) if c.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"
