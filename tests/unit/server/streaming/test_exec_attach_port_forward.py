"""The paths into containers: who is meant, what is asked of the runtime, and who takes the connection over."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kit.kubelet_server import Inside, OpenToAll
from kit.local_streams import LocalConnection, LocalSession
from kit.pods import make_pod
from kit.spdy import spdy_client
from pykubelet.api.codec import convert
from pykubelet.api.pod import ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.ports.runtime import ExecResult
from pykubelet.pod.ports.server import Connection, Session, StreamUrl
from pykubelet.server.application import application
from pykubelet.server.streaming import exec_attach_port_forward
from pykubelet.server.streaming.exec_attach_port_forward import ContainerStreams
from pykubelet.web.serving import serving


class Agent(Inside):
    def __init__(self) -> None:
        running = ContainerState(running=ContainerStateRunning())
        status = ContainerStatus(name="c", state=running, container_id="containerd://abc")
        super().__init__(changed(make_pod("web"), status=PodStatus(container_statuses=(status,))))
        self.sandbox = "sandbox"

    def find_pod(self, namespace: str, name: str, uid: str = "") -> Pod | None:
        return super().find_pod(namespace, name, "uid-web" if uid == "uid-mirror" else uid)

    def sandbox_id(self, uid: str) -> str:
        return self.sandbox if uid == "uid-web" else ""


class Runtime:
    """Opens what it is asked for on this machine, or says where else to go."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.url = ""
        self.result = ExecResult(exit_code=0, stdout=b"out", stderr=b"err")

    async def exec(self, container_id: str, command: Sequence[str], **wanted: bool) -> StreamUrl | Session:
        self.asked.append(("exec", container_id, tuple(command), wanted))
        return StreamUrl(self.url) if self.url else await LocalSession.start(command)

    async def attach(self, container_id: str, **wanted: bool) -> StreamUrl | Session:
        self.asked.append(("attach", container_id, wanted))
        return StreamUrl(self.url) if self.url else await LocalSession.start(["sh", "-c", "echo hello; exit 4"])

    async def port_forward(self, sandbox_id: str, ports: Sequence[int]) -> StreamUrl | None:
        self.asked.append(("port_forward", sandbox_id, tuple(ports)))
        return StreamUrl(self.url) if self.url else None

    async def connect(self, sandbox_id: str, port: int) -> Connection:
        self.asked.append(("connect", sandbox_id, port))
        return await LocalConnection.to(port)

    async def checkpoint(self, container_id: str, location: str) -> None:
        self.asked.append(("checkpoint", container_id))
        self.asked.append(location)

    async def exec_sync(self, container_id: str, command: tuple[str, ...], timeout: float) -> ExecResult:
        self.asked.append(("exec_sync", container_id, command))
        return self.result


class Server:
    def __init__(self, port: int, agent: Agent, runtime: Runtime) -> None:
        self.port = port
        self.agent = agent
        self.runtime = runtime

    async def ask(self, path: str, method: str = "POST", **headers: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{self.port}{path}", headers=headers) as answer,
        ):
            return answer.status, await answer.text()


@asynccontextmanager
async def server(tmp_path: Path, **options: Any) -> AsyncIterator[Server]:
    agent, runtime = Agent(), Runtime()
    checkpoints = tmp_path / "checkpoints"
    made = ContainerStreams(agent, runtime, runtime, checkpoints=checkpoints, **options)  # type: ignore[arg-type]
    async with serving(application(made.routes(), OpenToAll()), "127.0.0.1", 0) as port:
        yield Server(port, agent, runtime)


UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
EXEC = "/exec/default/web/c?command=sh&command=-c&command=echo%20hi;%20exit%203&output=1&error=1"


