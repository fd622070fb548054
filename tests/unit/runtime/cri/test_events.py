"""What becomes of containerd's word that a program has ended: when the runtime is asked about it, and how often."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, cast

from google.protobuf.any_pb2 import Any as Packed

from kit.virtual_time import virtual_time
from pykubelet.base.errors import NotFound
from pykubelet.runtime.cri._gen import containerd_events_pb2 as containerd
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.events import changes
from pykubelet.runtime.cri.observe import Observer
from pykubelet.web.grpc_channel import Channel

UID = {"io.kubernetes.pod.uid": "u1"}


class Runtime:
    """Whose container `c` and sandbox `s` end; it takes note of that only after a while."""

    def __init__(self, ended: str, *, notes_at: float = 0.0) -> None:
        self.asked: Counter[str] = Counter()
        self.observer = Observer(cast(Channel, self), now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        self._ended = ended
        self._notes_at = notes_at

    async def call(self, method: str, request: Any, reply: Any, **_: Any) -> Any:
        name, is_over = method.rpartition("/")[2], asyncio.get_running_loop().time() >= self._notes_at
        self.asked[name] += 1
        meta = cri.PodSandboxMetadata(uid="u1", name="p", namespace="default")
        match name:
            case "ListPodSandbox":
                return cri.ListPodSandboxResponse(items=[cri.PodSandbox(id="s", metadata=meta)])
            case "ListContainers":
                return cri.ListContainersResponse()
            case "PodSandboxStatus":
                state = cri.SANDBOX_NOTREADY if is_over else cri.SANDBOX_READY
                network = cri.PodSandboxNetworkStatus(ip="10.0.0.1")
                status = cri.PodSandboxStatus(id="s", metadata=meta, state=state, network=network)
                return cri.PodSandboxStatusResponse(status=status)
            case "ContainerStatus" if request.container_id == "c":
                state_of = cri.CONTAINER_EXITED if is_over else cri.CONTAINER_RUNNING
                return cri.ContainerStatusResponse(status=cri.ContainerStatus(id="c", state=state_of, labels=UID))
        raise NotFound(name)

    async def stream(self, method: str, request: Any, reply: Any) -> AsyncGenerator[Any, None]:
        exit = containerd.TaskExit(container_id=self._ended, id=self._ended)
        yield containerd.Envelope(event=Packed(value=exit.SerializeToString()))
        await asyncio.Event().wait()

    async def told(self) -> str:
        async with aclosing(changes(cast(Channel, self), self.observer)) as uids:
            return await anext(uids)


@virtual_time
async def test_an_end_is_told_when_a_look_would_show_it() -> None:
    runtime = Runtime("c", notes_at=0.05)
    assert await runtime.told() == "u1"
    assert 0.05 <= asyncio.get_running_loop().time() < 0.15
    assert runtime.asked["ContainerStatus"] < 8


@virtual_time
async def test_the_end_of_a_sandbox_that_is_known_is_not_looked_for_among_the_containers() -> None:
    runtime = Runtime("s", notes_at=0.05)
    await runtime.observer.pods()
    assert await runtime.told() == "u1"
    assert runtime.asked["ContainerStatus"] == 0


@virtual_time
async def test_the_end_of_a_sandbox_that_nobody_has_seen_is_told_all_the_same() -> None:
    assert await Runtime("s").told() == "u1"


@virtual_time
async def test_while_the_agent_itself_stops_a_container_it_does_not_ask_whether_it_has_ended() -> None:
    runtime = Runtime("c", notes_at=30.0)
    told = asyncio.create_task(runtime.told())
    with runtime.observer.stopping("c"):
        await asyncio.sleep(30.0)
        assert not runtime.asked
    assert await told == "u1"
    assert runtime.asked["ContainerStatus"] == 1


@virtual_time
async def test_of_two_stops_of_one_container_the_first_that_is_over_counts() -> None:
    runtime = Runtime("c")
    with runtime.observer.stopping("c"):
        told = asyncio.create_task(runtime.told())
        with runtime.observer.stopping("c"):
            await asyncio.sleep(1.0)
        assert await told == "u1"
