"""The kubelet's HTTP API of the real agent on a real containerd: logs that are rotated, streams that are handed on."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.agent_process import Node
from kit.containerd import Containerd
from kit.kubelet_api import OPEN, KubeletApi, configured, numbers_of, port_of, samples
from kit.waiting import wait_for

ROUNDS, EACH = 8, 40_000
LINES = ROUNDS * EACH
WRITER = (
    f"for r in $(seq 0 {ROUNDS - 1}); do"
    f" awk -v r=$r 'BEGIN {{ for (i = r * {EACH}; i < (r + 1) * {EACH}; i++) printf \"%09d {'x' * 90}\\n\", i }}';"
    " sleep 0.6; done; sleep 1000"
)
READER = 'nc -ll -p 8080 -e cat & echo ready; while read line; do echo "got $line"; done; sleep 1000'
ROTATING = "containerLogMaxSize: 1Mi\ncontainerLogMonitorInterval: 3s\n"
V4 = "v4.channel.k8s.io"


def manifest(name: str, command: str) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 0\n"
        "  volumes: [{name: scratch, emptyDir: {}}]\n"
        "  containers:\n  - name: c\n    image: busybox:1.36\n    imagePullPolicy: IfNotPresent\n    stdin: true\n"
        "    resources: {requests: {cpu: 10m}, limits: {cpu: 2}}\n"
        "    volumeMounts: [{name: scratch, mountPath: /scratch}]\n"
        f"    command:\n    - sh\n    - -c\n    - |-\n      {command}\n"
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, containerd: Containerd) -> Iterator[tuple[Node, int]]:
    folder = tmp_path_factory.mktemp("node")
    flags = ("--config", configured(folder, OPEN + ROTATING), "--container-runtime-endpoint", containerd.endpoint)
    node = Node(folder, *flags)
    for name, command in (("busy", WRITER), ("reader", READER)):
        (node.manifests / f"{name}.yaml").write_text(manifest(name, command))
    with node.agent("--stop-pods-on-exit") as agent:
        found = port_of(node, agent)
        wait_for(lambda: node.containers().keys() == {"busy", "reader"}, otherwise=node.told)
        yield node, found
        agent.stop()
    node.remove_pods()


@pytest.fixture
def port(running: tuple[Node, int]) -> int:
    return running[1]


async def test_who_follows_a_busy_container_gets_every_line_once_through_all_rotations(
    running: tuple[Node, int],
) -> None:
    node, port = running
    last, text = b"%09d " % (LINES - 1), bytearray()
    path = "/containerLogs/default/busy-n1/c?follow=true"
    async with KubeletApi(port) as api, asyncio.timeout(50), api.session.get(path) as answer:
        async for block in answer.content.iter_any():
            text += block
            if last in text[-2 * len(block) - 200 :] and text.endswith(b"\n"):
                break
    assert numbers_of(bytes(text)) == range(LINES)
    folder = next((node.state / "logs").glob("default_busy-n1_*/c"))
    assert len(list(folder.iterdir())) >= 2  # it was rotated under way


async def test_commands_terminals_and_ports_are_handed_on_to_the_runtime(port: int) -> None:
    async with KubeletApi(port, protocol=V4) as api:
        done = await api.run("default/reader-n1/c", "sh", "-c", "hostname; echo err >&2; exit 5")
        assert (done.stdout, done.stderr, done.code) == (b"reader-n1\n", b"err\n", 5)
        async with api.exec("default/reader-n1/c", "sh", stdin=True, tty=True) as stream:
            await stream.say(b"tty; exit 3\n")
            outcome = await stream.outcome()
            assert b"/dev/pts/" in outcome.stdout
            assert outcome.code == 3
        async with api.stream("/attach/default/reader-n1/c", [("input", "1"), ("output", "1")]) as stream:
            await stream.say(b"hello\n")
            await stream.until(b"got hello\n")
        async with api.stream("/portForward/default/reader-n1", [("port", "8080")]) as stream:
            much = bytes(range(256)) * 500
            await stream.say(much)
            while len(stream.heard.get(0, b"")) < len(much) + 2:
                assert await stream.hear()
            assert stream.heard[0] == (8080).to_bytes(2, "little") + much
        assert await api.get("/run/default/reader-n1/c?cmd=echo%20hello", "POST") == (200, "hello\n")
        assert (await api.get("/exec/default/reader-n1/another-uid/c?command=id&output=1"))[0] == 404


async def test_what_pods_use_is_told(port: int) -> None:
    async with KubeletApi(port) as api:
        summary = await api.json("/stats/summary")
        pods = {pod["podRef"]["name"]: pod for pod in summary["pods"]}
        assert pods.keys() == {"busy-n1", "reader-n1"}
        busy = pods["busy-n1"]
        assert busy["containers"][0]["cpu"]["usageCoreNanoSeconds"] > 100_000_000
        assert 0 < busy["memory"]["workingSetBytes"] < summary["node"]["memory"]["availableBytes"]
        assert busy["network"]["interfaces"]
        cadvisor = (await api.get("/metrics/cadvisor"))[1]
        assert samples(cadvisor, "container_cpu_usage_seconds_total", pod="busy-n1", container="c")[0] > 0.1


async def test_dashboards_find_what_they_query_on_a_real_node(port: int) -> None:
    """Every metric of `dashboard_metrics.json` has series here, apart from those that nothing has happened for."""
    asked_for = json.loads((Path(__file__).parents[1] / "data" / "dashboard_metrics.json").read_text())
    not_here = {
        *("go_goroutines", "kubelet_node_config_error", "storage_operation_errors_total"),  # nobody has them
        "kubelet_evictions",  # nobody was evicted
        *(name for name in asked_for if name.startswith("kubelet_volume_stats_")),  # no volume is claimed
        *(name for name in asked_for if name.startswith("rest_client_")),  # there is no API server
        *("container_fs_reads_total", "container_fs_writes_total"),  # not every kernel counts them
    }
    async with KubeletApi(port) as api:
        page = (await api.get("/metrics"))[1] + (await api.get("/metrics/cadvisor"))[1]
    found = {name.removesuffix("_bucket") for name in re.findall(r"^([a-z0-9_]+)[{ ]", page, re.MULTILINE)}
    assert {name for name in asked_for if name not in found} - not_here == set()
    for name in ("container_fs_writes_bytes_total", "container_sockets", "container_cpu_load_average_10s"):
        assert samples(page, name, pod="reader-n1", container="c"), name
    assert re.search(r"^kubelet_cgroup_version [12]$", page, re.MULTILINE)
