"""What of a container's log somebody asked for, and which container's: the rules of `kubectl logs`."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from pykubelet.api.pod import ContainerStatus, Pod
from pykubelet.base.errors import Invalid

_STREAMS = {"All": b"", "Stdout": b"stdout", "Stderr": b"stderr"}


class LogOptions(Struct, frozen=True, kw_only=True):
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: datetime | None = None
    tail: int | None = None
    """Lines from the end; None: all of them."""
    limit: int | None = None
    """Bytes; None: any number."""
    stream: bytes = b""
    """stdout or stderr; empty: both."""


class BadQuery(Invalid):
    """It cannot be read at all."""


class Unprocessable(Invalid):
    """It can be read, but makes no sense."""


def log_options(query: Mapping[str, str], now: datetime) -> LogOptions:
    """From the parameters of a request. Raises BadQuery or Unprocessable."""
    tail = _number(query, "tailLines")
    if old := query.get("tail"):  # as very old clients say it
        tail = None if old == "all" else _number({"tailLines": old}, "tailLines")
    limit, seconds = _number(query, "limitBytes"), _number(query, "sinceSeconds")
    since = _time(query.get("sinceTime", ""))
    stream = query.get("stream") or "All"
    if tail is not None and tail < 0:
        raise Unprocessable("tailLines: must be greater than or equal to 0")
    if limit is not None and limit < 1:
        raise Unprocessable("limitBytes: must be greater than 0")
    if seconds is not None and since is not None:
        raise Unprocessable("at most one of `sinceTime` or `sinceSeconds` may be specified")
    if seconds is not None and seconds < 1:
        raise Unprocessable("sinceSeconds: must be greater than 0")
    if stream not in _STREAMS:
        raise Unprocessable(f"stream: {stream!r} is none of All, Stdout, Stderr")
    if stream != "All" and tail is not None:
        raise Unprocessable("`tailLines` and specific `stream` are mutually exclusive for now")
    return LogOptions(
        follow=_truth(query, "follow"),
        previous=_truth(query, "previous"),
        timestamps=_truth(query, "timestamps"),
        since=now - timedelta(seconds=min(seconds, 10**9)) if seconds else since,
        tail=tail,
        limit=limit,
        stream=_STREAMS[stream],
    )


def logged_container(pod: Pod, name: str, *, previous: bool) -> str:
    """The id of the container whose log is meant. Raises Invalid with the reason why there is none."""
    status, where = _status(pod, name), f"container {_quoted(name)} in pod {_quoted(pod.metadata.name)}"
    if status is None:
        raise Invalid(f"{where} is not available")
    before = status.last_state.terminated.container_id if status.last_state.terminated else ""
    if previous:
        if not before:
            raise Invalid(f"previous terminated {where} not found")
        return _bare(before)
    state = status.state
    if state.running is not None:
        return _bare(status.container_id)
    if state.terminated is not None or status.last_state.terminated is not None:
        found = (state.terminated.container_id if state.terminated else "") or before
        if not found:
            raise Invalid(f"{where} is terminated")
        return _bare(found)
    reason = state.waiting.reason if state.waiting else ""
    why = {
        "ErrImagePull": "image can't be pulled",
        "ImagePullBackOff": "trying and failing to pull image",
    }.get(reason, reason)
    raise Invalid(f"{where} is waiting to start: {why}" if why else f"{where} is waiting to start - no logs yet")


def _status(pod: Pod, name: str) -> ContainerStatus | None:
    told = pod.status
    everyone = (*told.container_statuses, *told.init_container_statuses, *told.ephemeral_container_statuses)
    return next((status for status in everyone if status.name == name), None)


def _bare(container_id: str) -> str:
    return container_id.partition("://")[2] or container_id


def _quoted(text: str) -> str:
    return f'"{text}"'


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not text.removeprefix("-").isascii() or not text.removeprefix("-").isdecimal() or len(text) > 19:
        raise BadQuery(f"{name}: {text[:40]!r} is not a number")
    return int(text)


def _truth(query: Mapping[str, str], name: str) -> bool:
    """As Go's API machinery reads it: there and not false is true."""
    return name in query and query[name].lower() not in ("false", "0")


def _time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise BadQuery(f"sinceTime: {text[:40]!r} is not a time, such as 2026-01-31T12:00:00Z") from None
    if found.tzinfo is None:
        raise BadQuery(f"sinceTime: {text[:40]!r} has no time zone, such as Z")
    return found
