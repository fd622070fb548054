"""Stories as people like to read them."""

from datetime import UTC, datetime
from typing import Any

from pykubelet.cli.plain_text import plain

_MOST_LINES = 40
_NOT_TO_BE_READY = ("Gone", "Succeeded", "Failed", "Stopping", "Stopped")


def list_text(told: dict[str, Any]) -> str:
    """One line for each pod that is not well."""
    lines = [*_node_lines(told)]
    items = sorted(told["items"], key=lambda each: (each["namespace"], each["name"]))
    lines += [f"{each['namespace']}/{plain(each['sentence'])}" for each in items]
    return "\n".join(lines) if lines else "All pods are well."


def _node_lines(told: dict[str, Any]) -> list[str]:
    trouble = told.get("trouble") or {}
    found = []
    if told.get("isStarting"):
        found.append(f"node {told['node']}: its agent is just starting, and does not know all its pods yet.")
    if trouble.get("runtime"):
        found.append(f"node {told['node']}: its container runtime does not answer: {plain(trouble['runtime'])}")
    if trouble.get("api"):
        found.append(f"node {told['node']} cannot reach the API server: {plain(trouble['api'])}")
    return found


def story_text(told: dict[str, Any]) -> str:
    """The first line, what to try, the last words, where the time went, and the timeline."""
    parts = [plain(told["sentence"])]
    if note := told.get("note"):
        parts.append(f"({plain(note)})")
    if told["advice"]:
        parts.append("What to try:\n" + "\n".join(f"  {plain(each)}" for each in told["advice"]))
    for container, words in told["lastWords"].items():
        quoted = "\n".join(f"  | {plain(line)}" for line in words.splitlines())
        parts.append(f"The last lines of {container}:\n{quoted}")
    if told["criticalPath"]:
        parts.append(_path_text(told))
    if told["timeline"]:
        parts.append("Timeline:\n" + "\n".join(line_text(line) for line in told["timeline"][-_MOST_LINES:]))
    return "\n\n".join(parts)


def _path_text(told: dict[str, Any]) -> str:
    spans = [*told["criticalPath"], *_not_ready_yet(told)]
    longest = max(spans, key=lambda each: each["seconds"])
    ready = told.get("readyAfter")
    head = f"Where the time went ({ready:.1f} s until it was ready):" if ready is not None else "Where the time went:"
    lines = []
    for each in spans:
        mark = "  <- most of it" if each is longest else ""
        what = plain(each["what"]) if each["what"] != each["stage"] else ""
        label = f"{each['stage']:8} {what}".rstrip()
        lines.append(f"  {each['seconds']:8.3f} s  {label}{mark}")
    return "\n".join([head, *lines])


def _not_ready_yet(told: dict[str, Any]) -> list[dict[str, Any]]:
    """What a pod has waited for since the last stage that it came to."""
    if told.get("readyAfter") is not None or told["state"] in _NOT_TO_BE_READY:
        return []
    last = told["criticalPath"][-1]
    since = datetime.fromisoformat(told["toldAt"]) - datetime.fromisoformat(last["began"])
    waited = max(0.0, since.total_seconds() - last["seconds"])
    return [{"stage": "ready", "what": "not ready yet", "seconds": waited}]


def line_text(line: dict[str, Any]) -> str:
    at = datetime.fromisoformat(line["at"]).astimezone(UTC)
    took = f"{line['seconds']:8.3f} s" if line.get("seconds") is not None else " " * 10
    who = f"{line['container']}: " if line.get("container") else ""
    often = f" ({line['times']} times)" if line.get("times", 1) > 1 else ""
    mark = "!" if line.get("isTrouble") else " "
    return f"  {at:%Y-%m-%d %H:%M:%S} {mark} {took}  {who}{plain(line['what'])}{often}"
