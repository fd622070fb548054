"""Lifecycle hooks, in whole stories: what runs when, and what it costs of the grace."""

import asyncio
from datetime import datetime

import pytest
from aiohttp import web

from kit.loopback import serving
from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container, ContainerPort
from pykubelet.api.handlers import (
    ExecAction,
    HTTPGetAction,
    HTTPHeader,
    Lifecycle,
    LifecycleHandler,
    SleepAction,
)
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.node.hooks import port_number


def pod(
    *, grace: int = 30, post_start: LifecycleHandler | None = None, pre_stop: LifecycleHandler | None = None
) -> Pod:
    made = make_pod("web")
    container = Container(name="c", image="i", lifecycle=Lifecycle(post_start=post_start, pre_stop=pre_stop))
    spec = changed(made.spec, containers=(container,), restart_policy="Always", termination_grace_period_seconds=grace)
    return changed(made, spec=spec)


def command(*words: str) -> LifecycleHandler:
    return LifecycleHandler(exec=ExecAction(command=words))


def order(world: World) -> list[str]:
    return [method for method, _ in world.runtime.calls if method in ("start_container", "exec_sync", "stop_container")]


@virtual_time
async def test_a_post_start_hook_runs_right_after_the_start() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(post_start=command("warm-up", "now")))
        await eventually(lambda: node.phase("uid-web") == "Running")
        assert [words for _, words in world.runtime.executed] == [("warm-up", "now")]
        assert order(world) == ["start_container", "exec_sync"]


@virtual_time
async def test_a_container_whose_post_start_hook_fails_has_failed_to_start() -> None:
    world = World()
    world.runtime.exit_codes["warm-up"] = 1
    async with world.agent() as node:
        world.pods.apply(pod(post_start=command("warm-up")))
        await eventually(lambda: "FailedPostStartHook" in world.events.reasons("web"))
        await eventually(lambda: not world.runtime.running())
        await eventually(lambda: node.waiting("uid-web") in ("PostStartHookError", "CrashLoopBackOff"))
        world.runtime.exit_codes.clear()
        await eventually(lambda: world.runtime.running() == ["web/c"], seconds=300)


@virtual_time
async def test_a_pre_stop_hook_runs_before_the_stop_and_is_paid_from_the_grace() -> None:
    world = World()
    world.runtime.stop_seconds = 1000
    async with world.agent():
        hooked = pod(grace=30, pre_stop=LifecycleHandler(sleep=SleepAction(seconds=10)))
        world.pods.apply(hooked)
        await eventually(world.runtime.running)
        asked = world.now()
        world.pods.remove("uid-web")
        await asyncio.sleep(9)
        assert "stop_container" not in order(world)
        await eventually(lambda: not world.runtime.running(), seconds=60)
        assert 29 <= (world.now() - asked).total_seconds() <= 31


@virtual_time
async def test_a_container_whose_pre_stop_hook_takes_too_long_still_gets_two_seconds() -> None:
    world = World()
    world.runtime.stop_seconds = 1000
    async with world.agent():
        world.pods.apply(pod(grace=5, pre_stop=LifecycleHandler(sleep=SleepAction(seconds=600))))
        await eventually(world.runtime.running)
        asked = world.now()
        world.pods.remove("uid-web")
        await eventually(lambda: not world.runtime.running(), seconds=60)
        assert 6.9 <= (world.now() - asked).total_seconds() <= 8


@virtual_time
async def test_a_pre_stop_hook_goes_on_until_its_container_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.runtime.stop_seconds = 1000
    cut: list[datetime] = []

    async def never_ends(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cut.append(world.now())

    monkeypatch.setattr(world.runtime, "exec_sync", never_ends)
    async with world.agent():
        world.pods.apply(pod(grace=5, pre_stop=command("flush")))
        await eventually(world.runtime.running)
        asked = world.now()
        world.pods.remove("uid-web")
        await eventually(lambda: not world.runtime.running(), seconds=60)
        await eventually(lambda: len(cut) == 1)
        assert (cut[0] - asked).total_seconds() >= 6.9, "the grace, and two seconds"


@virtual_time
async def test_a_pre_stop_hook_that_fails_stops_nothing_from_stopping() -> None:
    world = World()
    world.runtime.exit_codes["say-goodbye"] = 3
    async with world.agent():
        world.pods.apply(pod(pre_stop=command("say-goodbye")))
        await eventually(world.runtime.running)
        world.pods.remove("uid-web")
        await eventually(lambda: world.runtime.is_empty)
        assert "FailedPreStopHook" in world.events.reasons("web")


@virtual_time
async def test_an_http_hook_asks_the_port_that_the_container_names() -> None:
    asked: list[tuple[str, str | None]] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append((request.path_qs, request.headers.get("X-Reason")))
        return web.Response(status=500)  # a hook tells, it does not ask

    async with serving(answer) as port:
        world = World()
        hook = LifecycleHandler(
            http_get=HTTPGetAction(
                host="127.0.0.1",
                port="admin",
                path="/bye?now=1",
                http_headers=(HTTPHeader(name="X-Reason", value="stop"),),
            )
        )
        hooked = pod(pre_stop=hook)
        container = changed(hooked.spec.containers[0], ports=(ContainerPort(name="admin", container_port=port),))
        async with world.agent():
            world.pods.apply(changed(hooked, spec=changed(hooked.spec, containers=(container,))))
            await eventually(world.runtime.running)
            world.pods.remove("uid-web")
            await eventually(lambda: world.runtime.is_empty)
    assert asked == [("/bye?now=1", "stop")]
    assert "FailedPreStopHook" not in world.events.reasons("web")


def test_ports_go_by_number_or_name() -> None:
    container = Container(name="c", ports=(ContainerPort(name="http", container_port=80),))
    assert [port_number(port, container) for port in (8080, "9090", "http")] == [8080, 9090, 80]
    with pytest.raises(Invalid, match="has no port 'https'"):
        port_number("https", container)
