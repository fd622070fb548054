"""The wire, with a server of our own at the other end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest

from pykubelet.api.pod import Pod, PodSpec
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry, as_it_came
from pykubelet.base.journal import Journal
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.ports.runtime import SandboxConfig
from pykubelet.runtime.cri import events
from pykubelet.runtime.cri._gen import containerd_events_pb2 as containerd
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.observe import Observer
from pykubelet.runtime.cri.runtime import CriRuntime
from pykubelet.web.grpc_channel import Channel, Lost, Unimplemented, translated

VERSION = "runtime.v1.RuntimeService/Version"
LIST = "runtime.v1.RuntimeService/ListContainers"
EVENTS = "runtime.v1.RuntimeService/GetContainerEvents"
NOW = datetime(2026, 1, 1, tzinfo=UTC)

Answer = Callable[[bytes, Any], Awaitable[bytes]]
Stream = Callable[[bytes, Any], AsyncIterator[bytes]]


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, answers: dict[str, Answer], streams: dict[str, Stream]) -> None:
        self._answers = answers
        self._streams = streams

    def service(self, details: Any) -> Any:
        method = details.method.removeprefix("/")
        if method in self._answers:
            return grpc.unary_unary_rpc_method_handler(self._answers[method])
        if method in self._streams:
            return grpc.unary_stream_rpc_method_handler(self._streams[method])
        return None


@asynccontextmanager
async def server(socket: Path, streams: dict[str, Stream] | None = None, **answers: Answer) -> AsyncIterator[Channel]:
    """A channel to a server with these calls."""
    serving = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
    named = {f"runtime.v1.RuntimeService/{name}": answer for name, answer in answers.items()}
    serving.add_generic_rpc_handlers((_Handlers(named, streams or {}),))
    serving.add_insecure_port(f"unix://{socket}")
    await serving.start()
    channel = Channel(f"unix://{socket}")
    try:
        yield channel
    finally:
        await channel.close()
        await serving.stop(None)


def failing(code: grpc.StatusCode, text: str = "because") -> Answer:
    async def answer(request: bytes, context: Any) -> bytes:
        await context.abort(code, text)
        return b""

    return answer


async def version(request: bytes, context: Any) -> bytes:
    return cri.VersionResponse(runtime_name="fake", runtime_version="1", runtime_api_version="v1").SerializeToString()


async def ask(channel: Channel, **options: Any) -> cri.VersionResponse:
    return await channel.call(VERSION, cri.VersionRequest(), cri.VersionResponse, **options)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.NOT_FOUND, NotFound),
        (grpc.StatusCode.INVALID_ARGUMENT, Invalid),
        (grpc.StatusCode.ALREADY_EXISTS, Invalid),
        (grpc.StatusCode.OUT_OF_RANGE, Invalid),
        (grpc.StatusCode.PERMISSION_DENIED, Invalid),
        (grpc.StatusCode.UNIMPLEMENTED, Unimplemented),
        (grpc.StatusCode.UNAVAILABLE, Lost),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Lost),
        (grpc.StatusCode.CANCELLED, Lost),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Retry),
        (grpc.StatusCode.FAILED_PRECONDITION, Retry),
        (grpc.StatusCode.INTERNAL, Retry),
        (grpc.StatusCode.UNKNOWN, Retry),
    ],
)
async def test_errors_say_what_to_do(code: grpc.StatusCode, error: type[PykubeletError], tmp_path: Path) -> None:
    async with server(tmp_path / "s", Version=failing(code)) as channel:
        with pytest.raises(error, match="because") as caught:
            await ask(channel)
    assert type(caught.value) is error


async def test_a_server_that_does_not_answer_in_time_may_do_so_later(tmp_path: Path) -> None:
    async def never(request: bytes, context: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with server(tmp_path / "s", Version=never) as channel:
        with pytest.raises(Retry, match="Version"):
            await ask(channel, deadline=0.05)


async def test_a_socket_that_is_not_there_yet_is_connected_to_once_it_is(tmp_path: Path) -> None:
    channel = Channel(str(tmp_path / "s"))
    with pytest.raises(Retry, match="does not answer"):
        await ask(channel)
    async with server(tmp_path / "s", Version=version), asyncio.timeout(10):
        while True:
            try:
                assert (await ask(channel)).runtime_name == "fake"
                break
            except Retry:
                await asyncio.sleep(0.02)
    await channel.close()


async def test_long_lists_fit(tmp_path: Path) -> None:
    listed = cri.ListContainersResponse(containers=[cri.Container(id="x" * 1000) for _ in range(12_000)])

    async def answer(request: bytes, context: Any) -> bytes:
        return listed.SerializeToString()

    async with server(tmp_path / "s", ListContainers=answer) as channel:
        found = await channel.call(LIST, cri.ListContainersRequest(), cri.ListContainersResponse)
        assert len(found.containers) == 12_000


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:1", "relative/path", "npipe:////./pipe/x", ""])
def test_only_sockets_are_endpoints(endpoint: str) -> None:
    with pytest.raises(Invalid, match="socket"):
        Channel(endpoint)


async def test_who_waits_for_an_answer_when_the_channel_is_closed_may_try_again(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def never(request: bytes, context: Any) -> bytes:
        asked.set()
        await asyncio.Event().wait()
        return b""

    async with server(tmp_path / "s", Version=never) as channel:
        waiting = asyncio.ensure_future(ask(channel))
        await asked.wait()
        await channel.close()
        with pytest.raises(Retry):
            await waiting
        with pytest.raises(Retry, match="closed"):
            await ask(channel)


async def test_a_caller_that_is_cancelled_is_cancelled(tmp_path: Path) -> None:
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def never(request: bytes, context: Any) -> bytes:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return b""

    async with server(tmp_path / "s", Version=never) as channel:
        waiting = asyncio.ensure_future(ask(channel))
        await asked.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(10):
            await given_up.wait()


# --- what runtimes have and have not


async def test_a_runtime_without_cri_v1_is_refused_plainly(tmp_path: Path) -> None:
    async with server(tmp_path / "s"):
        runtime = CriRuntime(f"unix://{tmp_path}/s")
        with pytest.raises(Invalid, match="does not speak CRI v1"):
            await runtime.version()
        await runtime.close()


async def test_a_runtime_that_is_not_ready_says_why(tmp_path: Path) -> None:
    async def status(request: bytes, context: Any) -> bytes:
        conditions = [
            cri.RuntimeCondition(type="RuntimeReady", status=True),
            cri.RuntimeCondition(type="NetworkReady", reason="NetworkPluginNotReady", message="cni not initialized"),
        ]
        return cri.StatusResponse(status=cri.RuntimeStatus(conditions=conditions)).SerializeToString()

    async with server(tmp_path / "s", Status=status):
        runtime = CriRuntime(f"{tmp_path}/s")
        said = await runtime.status()
        assert (said.ready, said.network_ready, said.message) == (True, False, "")
        assert said.network_message == "NetworkPluginNotReady: cni not initialized"
        await runtime.close()


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        ("", None),
        ("runc", None),
        ("old", 'RuntimeClass handler "old" does not support user namespaces'),
        ("none", 'RuntimeClass handler "none" does not support user namespaces'),
    ],
)
async def test_users_of_its_own_are_only_for_pods_whose_runtime_can_do_it(
    handler: str, why: str | None, tmp_path: Path
) -> None:
    can, cannot = cri.RuntimeHandlerFeatures(user_namespaces=True), cri.RuntimeHandlerFeatures()
    told = (("", can), ("runc", can), ("old", cannot))
    handlers = [cri.RuntimeHandler(name=name, features=features) for name, features in told]
    config = SandboxConfig(
        pod=Pod(spec=PodSpec(host_users=False)),
        runtime_handler=handler,
        id_mappings=(IdMapping(host_id=65536, container_id=0, length=65536),),
    )

    async def status(request: bytes, context: Any) -> bytes:
        return cri.StatusResponse(runtime_handlers=handlers).SerializeToString()

    async def run(request: bytes, context: Any) -> bytes:
        asked = cri.RunPodSandboxRequest.FromString(request)
        (mapping,) = asked.config.linux.security_context.namespace_options.userns_options.uids
        assert mapping.host_id == 65536
        return cri.RunPodSandboxResponse(pod_sandbox_id="s-1").SerializeToString()

    async def sandbox(request: bytes, context: Any) -> bytes:
        found = cri.PodSandboxStatus(id=cri.PodSandboxStatusRequest.FromString(request).pod_sandbox_id)
        return cri.PodSandboxStatusResponse(status=found).SerializeToString()

    async with server(tmp_path / "s", Status=status, RunPodSandbox=run, PodSandboxStatus=sandbox):
        runtime = CriRuntime(f"{tmp_path}/s")
        if why is None:
            assert (await runtime.run_sandbox(config)).id == "s-1"
        else:
            with pytest.raises(Invalid, match=why):
                await runtime.run_sandbox(config)
        await runtime.close()


async def heard(channel: Channel) -> list[str]:
    """All until the end."""
    observer = Observer(channel, now=lambda: NOW)
    async with aclosing(events.changes(channel, observer)) as uids:
        return [uid async for uid in uids]


async def test_cris_events_are_heard_where_there_are_no_others(tmp_path: Path) -> None:
    async def told(request: bytes, context: Any) -> AsyncIterator[bytes]:
        for number, kind in enumerate((cri.CONTAINER_STARTED_EVENT, cri.CONTAINER_STOPPED_EVENT)):
            meta = cri.PodSandboxMetadata(uid=f"u-{number}")
            event = cri.ContainerEventResponse(
                container_event_type=kind, pod_sandbox_status=cri.PodSandboxStatus(metadata=meta)
            )
            yield event.SerializeToString()

    async with server(tmp_path / "s", {EVENTS: told}) as channel:
        assert await heard(channel) == ["u-1"]


async def test_containerds_events_are_heard_before_cris(tmp_path: Path) -> None:
    states = iter([cri.CONTAINER_RUNNING, cri.CONTAINER_RUNNING, cri.CONTAINER_EXITED])
    seen_over = asyncio.Event()

    async def status(request: bytes, context: Any) -> bytes:
        asked = cri.ContainerStatusRequest.FromString(request)
        state = next(states)
        if state == cri.CONTAINER_EXITED:
            seen_over.set()
        found = cri.ContainerStatus(id=asked.container_id, state=state, labels={"io.kubernetes.pod.uid": "u-1"})
        return cri.ContainerStatusResponse(status=found).SerializeToString()

    async def told(request: bytes, context: Any) -> AsyncIterator[bytes]:
        for process in ("a-command", "c-1"):
            envelope = containerd.Envelope(namespace="k8s.io", topic="/tasks/exit")
            envelope.event.value = containerd.TaskExit(container_id="c-1", id=process).SerializeToString()
            yield envelope.SerializeToString()
        await seen_over.wait()
        await asyncio.Event().wait()

    async def stolen(request: bytes, context: Any) -> AsyncIterator[bytes]:
        meta = cri.PodSandboxMetadata(uid="u-stolen")
        stopped = cri.ContainerEventResponse(
            container_event_type=cri.CONTAINER_STOPPED_EVENT, pod_sandbox_status=cri.PodSandboxStatus(metadata=meta)
        )
        yield stopped.SerializeToString()

    streams: dict[str, Stream] = {"containerd.services.events.v1.Events/Subscribe": told, EVENTS: stolen}
    async with server(tmp_path / "s", streams, ContainerStatus=status) as channel:
        observer = Observer(channel, now=lambda: NOW)
        async with aclosing(events.changes(channel, observer)) as uids, asyncio.timeout(10):
            assert await anext(uids) == "u-1"
            assert seen_over.is_set()


async def test_without_any_stream_there_are_no_hints(tmp_path: Path) -> None:
    async with server(tmp_path / "s") as channel:
        assert await heard(channel) == []


async def test_a_stream_that_breaks_may_be_tried_again(tmp_path: Path) -> None:
    async def broken(request: bytes, context: Any) -> AsyncIterator[bytes]:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "going away")
        yield b""

    async with server(tmp_path / "s", {EVENTS: broken}) as channel:
        with pytest.raises(Retry, match="going away"):
            await heard(channel)


async def test_each_call_is_told_of_with_how_long_it_took_and_how_it_failed(tmp_path: Path) -> None:
    told: list[tuple[str, float, str]] = []

    async def version(_: bytes, context: Any) -> bytes:
        return cri.VersionResponse(version="1").SerializeToString()

    async with server(tmp_path / "s", Version=version):
        channel = Channel(str(tmp_path / "s"), on_call=lambda *call: told.append(call))
        await channel.call(VERSION, cri.VersionRequest(), cri.VersionResponse)
        with pytest.raises(Unimplemented) as raised:
            await channel.call(LIST, cri.ListContainersRequest(), cri.ListContainersResponse)
        await channel.close()
    assert [(method, error) for method, _, error in told] == [("Version", ""), ("ListContainers", str(raised.value))]
    assert all(seconds >= 0 for _, seconds, _ in told)


@pytest.mark.parametrize(
    ("method", "code", "spelled"),
    [
        ("RunPodSandbox", grpc.StatusCode.UNKNOWN, "rpc error: code = Unknown desc = no room"),
        ("RunPodSandbox", grpc.StatusCode.FAILED_PRECONDITION, "rpc error: code = FailedPrecondition desc = no room"),
        ("PullImage", grpc.StatusCode.NOT_FOUND, "rpc error: code = NotFound desc = no room"),
        ("PullImage", grpc.StatusCode.UNKNOWN, "no room"),
    ],
)
def test_failures_can_be_told_as_other_agents_tell_them(method: str, code: grpc.StatusCode, spelled: str) -> None:
    nothing = grpc.aio.Metadata()
    error = translated(grpc.aio.AioRpcError(code, nothing, nothing, "no room"), f"runtime.v1.RuntimeService/{method}")
    assert as_it_came(error) == spelled
    assert str(error) == "no room"


async def test_the_other_side_is_told_of_the_trace_that_goes_on(tmp_path: Path) -> None:
    told = []

    async def answer(request: bytes, context: Any) -> bytes:
        told.append(dict(context.invocation_metadata()).get("traceparent"))
        return await version(request, context)

    journal: Journal[object] = Journal()
    async with server(tmp_path / "s", Version=answer):
        channel = Channel(f"unix://{tmp_path / 's'}", journal=journal)
        await ask(channel)
        journal.traceparent = lambda: "00-aa-bb-01"
        await ask(channel)
        await channel.close()
    assert told == [None, "00-aa-bb-01"]