async def test_exec_is_served_by_ourselves_when_the_runtime_gives_a_session(tmp_path: Path) -> None:
    async with server(tmp_path) as s:
        for path in (EXEC, EXEC.replace("/web/", "/web/uid-web/"), EXEC.replace("/web/", "/web/uid-mirror/")):
            async with spdy_client(s.port, path, "v4.channel.k8s.io") as client:
                error, stdout = (client.open({"streamtype": kind}) for kind in ("error", "stdout"))
                client.open({"streamtype": "stderr"})
                await client.to_the_end()
                assert client.data[stdout] == b"hi\n"
                assert b'"message":"3"' in client.data[error]
        wanted = {"stdin": False, "stdout": True, "stderr": True, "tty": False}
        assert s.runtime.asked == [("exec", "abc", ("sh", "-c", "echo hi; exit 3"), wanted)] * 3


async def test_a_terminal_has_no_output_for_errors(tmp_path: Path) -> None:
    async with server(tmp_path) as s:
        s.runtime.url = "http://127.0.0.1:1/"
        assert (await s.ask(EXEC + "&input=1&tty=1", **UPGRADE))[0] == 503
        assert s.runtime.asked[0][3] == {"stdin": True, "stdout": True, "stderr": False, "tty": True}
        assert (await s.ask("/attach/default/web/c?stdout=true&stderr=true&tty=true", "GET", **UPGRADE))[0] == 503
        assert s.runtime.asked[1][2] == {"stdin": False, "stdout": True, "stderr": False, "tty": True}


async def test_the_exit_code_of_a_container_is_no_failure_of_attaching_to_it(tmp_path: Path) -> None:
    path = "/attach/default/web/c?output=1"
    async with server(tmp_path) as s, spdy_client(s.port, path, "v4.channel.k8s.io") as client:
        error, stdout = (client.open({"streamtype": kind}) for kind in ("error", "stdout"))
        await client.to_the_end()
        assert client.data[stdout] == b"hello\n"
        assert client.data[error] == b'{"metadata":{},"status":"Success"}'


async def test_port_forward_connects_into_the_sandbox(tmp_path: Path) -> None:
    async with server(tmp_path) as s, spdy_client(s.port, "/portForward/default/web", "portforward.k8s.io") as client:
        headers = {"port": str(s.port), "requestid": "0"}  # the server itself is as good as any
        client.open({"streamtype": "error", **headers}, ended=True)
        data = client.open({"streamtype": "data", **headers})
        client.send(data, b"GET /nowhere HTTP/1.0\r\n\r\n")
        while data not in client.ended:
            await client.hear()
        assert client.data[data].startswith(b"HTTP/1.0 404")
        assert s.runtime.asked == [("port_forward", "sandbox", ()), ("connect", "sandbox", s.port)]


@pytest.mark.parametrize("ports", ["port=0", "port=65536", "port=a", "port=80,-1", f"port={'1,' * 101}"])
async def test_ports_that_are_none_are_refused(tmp_path: Path, ports: str) -> None:
    async with server(tmp_path) as s:
        status, text = await s.ask(f"/portForward/default/web?{ports}", "GET")
        assert (status, text) == (400, "port: must be from 1 to 65535, several separated by commas")
        assert not s.runtime.asked


async def test_several_ports_are_handed_on(tmp_path: Path) -> None:
    async with server(tmp_path) as s:
        s.runtime.url = "http://127.0.0.1:1/"
        await s.ask("/portForward/default/web/uid-web?port=80,81&port=82", "GET")
        assert s.runtime.asked == [("port_forward", "sandbox", (80, 81, 82))]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/exec/default/web/c?output=1", 400, "at least 1 command"),
        ("/exec/default/web/c?command=a", 400, "at least 1 of stdin, stdout, stderr"),
        ("/exec/default/other/c?command=a&output=1", 404, "pod does not exist"),
        ("/exec/other/web/c?command=a&output=1", 404, "pod does not exist"),
        ("/exec/default/web/another-uid/c?command=a&output=1", 404, "pod does not exist"),
        ("/exec/default/web/d?command=a&output=1", 404, 'container not found ("d")'),
        ("/attach/default/web/d?output=1", 404, 'container not found ("d")'),
        ("/portForward/default/other", 404, "pod does not exist"),
        ("/run/default/web/c", 400, "you must specify the cmd parameter"),
    ],
)
async def test_what_is_not_there_is_said_so(tmp_path: Path, path: str, status: int, text: str) -> None:
    async with server(tmp_path) as s:
        found = await s.ask(path)
        assert (found[0], text in found[1]) == (status, True), found
        assert not s.runtime.asked


