"""The endpoints that only tell what the agent knows."""

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from kit.kubelet_server import Inside, OpenToAll
from kit.pods import make_pod
from pykubelet.config.agent import make_config
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.server.application import Route, application
from pykubelet.server.endpoints import healthz, pods, zpages
from pykubelet.server.logs import system_logs
from pykubelet.web.serving import serving


class Client:
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(path, allow_redirects=False) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def client(routes: Iterable[Route]) -> AsyncIterator[Client]:
    async with (
        serving(application(routes, OpenToAll()), "127.0.0.1", 0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield Client(session)


# --- health


async def test_health_is_told_as_a_whole_and_check_by_check() -> None:
    late = [0.0]
    async with client(healthz.routes(healthz.checks(lambda: late[0]))) as server:
        assert await server.get("/healthz") == (200, "ok")
        async with server.session.head("/healthz") as answer:  # as load balancers like to ask
            assert (answer.status, await answer.text()) == (200, "")
        assert await server.get("/healthz/syncloop") == (200, "ok")
        assert await server.get("/healthz/nothing") == (404, "404 page not found\n")
        assert await server.get("/healthz?verbose") == (
            200,
            "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n",
        )
        late[0] = 130.0
        status, text = await server.get("/healthz")
        assert status == 500
        assert "[-]syncloop failed: sync Loop took longer than expected: 130 s\n" in text
        assert (await server.get("/healthz/ping"))[0] == 200
        assert (await server.get("/healthz/syncloop"))[0] == 500
        assert await server.get("/healthz?exclude=syncloop") == (200, "ok")


# --- pods


async def test_pods_that_should_run_and_pods_that_do() -> None:
    async def observe() -> tuple[ObservedPod, ...]:
        running = ObservedContainer(id="1", name="c", image="busybox", state=State.RUNNING)
        ended = ObservedContainer(id="2", name="init", state=State.EXITED)
        sandbox = ObservedSandbox(id="s", ready=True)
        return (
            ObservedPod(uid="u1", name="web", namespace="default", sandboxes=(sandbox,), containers=(running, ended)),
            ObservedPod(uid="u2", name="gone", namespace="default", containers=(ended,)),
        )

    async with client(pods.routes(Inside(make_pod("web")), observe)) as server:
        async with server.session.get("/pods") as answer:
            found = await answer.json()
        assert (found["kind"], found["items"][0]["metadata"]["name"]) == ("PodList", "web")
        async with server.session.get("/runningpods/") as answer:
            running = (await answer.json())["items"]
        assert [(pod["metadata"]["name"], [c["name"] for c in pod["spec"]["containers"]]) for pod in running] == [
            ("web", ["c"])
        ]


# --- the agent itself


async def test_the_configuration_in_force_is_told_with_its_defaults() -> None:
    async def facts() -> MachineFacts:
        return MachineFacts(hostname="n1", ips=("192.0.2.1",), cpus=2, memory=1 << 30, machine_id="m")

    started = datetime(2026, 1, 1, tzinfo=UTC)
    said = zpages.About(
        configuration=make_config({"maxPods": 7}).configuration,
        flags={"max-pods": "7"},
        started=started,
        now=lambda: datetime(2026, 1, 1, 1, 2, 3, tzinfo=UTC),
        facts=facts,
    )
    async with client(zpages.routes(said, lambda: ["/pods", "/configz"])) as server:
        async with server.session.get("/configz") as answer:
            found = (await answer.json())["kubeletconfig"]
        assert (found["maxPods"], found["port"], found["authentication"]["webhook"]["cacheTTL"]) == (7, 10250, "2m")
        assert "max-pods=7\n" in (await server.get("/flagz"))[1]
        statusz = (await server.get("/statusz"))[1]
        assert "Up: 1 hr 02 min 03 sec\n" in statusz
        assert "Paths: /configz /pods\n" in statusz
        async with server.session.get("/spec/") as answer:
            assert (await answer.json())["num_cores"] == 2


# --- log files of the machine


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    (folder / "deep").mkdir(parents=True)
    (folder / "syslog").write_text("one\ntwo\n")
    (folder / "deep" / "a b<c>.log").write_text("deep\n")
    (tmp_path / "secret").write_text("key\n")
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "web.log").write_text("web\n")
    (tmp_path / "log2").mkdir()
    (tmp_path / "log2" / "secret").write_text("key\n")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "near").symlink_to(tmp_path / "log2")
    (folder / "web.log").symlink_to(tmp_path / "pods" / "web.log")
    os.mkfifo(folder / "pipe")
    return folder


async def test_log_files_can_be_read_and_looked_through(logs: Path) -> None:
    async with client(system_logs.routes(logs, (logs.parent / "pods",))) as server:
        assert await server.get("/logs/syslog") == (200, "one\ntwo\n")
        assert await server.get("/logs/deep/a%20b%3Cc%3E.log") == (200, "deep\n")
        assert await server.get("/logs/web.log") == (200, "web\n")
        status, page = await server.get("/logs/")
        assert status == 200
        assert '<a href="deep/">deep/</a>' in page
        assert '<a href="a%20b%3Cc%3E.log">a b&lt;c&gt;.log</a>' in (await server.get("/logs/deep/"))[1]
        assert (await server.get("/logs"))[0] == 301
        assert (await server.get("/logs/deep"))[0] == 301


@pytest.mark.parametrize(
    "path",
    [
        "/logs/../secret",
        "/logs/%2e%2e/secret",
        "/logs/..%2fsecret",
        "/logs/%2e%2e%2fsecret",
        "/logs/deep/../../secret",
        "/logs/deep/%2e%2e/%2e%2e/secret",
        "/logs//etc/passwd",
        "/logs/%2fetc%2fpasswd",
        "/logs/out",
        "/logs/near/secret",
        "/logs/pipe",
        "/logs/syslog%00.txt",
        "/logs/nothing",
        "/logs/" + "x" * 5000,
    ],
)
async def test_nothing_outside_of_the_folder_can_be_had(logs: Path, path: str) -> None:
    from yarl import URL

    async with client(system_logs.routes(logs)) as server:
        url = URL(f"{server.session._base_url}".rstrip("/") + path, encoded=True)
        async with server.session.get(url) as answer:
            assert answer.status == 404
            assert "key" not in await answer.text()


async def test_logs_can_be_switched_off(logs: Path) -> None:
    async with client(system_logs.routes(logs, enabled=False)) as server:
        assert await server.get("/logs/syslog") == (405, "logs endpoint is disabled.\n")
