"""A pod as its job sees it: how far it is, how it ended, which index it works on, and whether it is counted yet."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from pykubelet.apiserver.controllers.workloads.pod_views import PodView, pod_view
from pykubelet.apiserver.objects import Object, at, moment

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""Holds a pod until its job has counted it."""
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
NO_INDEX: Final = -1
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_MOST: Final = 2**31 - 1
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_BEGINNING: Final = datetime.fromisoformat("0001-01-01T00:00:00Z")


class Ended(Struct, frozen=True):
    """A container that ended with an error."""

    container: str
    code: int


class JobPod(Struct, frozen=True):
    view: PodView
    is_tracked: bool
    index: int
    failures: int
    ignored: int
    finished: datetime
    """When it ended, as far as that can be told."""
    ended: tuple[Ended, ...]
    conditions: tuple[tuple[str, str], ...]
    restarts: int
    """Of all its containers, while it runs."""

    @property
    def uid(self) -> str:
        return self.view.uid

    @property
    def labels(self) -> Any:
        return self.view.labels

    @property
    def owner(self) -> str:
        return self.view.owner

    @property
    def is_leaving(self) -> bool:
        return self.view.is_leaving

    def head(self) -> Object:
        return self.view.head()


def job_pod(pod: Object) -> JobPod:
    metadata, status = pod["metadata"], pod.get("status") or {}
    annotations, view = metadata.get("annotations") or {}, pod_view(pod)
    conditions = tuple((each.get("type", ""), each.get("status", "")) for each in status.get("conditions") or ())
    runs = view.phase in ("Running", "Pending")
    return JobPod(
        view,
        TRACKING in (metadata.get("finalizers") or ()),
        _number(annotations.get(INDEX), NO_INDEX),
        _number(annotations.get(FAILURES), 0),
        _number(annotations.get(IGNORED), 0),
        finished(pod),
        tuple(_ended(status)),
        conditions,
        sum(each.get("restartCount", 0) for each in _statuses(status)) if runs else 0,
    )


def removal_order(pod: JobPod) -> tuple[Any, ...]:
    """What is missed least comes first."""
    view = pod.view
    since = view.ready_since if view.is_ready else None
    return (
        bool(view.node),
        _PHASES.get(view.phase, 0),
        view.is_ready,
        (since is not None, -since.timestamp() if since else 0.0) if view.is_ready else (True, 0.0),
        tuple(-each for each in view.restarts),
        (view.created is not None, -view.created.timestamp() if view.created else 0.0),
    )


def finished(pod: Object) -> datetime:
    """When its containers had all ended, else when it was no longer ready, else when it was deleted."""
    by_containers = _containers_finished(pod)
    if by_containers is not None:
        return by_containers
    for each in at(pod, "status.conditions", ()):
        if each.get("type") == "Ready":
            since = moment(each.get("lastTransitionTime")) if each.get("status") == "False" else None
            if since is not None:
                return since
            break
    metadata = pod["metadata"]
    deleted = moment(metadata.get("deletionTimestamp"))
    if deleted is not None:
        return deleted - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return moment(metadata.get("creationTimestamp")) or _BEGINNING


def _containers_finished(pod: Object) -> datetime | None:
    beside = {each["name"] for each in at(pod, "spec.initContainers", ()) if each.get("restartPolicy") == "Always"}
    found = _latest(None, at(pod, "status.containerStatuses", ()))
    return _latest(found, [each for each in at(pod, "status.initContainerStatuses", ()) if each.get("name") in beside])


def _latest(before: datetime | None, statuses: Any) -> datetime | None:
    for each in statuses:
        end = moment(at(each, "state.terminated.finishedAt"))
        if end is None:
            return None
        before = end if before is None else max(before, end)
    return before


def _statuses(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from status.get("containerStatuses") or ()
    yield from status.get("initContainerStatuses") or ()


def _ended(status: dict[str, Any]) -> Iterator[Ended]:
    for each in _statuses(status):
        code = at(each, "state.terminated.exitCode", 0)
        if code:
            yield Ended(each.get("name", ""), code)


def _number(text: str | None, otherwise: int) -> int:
    """What people have put there that is no count counts for nothing."""
    if text is None or not _NUMBER.fullmatch(text):
        return otherwise
    return int(text) if 0 <= int(text) <= _MOST else otherwise
