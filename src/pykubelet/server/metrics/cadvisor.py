"""What containers, pods and control groups use, under cAdvisor's names: `/metrics/cadvisor`, what dashboards show."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from aiohttp import web

from pykubelet.base.errors import PykubeletError
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.stats.stats import Cpu, Disk, DiskIo, Interface, Memory, PodReading, Pressure, Reading, Stats, Usage
from pykubelet.server.application import Route
from pykubelet.server.metrics.text_format import answer, escaped, family

log = logging.getLogger(__name__)

Facts = Callable[[], Awaitable[MachineFacts]]


def routes(stats: Stats, facts: Facts) -> tuple[Route, ...]:
    async def cadvisor(_: web.Request) -> web.Response:
        machine = await facts()
        try:
            reading = await stats.read()
        except PykubeletError as error:
            log.warning("what pods use cannot be told: %s", error)
            return answer(_scrape_error(1) + _machine(machine))
        return answer(await asyncio.to_thread(exposition, reading, machine))  # megabytes, on a full node

    return (Route("GET", "/metrics/cadvisor", cadvisor, is_open=True),)


class _Subject(NamedTuple):
    """Whom a line is about. Labels are in the order of the alphabet, with gaps where others come between them."""

    container: str
    identity: str
    names: str
    usage: Usage
    stamp: str
    """The time of the reading, which ends a line."""
    started: float
    interfaces: tuple[Interface, ...] = ()
    disks: tuple[Disk, ...] = ()

    @property
    def labels(self) -> str:
        return f"{self.container},{self.identity},{self.names}"


def exposition(reading: Reading, machine: MachineFacts) -> str:
    subjects = list(_subjects(reading))
    told = dict(_families(subjects))
    told["container_scrape_error"] = _scrape_error(0)
    told["cadvisor_version_info"] = _version(machine)
    return "".join(told[name] for name in sorted(told)) + _machine(machine)


def _subjects(reading: Reading) -> Iterator[_Subject]:
    node = reading.node
    yield _subject("/", node.usage, started=node.booted, interfaces=node.interfaces, disks=node.disks)
    for group in node.groups:
        yield _subject(group.group, group.usage, started=group.started)
    for pod in reading.pods:
        started, network = _seconds(pod.created_at), pod.interfaces or ()
        yield _subject(
            pod.group or f"/pod{pod.uid}",
            pod.usage,
            pod=pod,
            started=started,
            interfaces=() if pod.sandbox else network,  # the sandbox holds the network, where there is one
        )
        if (box := pod.sandbox) is not None:
            yield _subject(
                box.group, box.usage, pod=pod, started=started, name=box.id, image=box.image, interfaces=network
            )
        for each in pod.containers:
            yield _subject(
                each.group,
                each.usage,
                pod=pod,
                started=_seconds(each.created_at),
                container=each.name,
                name=each.id,
                image=each.image,
                disks=(each.root,) if each.root and each.root.used is not None else (),
            )


def _subject(
    group: str,
    usage: Usage,
    *,
    started: float,
    pod: PodReading | None = None,
    container: str = "",
    image: str = "",
    name: str = "",
    interfaces: tuple[Interface, ...] = (),
    disks: tuple[Disk, ...] = (),
) -> _Subject:
    namespace, pod_name = (pod.namespace, pod.name) if pod else ("", "")
    return _Subject(
        container=f'container="{escaped(container)}"',
        identity=f'id="{escaped(group)}",image="{escaped(image)}"',
        names=f'name="{escaped(name)}",namespace="{escaped(namespace)}",pod="{escaped(pod_name)}"',
        usage=usage,
        stamp=f" {usage.at // 1_000_000}\n",
        started=started,
        interfaces=interfaces,
        disks=disks,
    )


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


# --- the series

_G: Final = "gauge"
_C: Final = "counter"
_NANO: Final = 1e-9
_MICRO: Final = 1e-6

Value = int | float | None
_CPU: Final[tuple[tuple[str, str, Callable[[Cpu], Value]], ...]] = (
    ("container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.", lambda c: c.user * _NANO),
    (
        "container_cpu_system_seconds_total",
        "Cumulative system cpu time consumed in seconds.",
        lambda c: c.system * _NANO,
    ),
    (
        "container_cpu_cfs_periods_total",
        "Number of elapsed enforcement period intervals.",
        lambda c: c.periods if c.quota else None,
    ),
    (
        "container_cpu_cfs_throttled_periods_total",
        "Number of throttled period intervals.",
        lambda c: c.throttled_periods if c.quota else None,
    ),
    (
        "container_cpu_cfs_throttled_seconds_total",
        "Total time duration the container has been throttled.",
        lambda c: c.throttled * _NANO if c.quota else None,
    ),
)
_MEMORY: Final[tuple[tuple[str, str, Callable[[Memory], Value]], ...]] = (
    ("container_memory_cache", "Number of bytes of page cache memory.", lambda m: m.cache),
    ("container_memory_rss", "Size of RSS in bytes.", lambda m: m.rss),
    ("container_memory_kernel_usage", "Size of kernel memory allocated in bytes.", lambda m: m.kernel),
    ("container_memory_mapped_file", "Size of memory mapped files in bytes.", lambda m: m.mapped_file),
    ("container_memory_swap", "Container swap usage in bytes.", lambda m: m.swap),
    ("container_memory_failcnt", "Number of memory usage hits limits", lambda m: m.failures),
    (
        "container_memory_usage_bytes",
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
        lambda m: m.usage,
    ),
    ("container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes", lambda m: m.max_usage),
    ("container_memory_working_set_bytes", "Current working set in bytes.", lambda m: m.working_set),
    ("container_memory_total_active_file_bytes", "Current total active file in bytes.", lambda m: m.active_file),
    ("container_memory_total_inactive_file_bytes", "Current total inactive file in bytes.", lambda m: m.inactive_file),
)
_SPEC: Final[tuple[tuple[str, str, Callable[[Usage], Value]], ...]] = (
    ("container_spec_cpu_period", "CPU period of the container.", lambda u: u.cpu.period if u.cpu else None),
    ("container_spec_cpu_quota", "CPU quota of the container.", lambda u: u.cpu.quota or None if u.cpu else None),
    ("container_spec_cpu_shares", "CPU share of the container.", lambda u: u.cpu.shares if u.cpu else None),
    (
        "container_spec_memory_limit_bytes",
        "Memory limit for the container.",
        lambda u: u.memory.limit or 0 if u.memory else None,
    ),
    (
        "container_spec_memory_swap_limit_bytes",
        "Memory swap limit for the container.",
        lambda u: u.memory.swap_limit or 0 if u.memory else None,
    ),
    (
        "container_spec_memory_reservation_limit_bytes",
        "Memory reservation limit for the container.",
        lambda u: u.memory.reservation if u.memory else None,
    ),
)
_GENERAL: Final[tuple[tuple[str, str, Callable[[Usage], Value]], ...]] = (
    ("container_last_seen", "Last time a container was seen by the exporter", lambda u: u.at // 1_000_000_000),
    ("container_processes", "Number of processes running inside the container.", lambda u: u.processes),
    ("container_file_descriptors", "Number of open file descriptors for the container.", lambda u: u.descriptors),
    ("container_threads", "Number of threads running inside the container", lambda u: u.threads),
    (
        "container_threads_max",
        "Maximum number of threads allowed inside the container, infinity if value is zero",
        lambda u: u.threads_max,
    ),
    ("container_oom_events_total", "Count of out of memory events observed for the container", lambda u: u.oom_kills),
)
_PRESSURES: Final[tuple[tuple[str, str, Callable[[Usage], Pressure | None]], ...]] = (
    ("cpu", "CPU", lambda u: u.cpu.pressure if u.cpu else None),
    ("memory", "memory", lambda u: u.memory.pressure if u.memory else None),
    ("io", "IO", lambda u: u.io_pressure),
)
_NETWORK: Final[tuple[tuple[str, str, Callable[[Interface], int]], ...]] = (
    ("receive_bytes", "bytes received", lambda i: i.rx_bytes),
    ("receive_packets", "packets received", lambda i: i.rx_packets),
    ("receive_packets_dropped", "packets dropped while receiving", lambda i: i.rx_dropped),
    ("receive_errors", "errors encountered while receiving", lambda i: i.rx_errors),
    ("transmit_bytes", "bytes transmitted", lambda i: i.tx_bytes),
    ("transmit_packets", "packets transmitted", lambda i: i.tx_packets),
    ("transmit_packets_dropped", "packets dropped while transmitting", lambda i: i.tx_dropped),
    ("transmit_errors", "errors encountered while transmitting", lambda i: i.tx_errors),
)
_IO: Final[tuple[tuple[str, str, Callable[[DiskIo], int]], ...]] = (
    ("container_fs_reads_bytes_total", "Cumulative count of bytes read", lambda i: i.read_bytes),
    ("container_fs_reads_total", "Cumulative count of reads completed", lambda i: i.reads),
    ("container_fs_writes_bytes_total", "Cumulative count of bytes written", lambda i: i.written_bytes),
    ("container_fs_writes_total", "Cumulative count of writes completed", lambda i: i.writes),
)
_DISK: Final[tuple[tuple[str, str, Callable[[Disk], Value]], ...]] = (
    ("container_fs_inodes_free", "Number of available Inodes", lambda d: d.inodes_free),
    ("container_fs_inodes_total", "Number of Inodes", lambda d: d.inodes),
    (
        "container_fs_limit_bytes",
        "Number of bytes that can be consumed by the container on this filesystem.",
        lambda d: d.capacity,
    ),
    (
        "container_fs_usage_bytes",
        "Number of bytes that are consumed by the container on this filesystem.",
        lambda d: d.used,
    ),
)


# --- the text


def _families(subjects: list[_Subject]) -> Iterator[tuple[str, str]]:
    """By name, in no order."""
    yield from _plain(subjects)
    yield from _specs(subjects)
    yield from _pressures(subjects)
    yield from _disks(subjects)
    name = "container_cpu_usage_seconds_total"
    yield (
        name,
        family(
            name,
            _C,
            "Cumulative cpu time consumed in seconds.",
            [
                f'{name}{{{s.container},cpu="total",{s.identity},{s.names}}} {s.usage.cpu.total * _NANO!r}{s.stamp}'
                for s in subjects
                if s.usage.cpu is not None and s.usage.cpu.total > 0
            ],
        ),
    )
    name = "container_memory_failures_total"
    yield name, family(name, _C, "Cumulative count of memory allocation failures.", _failures(name, subjects))
    for short, what, count in _NETWORK:
        name = f"container_network_{short}_total"
        lines = [
            f'{name}{{{s.container},{s.identity},interface="{escaped(each.name)}",{s.names}}} {count(each)}{s.stamp}'
            for s in subjects
            for each in s.interfaces
        ]
        yield name, family(name, _C, f"Cumulative count of {what}", lines)


def _plain(subjects: list[_Subject]) -> Iterator[tuple[str, str]]:
    labelled = [(s.labels, s.stamp, s.usage) for s in subjects]
    cpus = [(labels, stamp, usage.cpu) for labels, stamp, usage in labelled if usage.cpu is not None]
    memories = [(labels, stamp, usage.memory) for labels, stamp, usage in labelled if usage.memory is not None]
    for name, text, of_cpu in _CPU:
        yield _family(name, text, ((a, b, of_cpu(cpu)) for a, b, cpu in cpus))
    for name, text, of_memory in _MEMORY:
        yield _family(name, text, ((a, b, of_memory(memory)) for a, b, memory in memories))
    for name, text, of_usage in _GENERAL:
        yield _family(name, text, ((a, b, of_usage(usage)) for a, b, usage in labelled))


def _specs(subjects: list[_Subject]) -> Iterator[tuple[str, str]]:
    """What was asked for, not what was measured: it has no time."""
    labelled = [(s.labels, s.usage) for s in subjects]
    for name, text, value in _SPEC:
        yield _family(name, text, ((labels, "\n", value(usage)) for labels, usage in labelled))
    name = "container_start_time_seconds"
    starts = ((s.labels, "\n", int(s.started) or None) for s in subjects)
    yield _family(name, "Start time of the container since unix epoch in seconds.", starts)


def _pressures(subjects: list[_Subject]) -> Iterator[tuple[str, str]]:
    for short, what, of in _PRESSURES:
        found = [(s.labels, s.stamp, pressure) for s in subjects if (pressure := of(s.usage)) is not None]
        name = f"container_pressure_{short}_stalled_seconds_total"
        text = f"Total time duration no tasks in the container could make progress due to {what} congestion."
        yield _family(name, text, ((a, b, each.full * _MICRO) for a, b, each in found))
        name = f"container_pressure_{short}_waiting_seconds_total"
        text = f"Total time duration tasks in the container have waited due to {what} congestion."
        yield _family(name, text, ((a, b, each.some * _MICRO) for a, b, each in found))


def _disks(subjects: list[_Subject]) -> Iterator[tuple[str, str]]:
    transfers = [(_on_device(s, each.device), s.stamp, each) for s in subjects for each in s.usage.io]
    for name, text, count in _IO:
        yield _family(name, text, ((a, b, count(each)) for a, b, each in transfers))
    held = [(_on_device(s, each.device), s.stamp, each) for s in subjects for each in s.disks]
    for name, text, amount in _DISK:
        yield _family(name, text, ((a, b, amount(each)) for a, b, each in held))


def _on_device(subject: _Subject, device: str) -> str:
    return f'{subject.container},device="{escaped(device)}",{subject.identity},{subject.names}'


def _failures(name: str, subjects: Iterable[_Subject]) -> Iterator[str]:
    for s in subjects:
        if (memory := s.usage.memory) is not None:
            for scope in ("container", "hierarchy"):
                for kind, count in (("pgfault", memory.page_faults), ("pgmajfault", memory.major_page_faults)):
                    whose = f'{s.container},failure_type="{kind}",{s.identity},{s.names},scope="{scope}"'
                    yield f"{name}{{{whose}}} {count}{s.stamp}"


def _family(name: str, text: str, values: Iterable[tuple[str, str, Value]]) -> tuple[str, str]:
    """The name, and all of its lines."""
    kind = _C if name.endswith(("_total", "_failcnt")) else _G
    lines = [f"{name}{{{labels}}} {value!r}{stamp}" for labels, stamp, value in values if value is not None]
    return name, family(name, kind, text, lines)


def _scrape_error(count: int) -> str:
    text = "1 if there was an error while getting container metrics, 0 otherwise"
    return family("container_scrape_error", _G, text, (f"container_scrape_error {count}\n",))


def _version(machine: MachineFacts) -> str:
    """There is no cAdvisor here, and no Docker."""
    text = (
        "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version"
        " & cadvisor revision."
    )
    labels = (
        'cadvisorRevision="",cadvisorVersion="",dockerVersion="",'
        f'kernelVersion="{escaped(machine.kernel_version)}",osVersion="{escaped(machine.os_image)}"'
    )
    return family("cadvisor_version_info", _G, text, (f"cadvisor_version_info{{{labels}}} 1\n",))


def _machine(machine: MachineFacts) -> str:
    whose = (
        f'boot_id="{escaped(machine.boot_id)}",machine_id="{escaped(machine.machine_id)}",'
        f'system_uuid="{escaped(machine.system_uuid)}"'
    )
    series = (
        ("machine_cpu_cores", "Number of logical CPU cores.", machine.cpus),
        ("machine_memory_bytes", "Amount of memory installed on the machine.", machine.memory),
        ("machine_swap_bytes", "Amount of swap memory available on the machine.", machine.swap),
    )
    return "".join(family(name, _G, text, (f"{name}{{{whose}}} {value}\n",)) for name, text, value in series)
