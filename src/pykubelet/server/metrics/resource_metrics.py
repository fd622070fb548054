"""Processor time, memory and swap of the node, its pods and their containers: `/metrics/resource`, what metrics-server
reads and `kubectl top` shows."""

import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from aiohttp import web

from pykubelet.base.errors import PykubeletError
from pykubelet.pod.stats.stats import PodReading, Reading, Stats, Usage
from pykubelet.server.application import Route
from pykubelet.server.metrics.text_format import answer, escaped, family

log = logging.getLogger(__name__)

Amount = Callable[[Usage], "float | None"]
_NOT_EVERYWHERE: Final = "Reported only on non-windows systems"


def routes(stats: Stats) -> tuple[Route, ...]:
    async def resource(_: web.Request) -> web.Response:
        try:
            reading = await stats.read(details=False)
        except PykubeletError as error:
            log.warning("what pods use cannot be told: %s", error)
            return answer(_errors(1))
        return answer(exposition(reading))

    return (Route("GET", "/metrics/resource", resource, is_open=True),)


class _Family(NamedTuple):
    name: str
    kind: str
    help: str
    amount: Amount


def _cpu(usage: Usage) -> float | None:
    return usage.cpu.total / 1e9 if usage.cpu else None


def _working_set(usage: Usage) -> float | None:
    return usage.memory.working_set if usage.memory else None


def _swap(usage: Usage) -> float | None:
    return usage.memory.swap if usage.memory else None


def _swap_limit(usage: Usage) -> float | None:
    """Whatever is used counts as allowed, also where it is more than the limit of now."""
    if usage.memory is None or usage.memory.swap_available is None:
        return None
    return usage.memory.swap_available + usage.memory.swap


def _families(what: str, swap_usage: str) -> tuple[_Family, ...]:
    cpu = f"[STABLE] Cumulative cpu time consumed by the {what} in core-seconds"
    return (
        _Family(f"{what}_cpu_usage_seconds_total", "counter", cpu, _cpu),
        _Family(
            f"{what}_memory_working_set_bytes",
            "gauge",
            f"[STABLE] Current working set of the {what} in bytes",
            _working_set,
        ),
        _Family(
            f"{what}_swap_usage_bytes", "gauge", f"[ALPHA] Current {swap_usage} in bytes. {_NOT_EVERYWHERE}", _swap
        ),
    )


_CONTAINER: Final = (
    *_families("container", "amount of the container swap usage"),
    _Family(
        "container_swap_limit_bytes",
        "gauge",
        f"[ALPHA] Current amount of the container swap limit in bytes. {_NOT_EVERYWHERE}",
        _swap_limit,
    ),
)
_NODE: Final = _families("node", "swap usage of the node")
_POD: Final = _families("pod", "amount of the pod swap usage")
_STARTED: Final = "[STABLE] Start time of the container since unix epoch in seconds"
_ERROR: Final = "1 if there was an error while getting container metrics, 0 otherwise"


def exposition(reading: Reading) -> str:
    """In upstream's order, which is that of the alphabet."""
    pods = [pod for pod in reading.pods if pod.containers]
    containers = [(f"{{container={_quoted(c.name)},{_labels(pod)}}}", c) for pod in pods for c in pod.containers]
    of_containers = [(labels, container.usage) for labels, container in containers]
    of_pods = [(f"{{{_labels(pod)}}}", pod.usage) for pod in pods]
    started = family(
        "container_start_time_seconds",
        "gauge",
        _STARTED,
        (
            f"container_start_time_seconds{labels} {container.created_at.timestamp()!r}\n"
            for labels, container in containers
            if container.created_at is not None
        ),
    )
    told = {each.name: _series(each, of_containers) for each in _CONTAINER}
    told["container_start_time_seconds"] = started
    told |= {each.name: _series(each, [("", reading.node.usage)]) for each in _NODE}
    told |= {each.name: _series(each, of_pods) for each in _POD}
    return "".join(told[name] for name in sorted(told)) + _errors(0)


def _series(each: _Family, usages: "list[tuple[str, Usage]]") -> str:
    def lines() -> Iterator[str]:
        for labels, usage in usages:
            amount = each.amount(usage)
            if amount is not None:
                yield f"{each.name}{labels} {amount!r} {usage.at // 1_000_000}\n"

    return family(each.name, each.kind, each.help, lines())


def _labels(pod: PodReading) -> str:
    return f"namespace={_quoted(pod.namespace)},pod={_quoted(pod.name)}"


def _quoted(text: str) -> str:
    return f'"{escaped(text)}"'


def _errors(count: int) -> str:
    name = "resource_scrape_error"
    return family(name, "gauge", f"[STABLE] {_ERROR}", (f"{name} {count}\n",))
