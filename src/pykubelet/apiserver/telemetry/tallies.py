"""How many requests there were, how long they took, how large the answers were: upstream's series, in plain numbers.

What makes text of them is loaded when somebody asks: it costs a start more than all else that counts.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from pykubelet.apiserver.telemetry.seen import Seen

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = tuple[str, ...]

_SECONDS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0),
    *(30.0, 45.0, 60.0),
)
_BYTES: Final = (1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
_NAMES: Final = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_VERBS: Final = {
    "create": "POST",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
    "get": "GET",
    "list": "LIST",
    "patch": "PATCH",
    "update": "PUT",
    "watch": "WATCH",
}
_READING: Final = ("get", "list", "watch")
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"})
_APPLY: Final = "application/apply-patch"
_COMPONENT: Final = "apiserver"
_BUILD: Final = {
    "buildDate": "build_date",
    "compiler": "compiler",
    "gitCommit": "git_commit",
    "gitTreeState": "git_tree_state",
    "gitVersion": "git_version",
    "goVersion": "go_version",
    "major": "major",
    "minor": "minor",
    "platform": "platform",
}


class Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, other: "Histogram") -> None:
        self._counts = [one + more for one, more in zip(self._counts, other._counts, strict=True)]
        self._sum += other._sum

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self._sum += value

    def buckets(self) -> list[tuple[str, float]]:
        found, total = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self._counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found

    @property
    def sum(self) -> float:
        return self._sum


class Series(msgspec.Struct):
    """What was counted of requests that are alike."""

    labels: Labels
    dry_run: str
    code: str
    seconds: Histogram
    sizes: Histogram
    count: int = 0


class Tallies:
    """Counted on the event loop. There are only so many series, whatever anybody asks for."""

    def __init__(self) -> None:
        self._series: dict[tuple[object, ...], Series] = {}
        self._under_way: Counter[Labels] = Counter()
        self._audit_levels: Counter[Labels] = Counter()
        self._audit_events = 0

    def begins(self, seen: Seen) -> None:
        """Something that lasts."""
        self._under_way[labels(seen)] += 1

    def ends(self, seen: Seen, seconds: float) -> None:
        """It is found by what is at hand: to make labels for each request would take longer than to count it."""
        info, resource, dry_run = seen.info, seen.resource, False
        if info is None or resource is None:
            key: tuple[object, ...] = (seen.request.method if seen.request.method in _METHODS else "", seen.code)
        else:
            is_apply = False
            if info.verb not in _READING:
                dry_run = seen.request.query.get("dryRun") == "All"
                is_apply = seen.content_type.startswith(_APPLY)
            key = (
                info.verb,
                resource.prefix,
                resource.version,
                info.subresource,
                not info.name,
                not info.namespace,
                seen.code,
                dry_run,
                seen.is_long,
                is_apply,
            )
        series = self._series.get(key)
        if series is None:
            said = "All" if dry_run else ""
            made = Series(labels(seen), said, str(seen.code), Histogram(_SECONDS), Histogram(_BYTES))
            series = self._series[key] = made
        series.count += 1
        series.seconds.observe(seconds)
        if seen.size:
            series.sizes.observe(seen.size)
        if seen.is_long:
            self._under_way[series.labels] -= 1

    def _counts(self) -> Counter[Labels]:
        found: Counter[Labels] = Counter()
        for each in self._series.values():
            found[*each.labels, each.dry_run, each.code] += each.count
        return found

    def _seconds(self) -> dict[Labels, Histogram]:
        return _together(((*each.labels, each.dry_run), each.seconds) for each in self._series.values())

    def _sizes(self) -> dict[Labels, Histogram]:
        return _together((each.labels, each.sizes) for each in self._series.values() if each.sizes.sum)

    def audits(self, level: str) -> None:
        """A request."""
        self._audit_levels[(level,)] += 1

    def audited(self) -> None:
        """A stage of one."""
        self._audit_events += 1

    def families(
        self, under_way: Mapping[str, int], objects: Mapping[str, int], build: Mapping[str, str]
    ) -> "Iterator[Metric]":
        from prometheus_client import ProcessCollector
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        from pykubelet.web.process_metrics import process_families

        requests = CounterMetricFamily(
            "apiserver_request_total",
            "Requests that were answered, by what they were about and the code of the answer.",
            labels=(*_NAMES, "dry_run", "code"),
        )
        for about, count in self._counts().items():
            requests.add_metric(about, count)
        yield requests
        yield _histogram(
            "apiserver_request_duration_seconds",
            "How long requests took, by what they were about.",
            (*_NAMES, "dry_run"),
            self._seconds().items(),
        )
        yield _histogram(
            "apiserver_response_sizes", "Bytes in answers, by what they answer.", _NAMES, self._sizes().items()
        )
        yield _gauge(
            "apiserver_longrunning_requests", "Watches and connections that are open.", _NAMES, self._under_way.items()
        )
        kinds = [((kind,), count) for kind, count in under_way.items()]
        yield _gauge(
            "apiserver_current_inflight_requests", "Requests that are being answered.", ("request_kind",), kinds
        )
        kinds = [((name,), count) for name, count in objects.items()]
        yield _gauge("apiserver_storage_objects", "Objects that are stored, by their kind.", ("resource",), kinds)
        yield _gauge("apiserver_resource_objects", "Objects that are stored, by their kind.", ("resource",), kinds)
        events = CounterMetricFamily("apiserver_audit_event_total", "Events that went into the audit log.")
        events.add_metric((), self._audit_events)
        yield events
        levels = CounterMetricFamily(
            "apiserver_audit_level_total", "Requests by what the audit policy wants of them.", labels=("level",)
        )
        for level, count in self._audit_levels.items():
            levels.add_metric(level, count)
        yield levels
        about_us = GaugeMetricFamily("kubernetes_build_info", "What this server is.", labels=tuple(_BUILD.values()))
        about_us.add_metric([build[name] for name in _BUILD], 1)
        yield about_us
        yield from ProcessCollector(registry=None).collect()
        yield from process_families()


def _together(several: Iterable[tuple[Labels, Histogram]]) -> dict[Labels, Histogram]:
    found: dict[Labels, Histogram] = {}
    for about, each in several:
        if about not in found:
            found[about] = Histogram(each.bounds)
        found[about].add(each)
    return found


def labels(seen: Seen) -> Labels:
    info, resource = seen.info, seen.resource
    if info is None or resource is None:
        method = seen.request.method
        return (method if method in _METHODS else "other", "", "", "", "", "", _COMPONENT)
    verb = _VERBS.get(info.verb, "other")
    if verb == "PATCH" and seen.content_type.startswith(_APPLY):
        verb = "APPLY"
    if seen.is_long and verb != "WATCH":
        verb = "CONNECT"
    scope = "resource" if info.name else "namespace" if info.namespace else "cluster"
    return (verb, resource.group, resource.version, resource.plural, info.subresource, scope, _COMPONENT)


def _gauge(name: str, text: str, names: Labels, values: Iterable[tuple[Labels, int]]) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, text, labels=names)
    for about, count in values:
        family.add_metric(about, count)
    return family


def _histogram(name: str, text: str, names: Labels, values: Iterable[tuple[Labels, Histogram]]) -> "Metric":
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, text, labels=names)
    for about, each in values:
        family.add_metric(about, each.buckets(), each.sum)
    return family
