"""Meters made from the table of names."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from pykubelet.server.metrics.metric_names import Named


class Meters:
    """May be changed while another thread reads. A name or a number of labels that is not in the table is a KeyError or
    ValueError: our own mistake."""

    def __init__(self, table: Iterable[Named]) -> None:
        self._named = tuple(table)
        self._meters: dict[str, Any] = {named.name: _meter(named) for named in self._named}
        self._counted: dict[tuple[str, tuple[str, ...]], float] = {}

    def count(self, name: str, *labels: str, by: float = 1.0) -> None:
        self._of(name, labels).inc(by)

    def set(self, name: str, value: float, *labels: str) -> None:
        self._of(name, labels).set(value)

    def add(self, name: str, value: float, *labels: str) -> None:
        """To a gauge."""
        self._of(name, labels).inc(value)

    def observe(self, name: str, value: float, *labels: str) -> None:
        self._of(name, labels).observe(value)

    def replace(self, name: str, values: Mapping[tuple[str, ...], float]) -> None:
        """All series of a gauge: those that are not among the values go. A counter that somebody else counts goes up to
        them."""
        meter = self._meters[name]
        if isinstance(meter, Counter):
            for labels, value in values.items():
                self.count(name, *labels, by=max(value - self._counted.get((name, labels), 0.0), 0.0))
                self._counted[name, labels] = value
            return
        if () in values:
            meter.set(values[()])
            return
        meter.clear()
        for labels, value in values.items():
            meter.labels(*labels).set(value)

    def drop(self, name: str, *labels: str) -> None:
        """One series. Harmless when there is none."""
        self._meters[name].remove(*labels)

    def families(self) -> Iterator[Metric]:
        """Those that have anything to show."""
        for named in self._named:
            for family in self._meters[named.name].collect():
                family.samples = [_as_named(sample, named) for sample in family.samples if not _is_birthday(sample)]
                if family.samples:
                    yield family

    def _of(self, name: str, labels: tuple[str, ...]) -> Any:
        meter = self._meters[name]
        return meter.labels(*labels) if labels else meter


def _meter(named: Named) -> Counter | Gauge | Histogram:
    match named.kind:
        case "counter":
            return Counter(named.name, named.help, named.labels, registry=None)
        case "gauge":
            return Gauge(named.name, named.help, named.labels, registry=None)
        case "histogram":
            return Histogram(named.name, named.help, named.labels, buckets=named.buckets, registry=None)


def _as_named(sample: Sample, named: Named) -> Sample:
    """Some counters are older than the custom of ending in `_total`."""
    return sample._replace(name=named.name) if named.kind == "counter" else sample


def _is_birthday(sample: Sample) -> bool:
    return sample.name.endswith("_created")
