"""Pods as people like to see them: one line each."""

from datetime import UTC, datetime
from typing import Any

from pykubelet.api.durations import ago
from pykubelet.api.rules.printed_pod import PrintedPod
from pykubelet.cli.plain_text import plain

_COLUMNS = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE")


def pod_table(pods: list[dict[str, Any]], now: datetime | None = None) -> str:
    """The table of `pykubelet pods`, from pods as their JSON shows them."""
    if not pods:
        return "No pods here."
    rows = [_COLUMNS, *(_row(pod, now or datetime.now(UTC)) for pod in sorted(pods, key=_key))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def _row(pod: dict[str, Any], now: datetime) -> tuple[str, ...]:
    meta, shown = pod.get("metadata", {}), PrintedPod(pod)
    began = pod.get("status", {}).get("startTime") or meta.get("creationTimestamp")
    age = ago(began, now) if began else ""
    ready = f"{shown.ready}/{shown.total}"
    return meta.get("namespace", ""), meta.get("name", ""), ready, plain(shown.reason), str(shown.restarts), age


def _key(pod: dict[str, Any]) -> tuple[str, str]:
    meta = pod.get("metadata", {})
    return meta.get("namespace", ""), meta.get("name", "")