async def test_a_container_that_does_not_run_cannot_be_entered(tmp_path: Path) -> None:
    async with server(tmp_path) as s:
        s.agent.known = (make_pod("web"),)
        assert await s.ask(EXEC) == (404, 'container not found ("c"), it has not been started yet\n')
        s.agent.sandbox = ""
        assert await s.ask("/portForward/default/web") == (404, "the pod has no sandbox that runs\n")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"waiting": {"reason": "CreateContainerError"}}, "it is waiting to start (CreateContainerError)"),
        ({"waiting": {}}, "it has not been started yet"),
        ({"terminated": {"exitCode": 3, "reason": "Error"}}, "it has ended (Error, exit code 3)"),
    ],
)
async def test_why_a_container_does_not_run_is_no_yaml(tmp_path: Path, state: dict[str, Any], why: str) -> None:
    told = convert(PodStatus, {"containerStatuses": [{"name": "c", "state": state}]})
    async with server(tmp_path) as s:
        s.agent.known = (changed(make_pod("web"), status=told),)
        code, text = await s.ask(EXEC)
    assert (code, text) == (404, f'container not found ("c"), {why}\n')
    assert ": " not in text


async def test_run_gives_the_output_and_says_when_it_failed(tmp_path: Path) -> None:
    async with server(tmp_path) as s:
        assert await s.ask("/run/default/web/c?cmd=ls%20-l") == (200, "outerr")
        assert s.runtime.asked == [("exec_sync", "abc", ("ls", "-l"))]
        s.runtime.result = ExecResult(exit_code=2, stdout=b"out")
        assert await s.ask("/run/default/web/c?cmd=ls") == (500, "out\ncommand ended with code 2\n")


async def test_a_checkpoint_is_written_where_only_root_reads_it(tmp_path: Path) -> None:
    async with server(tmp_path) as s:
        status, text = await s.ask("/checkpoint/default/web/c")
        asked, made = s.runtime.asked
        assert asked == ("checkpoint", "abc")
        assert (status, text) == (200, f'{{"items": ["{made}"]}}')
        assert made.startswith(f"{tmp_path}/checkpoints/checkpoint-web_default-c-")
        assert (tmp_path / "checkpoints").stat().st_mode & 0o777 == 0o700


async def test_the_debugging_endpoints_can_be_disabled(tmp_path: Path) -> None:
    async with server(tmp_path, enabled=False) as s:
        for path in (EXEC, "/attach/default/web/c?output=1", "/portForward/default/web", "/run/default/web/c?cmd=ls"):
            assert await s.ask(path) == (405, "Debug endpoints are disabled.\n")
        assert (await s.ask("/checkpoint/default/web/c"))[0] == 200


@pytest.mark.parametrize(("error", "status"), [(Invalid("it cannot"), 400), (Retry("not now"), 503)])
async def test_what_the_runtime_cannot_do_is_passed_on(tmp_path: Path, error: Exception, status: int) -> None:
    async with server(tmp_path) as s:

        async def fail(*_: Any, **__: Any) -> StreamUrl:
            raise error

        s.runtime.exec = fail  # type: ignore[method-assign]
        assert await s.ask(EXEC) == (status, str(error))


async def test_nobody_holds_more_than_a_few_hundred_streams_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_attach_port_forward, "_MOST_SESSIONS", 2)
    path = "/exec/default/web/c?command=cat&input=1"
    async with server(tmp_path) as s, AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(spdy_client(s.port, path, "v4.channel.k8s.io"))
        assert await s.ask(path) == (429, "anybody has 2 open streams on this node; end some of them\n")
        await stack.aclose()
        async with asyncio.timeout(10):
            while (await s.ask(path))[0] == 429:
                pass


async def test_a_foreign_page_starts_no_program(tmp_path: Path) -> None:
    async with server(tmp_path) as s:
        status, _ = await s.ask(EXEC, method="GET", Origin="https://evil.example.com", **UPGRADE)
        assert (status, s.runtime.asked) == (403, [])
