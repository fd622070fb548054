"""What containers, pods and control groups use, under cAdvisor's names: `/metrics/cadvisor`, what dashboards show."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

from aiohttp import web

from pykubelet.base.errors import PykubeletError
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.stats.stats import Disk, Interface, PodReading, Reading, Stats, TaskStates, Usage
from pykubelet.server.application import Route
from pykubelet.server.metrics.cadvisor_series import (
    ACTIVITY,
    CPU,
    DISK,
    GENERAL,
    IO,
    MEMORY,
    MICRO,
    NANO,
    NETWORK,
    PRESSURES,
    SPEC,
    Value,
)
from pykubelet.server.metrics.text_format import answer, escaped, family

log = logging.getLogger(__name__)

Facts = Callable[[], Awaitable[MachineFacts]]
_OF_DEVICES: Final = frozenset(name for name, _, _ in ACTIVITY)
_G: Final = "gauge"
_C: Final = "counter"


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


# --- the text


def _families(subjects: list[_Subject]) -> Iterator[tuple[str, str]]:
    """By name, in no order."""
    yield from _plain(subjects)
    yield from _specs(subjects)
    yield from _pressures(subjects)
    yield from _disks(subjects)
    yield from _tasks(subjects)
    name = "container_cpu_usage_seconds_total"
    yield (
        name,
        family(
            name,
            _C,
            "Cumulative cpu time consumed in seconds.",
            [
                f'{name}{{{s.container},cpu="total",{s.identity},{s.names}}} {s.usage.cpu.total * NANO!r}{s.stamp}'
                for s in subjects
                if s.usage.cpu is not None and s.usage.cpu.total > 0
            ],
        ),
    )
    name = "container_memory_failures_total"
    yield name, family(name, _C, "Cumulative count of memory allocation failures.", _failures(name, subjects))
    for short, what, count in NETWORK:
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
    for name, text, of_cpu in CPU:
        yield _family(name, text, ((a, b, of_cpu(cpu)) for a, b, cpu in cpus))
    for name, text, of_memory in MEMORY:
        yield _family(name, text, ((a, b, of_memory(memory)) for a, b, memory in memories))
    for name, text, of_usage in GENERAL:
        yield _family(name, text, ((a, b, of_usage(usage)) for a, b, usage in labelled))


def _specs(subjects: list[_Subject]) -> Iterator[tuple[str, str]]:
    """What was asked for, not what was measured: it has no time."""
    labelled = [(s.labels, s.usage) for s in subjects]
    for name, text, value in SPEC:
        yield _family(name, text, ((labels, "\n", value(usage)) for labels, usage in labelled))
    name = "container_start_time_seconds"
    starts = ((s.labels, "\n", int(s.started) or None) for s in subjects)
    yield _family(name, "Start time of the container since unix epoch in seconds.", starts)


def _pressures(subjects: list[_Subject]) -> Iterator[tuple[str, str]]:
    for short, what, of in PRESSURES:
        found = [(s.labels, s.stamp, pressure) for s in subjects if (pressure := of(s.usage)) is not None]
        name = f"container_pressure_{short}_stalled_seconds_total"
        text = f"Total time duration no tasks in the container could make progress due to {what} congestion."
        yield _family(name, text, ((a, b, each.full * MICRO) for a, b, each in found))
        name = f"container_pressure_{short}_waiting_seconds_total"
        text = f"Total time duration tasks in the container have waited due to {what} congestion."
        yield _family(name, text, ((a, b, each.some * MICRO) for a, b, each in found))


def _disks(subjects: list[_Subject]) -> Iterator[tuple[str, str]]:
    lines: dict[str, list[str]] = {}
    help_of: dict[str, str] = {}

    def add(name: str, text: str, labels: str, stamp: str, value: Value) -> None:
        help_of[name] = text
        if value is not None:
            lines.setdefault(name, []).append(f"{name}{{{labels}}} {value!r}{stamp}")

    for s in subjects:
        devices = {disk.device for disk in s.disks if disk.activity is not None}
        for transfer in s.usage.io:
            labels = _on_device(s, transfer.device)
            for name, text, count in IO:
                if transfer.device not in devices or name not in _OF_DEVICES:
                    add(name, text, labels, s.stamp, count(transfer))
        for disk in s.disks:
            if (activity := disk.activity) is not None:
                labels = _on_device(s, disk.device)
                for name, text, done in ACTIVITY:
                    add(name, text, labels, s.stamp, done(activity))
    for name, body in lines.items():
        yield name, family(name, _kind(name), help_of[name], body)
    name = "container_blkio_device_usage_total"
    yield name, family(name, _C, "Blkio Device bytes usage", _device_usage(name, subjects))
    held = [(_on_device(s, each.device), s.stamp, each) for s in subjects for each in s.disks]
    for name, text, amount in DISK:
        yield _family(name, text, ((a, b, amount(each)) for a, b, each in held))


def _device_usage(name: str, subjects: Iterable[_Subject]) -> Iterator[str]:
    for s in subjects:
        for each in s.usage.io:
            if each.numbers:
                major, _, minor = each.numbers.partition(":")
                for operation, count in (("Read", each.read_bytes), ("Write", each.written_bytes)):
                    device = f'device="{escaped(each.device)}",{s.identity},major="{major}",minor="{minor}"'
                    whose = s.names.replace(",pod=", f',operation="{operation}",pod=')
                    yield f"{name}{{{s.container},{device},{whose}}} {count}{s.stamp}"


def _tasks(subjects: Iterable[_Subject]) -> Iterator[tuple[str, str]]:
    name = "container_tasks_state"
    states = [
        f'{name}{{{s.labels},state="{state}"}} {getattr(s.usage.states, state)}{s.stamp}'
        for s in subjects
        if s.usage.states is not None
        for state in TaskStates.__struct_fields__
    ]
    yield name, family(name, _G, "Number of tasks in given state", states)
    name = "container_ulimits_soft"
    text = "Soft ulimit values for the container root process. Unlimited if -1, except priority and nice"
    limits = [
        f'{name}{{{s.labels},ulimit="max_open_files"}} {s.usage.open_files_limit}{s.stamp}'
        for s in subjects
        if s.usage.open_files_limit is not None
    ]
    yield name, family(name, _G, text, limits)


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
    lines = [f"{name}{{{labels}}} {value!r}{stamp}" for labels, stamp, value in values if value is not None]
    return name, family(name, _kind(name), text, lines)


def _kind(name: str) -> str:
    return _C if name.endswith(("_total", "_failcnt")) and name != "container_fs_inodes_total" else _G


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
        ("machine_cpu_physical_cores", "Number of physical CPU cores.", machine.cpu_cores or None),
        ("machine_cpu_sockets", "Number of CPU sockets.", machine.cpu_sockets or None),
        ("machine_memory_bytes", "Amount of memory installed on the machine.", machine.memory),
        ("machine_swap_bytes", "Amount of swap memory available on the machine.", machine.swap),
    )
    told = {
        name: family(name, _G, text, (f"{name}{{{whose}}} {value}\n",))
        for name, text, value in series
        if value is not None
    }
    name = "machine_scrape_error"
    text = "1 if there was an error while getting machine metrics, 0 otherwise."
    told[name] = family(name, _G, text, (f"{name} 0\n",))
    return "".join(told[name] for name in sorted(told))
