"""What everybody uses, as the endpoints tell it."""

import json
import re
from datetime import UTC, datetime

from kit.kubelet_server import Inside, client
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.stats.stats import (
    ContainerReading,
    Cpu,
    Disk,
    DiskActivity,
    DiskIo,
    GroupReading,
    Interface,
    Memory,
    NodeReading,
    PodReading,
    Pressure,
    Reading,
    SandboxReading,
    TaskStates,
    Usage,
)
from pykubelet.server.endpoints import stats
from pykubelet.server.metrics import cadvisor, resource_metrics

AT = 1_700_000_000_123_000_000
MADE = datetime(2023, 11, 14, 20, 0, 0, 500_000, tzinfo=UTC)
FACTS = MachineFacts(
    hostname="n1",
    ips=("10.0.0.1",),
    cpus=4,
    cpu_cores=2,
    cpu_sockets=1,
    memory=8 << 30,
    swap=1024,
    machine_id="m",
    boot_id="b",
    system_uuid="s",
)
LINE = re.compile(r'([a-z0-9_]+)(?:\{((?:[a-zA-Z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? ([0-9.e+-]+)(?: (\d+))?')
LABEL = re.compile(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"')

Sample = tuple[float, str | None]


def usage(total: int, quota: int = 0) -> Usage:
    return Usage(
        at=AT,
        cpu=Cpu(
            total=total, user=1, system=2, quota=quota, period=100_000, shares=256, pressure=Pressure(7_000_000, 5)
        ),
        memory=Memory(usage=10, working_set=8, rss=5, page_faults=3, limit=20, swap=2, swap_limit=6),
        io=(DiskIo(device="/dev/vda", numbers="254:0", read_bytes=1, written_bytes=2, reads=3, writes=4),),
        processes=2,
        threads=5,
        threads_max=0,
        descriptors=9,
        sockets=3,
        open_files_limit=1024,
        states=TaskStates(running=1, sleeping=4),
        loads=(1500, 0),
        oom_kills=1,
    )


def reading(container: str = "c") -> Reading:
    disk = Disk(at=AT, device="/dev/vda1", capacity=100, available=60, used=40, inodes=10, inodes_free=7)
    activity = DiskActivity(**{name: 1000 + number for number, name in enumerate(DiskActivity.__struct_fields__)})
    whole = changed(disk, device="/dev/vda", activity=activity)
    eth0 = Interface(name="eth0", rx_bytes=11, tx_bytes=12)
    box = SandboxReading(id="s1", image="pause:3", group="/kubepods/podu/s1", usage=usage(1_000))
    app = ContainerReading(
        id="c1",
        name=container,
        image="app:1",
        group="/kubepods/podu/c1",
        created_at=MADE,
        usage=usage(2_500_000_000, 5),
    )
    pod = PodReading(
        uid="u",
        name="web",
        namespace="default",
        created_at=MADE,
        group="/kubepods/podu",
        usage=usage(3_500_000_000),
        containers=(app,),
        sandbox=box,
        interfaces=(eth0,),
    )
    plain = PodReading(
        uid="v", name="plain", namespace="default", created_at=MADE, group="", usage=usage(9), interfaces=(eth0,)
    )
    kubepods = GroupReading(group="/kubepods", usage=usage(4_000_000_000), started=1.0)
    node = NodeReading(
        usage=usage(9_000_000_000), booted=5.0, interfaces=(eth0,), disks=(disk, whole), groups=(kubepods,)
    )
    return Reading(at=AT, node=node, pods=(pod, plain), has_details=True)


class Fixed:
    """Gives one reading, or fails."""

    def __init__(self, found: Reading | Exception) -> None:
        self.found = found
        self.asked: list[bool] = []

    async def read(self, *, details: bool = True) -> Reading:
        self.asked.append(details)
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


async def facts() -> MachineFacts:
    return FACTS


def samples(text: str) -> dict[str, dict[frozenset[tuple[str, str]], Sample]]:
    """Every series by name and labels. Checks the rules of the format on the way."""
    found: dict[str, dict[frozenset[tuple[str, str]], Sample]] = {}
    typed = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            typed = line.split()[2]
            assert typed not in found, f"{typed} comes twice"
            found[typed] = {}
        elif not line.startswith("# HELP "):
            match = LINE.fullmatch(line)
            assert match is not None, line
            name, labels, value, stamp = match.groups()
            assert name == typed, line
            pairs = LABEL.findall(labels or "")
            assert pairs == sorted(pairs), line
            assert frozenset(pairs) not in found[name], f"{line} comes twice"
            found[name][frozenset(pairs)] = (float(value), stamp)
    assert list(found) == sorted(found)
    return found


def one(found: dict[frozenset[tuple[str, str]], Sample], **labels: str) -> Sample:
    """The only sample with these labels among its own."""
    (sample,) = [sample for key, sample in found.items() if labels.items() <= dict(key).items()]
    return sample


# --- summary


async def test_the_summary_is_json_and_can_be_asked_for_less() -> None:
    source = Fixed(reading())
    async with client(stats.routes(Inside(), source)) as server:
        status, text = await server.get("/stats/summary")
        assert status == 200
        told = json.loads(text)
        assert told["node"]["nodeName"] == "n1"
        assert [pod["podRef"]["name"] for pod in told["pods"]] == ["web"]
        assert "network" in told["pods"][0]
        less = json.loads((await server.get("/stats/summary?only_cpu_and_memory=true"))[1])
        assert "network" not in less["pods"][0]
        assert less["pods"][0]["containers"][0]["cpu"]["usageCoreNanoSeconds"] == 2_500_000_000
    assert source.asked == [True, False]


async def test_a_summary_that_cannot_be_had_is_said_to_be_so() -> None:
    async with client(stats.routes(Inside(), Fixed(Retry("the runtime does not answer")))) as server:
        assert await server.get("/stats/summary") == (503, "the runtime does not answer")


def test_all_of_it_is_on_the_read_only_port() -> None:
    source = Fixed(reading())
    routes = (*stats.routes(Inside(), source), *cadvisor.routes(source, facts), *resource_metrics.routes(source))
    assert all(route.is_open for route in routes)


# --- resource


async def test_metrics_server_finds_its_series_with_their_times() -> None:
    source = Fixed(reading())
    async with client(resource_metrics.routes(source)) as server, server.session.get("/metrics/resource") as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = samples(await answer.text())
    assert source.asked == [False]
    stamp = "1700000000123"
    container = {"container": "c", "namespace": "default", "pod": "web"}
    pod = {"namespace": "default", "pod": "web"}
    assert found["container_cpu_usage_seconds_total"] == {frozenset(container.items()): (2.5, stamp)}
    assert found["container_memory_working_set_bytes"] == {frozenset(container.items()): (8.0, stamp)}
    assert found["container_start_time_seconds"] == {frozenset(container.items()): (MADE.timestamp(), None)}
    assert found["container_swap_usage_bytes"] == {frozenset(container.items()): (2.0, stamp)}
    assert found["container_swap_limit_bytes"] == {frozenset(container.items()): (6.0, stamp)}
    assert found["pod_cpu_usage_seconds_total"] == {frozenset(pod.items()): (3.5, stamp)}
    assert found["pod_memory_working_set_bytes"] == {frozenset(pod.items()): (8.0, stamp)}
    assert found["pod_swap_usage_bytes"] == {frozenset(pod.items()): (2.0, stamp)}
    assert found["node_cpu_usage_seconds_total"] == {frozenset(): (9.0, stamp)}
    assert found["node_memory_working_set_bytes"] == {frozenset(): (8.0, stamp)}
    assert found["node_swap_usage_bytes"] == {frozenset(): (2.0, stamp)}
    assert found["resource_scrape_error"] == {frozenset(): (0.0, None)}


async def test_a_failed_look_is_a_series_too() -> None:
    failing = Fixed(Retry("the runtime does not answer"))
    async with client((*resource_metrics.routes(failing), *cadvisor.routes(failing, facts))) as server:
        status, text = await server.get("/metrics/resource")
        assert status == 200
        assert samples(text) == {
            "resource_scrape_error": {frozenset(): (1.0, None)},
        }
        status, text = await server.get("/metrics/cadvisor")
        assert status == 200
        assert samples(text)["container_scrape_error"] == {frozenset(): (1.0, None)}


# --- cadvisor


async def test_dashboards_find_containers_pods_and_the_node() -> None:
    async with client(cadvisor.routes(Fixed(reading()), facts)) as server:
        found = samples((await server.get("/metrics/cadvisor"))[1])
    stamp = "1700000000123"
    cpu = found["container_cpu_usage_seconds_total"]
    container = {
        "container": "c",
        "cpu": "total",
        "id": "/kubepods/podu/c1",
        "image": "app:1",
        "name": "c1",
        "namespace": "default",
        "pod": "web",
    }
    assert cpu[frozenset(container.items())] == (2.5, stamp)
    nobody = dict.fromkeys(("container", "image", "name", "namespace", "pod"), "")
    assert cpu[frozenset({**nobody, "cpu": "total", "id": "/"}.items())] == (9.0, stamp)
    assert cpu[frozenset({**nobody, "cpu": "total", "id": "/kubepods"}.items())] == (4.0, stamp)
    assert one(cpu, id="/kubepods/podu", container="", pod="web", name="") == (3.5, stamp)
    assert one(found["container_memory_working_set_bytes"], container="c") == (8.0, stamp)
    assert one(found["container_spec_memory_limit_bytes"], container="c") == (20.0, None)
    assert one(found["container_start_time_seconds"], container="c") == (1_699_992_000.0, None)
    assert one(found["container_processes"], container="c") == (2.0, stamp)
    assert one(found["container_oom_events_total"], container="c") == (1.0, stamp)
    assert one(found["container_fs_writes_bytes_total"], container="c", device="/dev/vda") == (2.0, stamp)
    assert one(found["container_fs_usage_bytes"], device="/dev/vda1", id="/") == (40.0, stamp)
    assert one(found["container_fs_reads_total"], container="c", device="/dev/vda") == (3.0, stamp)
    assert one(found["container_fs_reads_total"], id="/", device="/dev/vda") == (1000.0, stamp)
    assert one(found["container_fs_io_time_seconds_total"], device="/dev/vda") == (1.009, stamp)
    assert one(found["container_fs_sector_writes_total"], device="/dev/vda") == (1006.0, stamp)
    used = found["container_blkio_device_usage_total"]
    assert one(used, container="c", device="/dev/vda", major="254", minor="0", operation="Write") == (2.0, stamp)
    assert one(found["container_sockets"], container="c") == (3.0, stamp)
    assert one(found["container_ulimits_soft"], container="c", ulimit="max_open_files") == (1024.0, stamp)
    assert one(found["container_tasks_state"], container="c", state="sleeping") == (4.0, stamp)
    assert one(found["container_cpu_load_average_10s"], container="c") == (1500.0, stamp)
    faults = found["container_memory_failures_total"]
    assert one(faults, container="c", failure_type="pgfault", scope="hierarchy") == (3.0, stamp)
    assert one(found["container_pressure_cpu_waiting_seconds_total"], container="c") == (7.0, stamp)
    (machine,) = found["machine_memory_bytes"].items()
    assert machine == (frozenset({"boot_id": "b", "machine_id": "m", "system_uuid": "s"}.items()), (8.0 * 2**30, None))
    assert one(found["machine_cpu_physical_cores"]) == (2.0, None)
    assert one(found["machine_cpu_sockets"]) == (1.0, None)
    assert found["container_scrape_error"] == {frozenset(): (0.0, None)}
    assert len(found["cadvisor_version_info"]) == 1


def test_throttling_is_told_of_those_who_have_a_quota() -> None:
    found = samples(cadvisor.exposition(reading(), FACTS))
    for name in ("container_cpu_cfs_periods_total", "container_spec_cpu_quota"):
        assert [dict(key)["container"] for key in found[name]] == ["c"]


def test_the_network_of_a_pod_is_that_of_its_sandbox() -> None:
    found = samples(cadvisor.exposition(reading(), FACTS))["container_network_receive_bytes_total"]
    assert one(found, pod="web", interface="eth0", name="s1", image="pause:3", container="") == (11.0, "1700000000123")
    assert one(found, pod="plain", interface="eth0", name="", id="/podv") == (11.0, "1700000000123")
    assert one(found, id="/", pod="") == (11.0, "1700000000123")


def test_whatever_a_name_holds_the_text_stays_readable() -> None:
    strange = 'a"b\\c\nd'
    found = samples(cadvisor.exposition(reading(strange), FACTS))
    assert one(found["container_memory_rss"], container='a\\"b\\\\c\\nd')[0] == 5.0
    assert samples(resource_metrics.exposition(reading(strange)))
