"""The shape of `/stats/summary`: a reading in the words of upstream's stats API, v1alpha1."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pykubelet.api.struct import rfc3339
from pykubelet.pod.stats.stats import (
    ContainerReading,
    Cpu,
    Disk,
    GroupReading,
    Interface,
    Memory,
    NodeReading,
    PodReading,
    Pressure,
    Reading,
    Usage,
    VolumeUsage,
)

Json = dict[str, Any]

_MAIN_INTERFACE: Final = "eth0"
_DISK: Final = (
    ("availableBytes", "available"),
    ("capacityBytes", "capacity"),
    ("usedBytes", "used"),
    ("inodesFree", "inodes_free"),
    ("inodes", "inodes"),
    ("inodesUsed", "inodes_used"),
)


def summary(reading: Reading, node_name: str, *, only_cpu_and_memory: bool = False) -> Json:
    """Of pods that have a container running, the only ones that upstream tells about."""
    details = not only_cpu_and_memory
    node = _node(reading, node_name)
    if details:
        node |= _node_details(reading)
    pods = [_pod(pod, details=details) for pod in reading.pods if pod.containers]
    return {"node": node, "pods": pods}


def _node(reading: Reading, name: str) -> Json:
    node = reading.node
    system = [_system(kind, each) for kind, each in node.system.items()]
    return {
        "nodeName": name,
        **({"systemContainers": system} if system else {}),
        "startTime": _moment(node.booted),
        **_usage(node.usage),
    }


def _node_details(reading: Reading) -> Json:
    node, at = reading.node, _time(reading.at)
    images = _disk(node.images) if node.images else None
    found: Json = {}
    if node.usage.io_pressure is not None:
        found["io"] = {"time": at, "psi": _pressure(node.usage.io_pressure)}
    found["network"] = _network(at, _default_interface(node), node.interfaces)
    if node.disk is not None:
        found["fs"] = _disk(node.disk)
    if images is not None:
        found["runtime"] = {"imageFs": images, "containerFs": images}
    found["rlimit"] = {"time": at, **_known({"maxpid": node.max_pid, "curproc": node.tasks})}
    return found


def _system(name: str, group: GroupReading) -> Json:
    return {"name": name, "startTime": _moment(group.started), **_usage(group.usage)}


def _pod(pod: PodReading, *, details: bool) -> Json:
    found: Json = {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": _started(pod.created_at),
        "containers": [_container(each, details=details) for each in pod.containers],
        **_usage(pod.usage),
    }
    if not details:
        return found
    if pod.usage.io_pressure is not None:
        found["io"] = {"time": _time(pod.usage.at), "psi": _pressure(pod.usage.io_pressure)}
    if pod.interfaces is not None:
        found["network"] = _network(_time(pod.usage.at), _MAIN_INTERFACE, pod.interfaces)
    if pod.volumes:
        found["volume"] = [_volume(each, pod.namespace) for each in pod.volumes]
    if pod.ephemeral is not None:
        found["ephemeral-storage"] = _disk(pod.ephemeral)
    processes = [each.usage.processes for each in pod.containers if each.usage.processes is not None]
    if processes:
        found["process_stats"] = {"process_count": sum(processes)}
    return found


def _container(container: ContainerReading, *, details: bool) -> Json:
    found: Json = {
        "name": container.name,
        "startTime": _started(container.created_at),
        **_usage(container.usage),
    }
    if details:
        if container.usage.io_pressure is not None:
            found["io"] = {"time": _time(container.usage.at), "psi": _pressure(container.usage.io_pressure)}
        if container.root is not None:
            found["rootfs"] = _disk(container.root)
        if container.logs is not None:
            found["logs"] = _disk(container.logs)
    return found


# --- parts


def _usage(usage: Usage) -> Json:
    at = _time(usage.at)
    found: Json = {}
    if usage.cpu is not None:
        found["cpu"] = _cpu(at, usage.cpu)
    if usage.memory is not None:
        found["memory"] = _memory(at, usage.memory)
        swap = {"swapAvailableBytes": usage.memory.swap_available, "swapUsageBytes": usage.memory.swap}
        found["swap"] = {"time": at, **_known(swap)}
    return found


def _cpu(at: str, cpu: Cpu) -> Json:
    found = {"time": at, **_known({"usageNanoCores": cpu.rate}), "usageCoreNanoSeconds": cpu.total}
    return found if cpu.pressure is None else found | {"psi": _pressure(cpu.pressure)}


def _memory(at: str, memory: Memory) -> Json:
    found = {
        "time": at,
        **_known({"availableBytes": memory.available}),
        "usageBytes": memory.usage,
        "workingSetBytes": memory.working_set,
        "rssBytes": memory.rss,
        "pageFaults": memory.page_faults,
        "majorPageFaults": memory.major_page_faults,
    }
    return found if memory.pressure is None else found | {"psi": _pressure(memory.pressure)}


def _pressure(pressure: Pressure) -> Json:
    def shape(total: int, shares: tuple[float, float, float]) -> Json:
        return {"total": total, "avg10": shares[0], "avg60": shares[1], "avg300": shares[2]}

    return {"full": shape(pressure.full, pressure.full_shares), "some": shape(pressure.some, pressure.some_shares)}


def _network(at: str, main: str, interfaces: Iterable[Interface]) -> Json:
    each = {one.name: _interface(one) for one in interfaces}
    found: Json = {"time": at, **each.get(main, {"name": ""})}
    return found | {"interfaces": list(each.values())} if each else found


def _interface(interface: Interface) -> Json:
    return {
        "name": interface.name,
        "rxBytes": interface.rx_bytes,
        "rxErrors": interface.rx_errors,
        "txBytes": interface.tx_bytes,
        "txErrors": interface.tx_errors,
    }


def _default_interface(node: NodeReading) -> str:
    """Machines call theirs by many names: the busiest one speaks for them where there is no eth0."""
    if any(each.name == _MAIN_INTERFACE for each in node.interfaces):
        return _MAIN_INTERFACE
    busiest = max(node.interfaces, key=lambda each: each.rx_bytes + each.tx_bytes, default=None)
    return busiest.name if busiest else ""


def _volume(volume: VolumeUsage, namespace: str) -> Json:
    found = _disk(volume.disk) | {"name": volume.name}
    if volume.claim:
        found["pvcRef"] = {"name": volume.claim, "namespace": namespace}
    if volume.health is not None:
        found["volumeHealthStats"] = {"abnormal": volume.health.is_abnormal}
    return found


def _disk(disk: Disk) -> Json:
    return {"time": _time(disk.at), **_known({shown: getattr(disk, name) for shown, name in _DISK})}


def _known(fields: Mapping[str, int | None]) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def _time(nanoseconds: int) -> str:
    return _moment(nanoseconds // 1_000_000_000)


def _moment(seconds: float) -> str:
    return rfc3339(datetime.fromtimestamp(int(seconds), UTC))


def _started(moment: datetime | None) -> str | None:
    return rfc3339(moment) if moment is not None else None
