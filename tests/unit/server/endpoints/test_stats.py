"""What everybody uses, as the endpoints tell it."""

import json

from kit.kubelet_server import Inside, client
from kit.readings import FACTS, MADE, Fixed, one, reading, samples
from pykubelet.base.errors import Retry
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.server.endpoints import stats
from pykubelet.server.metrics import cadvisor, resource_metrics


async def facts() -> MachineFacts:
    return FACTS


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
