"""A real Prometheus scrapes an agent, with the configuration that the documentation shows."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from kit.certificates import Authority, server_context
from kit.node import World
from kit.pods import make_pod
from kit.ports import free_port
from kit.waiting import eventually
from pykubelet.node.census import take_census
from pykubelet.pod.lifecycle.probe_results import Result
from pykubelet.pod.moments import ApiAnswered, Probed, RuntimeCalled, about
from pykubelet.pod.ports.server import Decision, Identity
from pykubelet.server.application import application
from pykubelet.server.endpoints import healthz
from pykubelet.server.metrics import metric_names
from pykubelet.server.metrics.metrics import Metrics
from pykubelet.web.serving import serving

DOCS = Path(__file__).parents[2] / "docs" / "monitoring"
TOKEN = "the-scrapers-token"
SERVED = ("/metrics", "/metrics/probes", "/metrics/slis")
OLD_NAMES = {
    *("kubelet_certificate_manager_client_expiration_renew_errors", "kubelet_evictions", "kubelet_preemptions"),
    *("kubelet_pleg_discard_events", "kubelet_server_expiration_renew_errors"),
    *("kubelet_evented_pleg_connection_error_count", "kubelet_evented_pleg_connection_success_count"),
    *("kubelet_cpu_manager_exclusive_cpu_allocation_count", "kubelet_topology_manager_admission_duration_ms"),
}
"""Upstream's, which do not end as is the custom now."""

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")


class TokenGate:
    async def identify(self, request: web.Request) -> Identity | None:
        return Identity(name="scraper") if request.headers.get("Authorization") == f"Bearer {TOKEN}" else None

    async def check(self, identity: Identity, method: str, path: str) -> Decision:
        return Decision(allowed=True)


@asynccontextmanager
async def node(authority: Authority) -> AsyncIterator[tuple[int, Metrics]]:
    """An agent that runs one pod, wired to its metrics as the application does it. -> the port of its HTTP API"""
    world = World()
    async with world.agent() as running:
        agent = running.agent
        metrics = Metrics("n1", cgroup_version=2, census=lambda: take_census(agent), now=world.now)
        world.journal.read_by(metrics.read)
        metrics.meters.count("kubelet_evictions", "memory.available")
        for moment in (
            RuntimeCalled("PullImage", 0.5, "no"),
            ApiAnswered("GET", "127.0.0.1:6443", "200"),
            Probed("readiness", "c", Result.SUCCESS, 0.01),
        ):
            world.journal.note(moment, about(make_pod()))
        checks = metrics.checked(healthz.checks(lambda: agent.loop.lateness))
        app = application((*metrics.routes(), *healthz.routes(checks)), TokenGate())
        metrics.attend(app)
        world.pods.apply(make_pod())
        await eventually(lambda: running.phase("uid-web") == "Running")
        tls = server_context(authority.issue("n1", hosts=["127.0.0.1"]))
        async with serving(app, "127.0.0.1", 0, tls=tls) as port:
            await asyncio.sleep(0)
            for check in checks.values():
                check()
            yield port, metrics


@asynccontextmanager
async def prometheus(folder: Path, port: int, authority: Authority) -> AsyncIterator[str]:
    """-> its address"""
    (folder / "token").write_text(TOKEN)
    (folder / "ca.crt").write_bytes(authority.pem)
    config = yaml.safe_load((DOCS / "prometheus.yml").read_text())
    config["global"]["scrape_interval"] = "1s"
    jobs = [job for job in config["scrape_configs"] if job["metrics_path"] in SERVED]
    for job in jobs:  # only what depends on the place is replaced
        job.pop("scrape_interval", None)
        assert job.pop("kubernetes_sd_configs") == [{"role": "node"}]
        job["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
        job["tls_config"] = {"ca_file": str(folder / "ca.crt")}
        job["authorization"] = {"credentials_file": str(folder / "token")}
    (folder / "prometheus.yml").write_text(yaml.safe_dump({**config, "scrape_configs": jobs}))
    address = f"127.0.0.1:{free_port()}"
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://{address}"
    finally:
        process.kill()  # what it has stored is of no further use
        await process.wait()


async def asked(session: aiohttp.ClientSession, path: str, **params: str) -> Any:
    try:
        async with session.get(path, params=params) as answer:
            return (await answer.json())["data"] if answer.status == 200 else None
    except aiohttp.ClientConnectionError:
        return None


async def test_a_real_prometheus_scrapes_a_node_and_finds_what_dashboards_ask_for(tmp_path: Path) -> None:
    authority = Authority()
    async with (
        node(authority) as (port, _),
        prometheus(tmp_path, port, authority) as address,
        aiohttp.ClientSession(address) as session,
    ):
        async with asyncio.timeout(40):
            while True:
                found = await asked(session, "/api/v1/targets")
                targets = found["activeTargets"] if found else []
                if len(targets) == len(SERVED) and all(target["health"] == "up" for target in targets):
                    break
                await asyncio.sleep(0.2)
        assert {target["labels"]["job"] for target in targets} == {"kubelet"}
        assert {target["labels"]["metrics_path"] for target in targets} == set(SERVED)
        queries = {
            "kubelet_running_pods": None,
            'kubelet_working_pods{lifecycle="sync",config="desired",static=""}': "1",
            'kubelet_node_name{node="n1"}': "1",
            'kubelet_evictions{eviction_signal="memory.available"}': "1",
            'kubelet_runtime_operations_errors_total{operation_type="pull_image"}': "1",
            'kubelet_pod_worker_duration_seconds_bucket{operation_type="create",le="1"}': "1",
            'kubelet_started_containers_total{container_type="container"}': "1",
            'prober_probe_total{result="successful",probe_type="Readiness"}': "1",
            'kubernetes_healthcheck{name="syncloop"}': "1",
            'rest_client_requests_total{code="200",method="GET"}': "1",
            "histogram_quantile(0.99, sum by (le) (kubelet_pleg_relist_duration_seconds_bucket))": None,
        }
        for query, value in queries.items():
            data = await asked(session, "/api/v1/query", query=query)
            assert data is not None, query
            assert data["result"], query
            assert value is None or data["result"][0]["value"][1] == value, query


async def test_promtool_finds_nothing_but_upstreams_old_names(tmp_path: Path) -> None:
    authority = Authority()
    async with node(authority) as (port, _):
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", headers=headers) as session:
            for path in SERVED:
                async with session.get(path, ssl=False) as answer:
                    body = await answer.read()
                process = await asyncio.create_subprocess_exec(
                    *("promtool", "check", "metrics"),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.STDOUT,
                )
                said, _ = await process.communicate(body)
                complaints = [line for line in said.decode().splitlines() if line.split(" ")[0] not in OLD_NAMES]
                assert not complaints, path


def test_the_dashboard_asks_only_for_what_there_is() -> None:
    known = {each.name for each in (*metric_names.METRICS, *metric_names.PROBES, *metric_names.SLIS)}
    known |= {"process_cpu_seconds_total", "process_resident_memory_bytes"}
    panels = json.loads((DOCS / "grafana-dashboard.json").read_text())["panels"]
    asked_for = {
        name.removesuffix("_bucket")
        for panel in panels
        for target in panel["targets"]
        for name in re.findall(r"([a-z_]+)\{", target["expr"])
    }
    assert len(asked_for) > 20
    assert asked_for <= known
