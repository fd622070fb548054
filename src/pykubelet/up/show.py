"""Pods as people like to see them: one line each."""

from datetime import UTC, datetime
from typing import Any

_FAILING = ("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName")
_COLUMNS = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE")


def pod_table(pods: list[dict[str, Any]], now: datetime | None = None) -> str:
    """The table of `pykubelet pods`, from pods as their JSON shows them."""
    if not pods:
        return "No pods here."
    rows = [_COLUMNS, *(_row(pod, now or datetime.now(UTC)) for pod in sorted(pods, key=_key))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def is_settled(pod: dict[str, Any]) -> bool:
    """Whether a pod has come to what it will be for a while: up, done, failed, or failing again and again."""
    shown = summary(pod).removeprefix("Init:")
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed") or shown in _FAILING:
        return True
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return shown == "Running" and bool(statuses) and all(status.get("ready") for status in statuses)


def summary(pod: dict[str, Any]) -> str:
    """What kubectl shows as a pod's status: the reason of its trouble if there is one, else its phase."""
    status = pod.get("status", {})
    if pod.get("metadata", {}).get("deletionTimestamp"):
        return "Terminating"
    init = status.get("initContainerStatuses") or []
    for number, container in enumerate(init):
        state = container.get("state", {})
        if (state.get("terminated") or {}).get("exitCode") == 0 or container.get("started"):
            continue
        reason = _reason(state)
        return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{number}/{len(init)}"
    reasons = [_reason(container.get("state", {})) for container in status.get("containerStatuses") or []]
    shown = next((reason for reason in reasons if reason), status.get("reason") or status.get("phase") or "Pending")
    return "Running" if shown == "Completed" and status.get("phase") == "Running" else shown


def _row(pod: dict[str, Any], now: datetime) -> tuple[str, ...]:
    meta, status = pod.get("metadata", {}), pod.get("status", {})
    statuses = status.get("containerStatuses") or []
    total = len(pod.get("spec", {}).get("containers") or [])
    ready = sum(bool(container.get("ready")) for container in statuses)
    restarts = sum(container.get("restartCount", 0) for container in statuses)
    began = status.get("startTime") or meta.get("creationTimestamp")
    age = _age(now - datetime.fromisoformat(began)) if began else ""
    return meta.get("namespace", ""), meta.get("name", ""), f"{ready}/{total}", summary(pod), str(restarts), age


def _reason(state: dict[str, Any]) -> str:
    for kind in ("waiting", "terminated"):
        if state.get(kind):
            return str(state[kind].get("reason", ""))
    return ""


def _age(span: Any) -> str:
    seconds = max(int(span.total_seconds()), 0)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _key(pod: dict[str, Any]) -> tuple[str, str]:
    meta = pod.get("metadata", {})
    return meta.get("namespace", ""), meta.get("name", "")
