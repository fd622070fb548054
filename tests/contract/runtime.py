"""What every container runtime promises, whatever it runs containers with.

A runtime under test comes with its `Outside`: the programs that it can run, as a test can steer them. `PROMISES` are
run on each of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import timedelta
from typing import Final, Protocol

import pytest

from kit.pods import make_pod
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State
from pykubelet.pod.ports.runtime import ContainerConfig, Limits, Runtime, SandboxConfig

DEADLINE: Final = 30.0
FAILURE: Final = 3


class Dependencies(Protocol):
    """The programs that run in containers."""

    @property
    def runtime(self) -> Runtime: ...

    def program(self) -> tuple[str, ...]:
        """A command that runs until it is ended, and heeds SIGTERM at once."""
        ...

    def stubborn(self) -> tuple[str, ...]:
        """A command that runs until it is ended, and does not heed SIGTERM."""
        ...

    async def settled(self) -> None:
        """Return when every program that was started does what it is there for."""
        ...

    async def end(self, uid: str, name: str, code: int) -> None:
        """The running `program` of a container ends by itself, with 0 or FAILURE."""
        ...

    async def restarted(self) -> Runtime:
        """The agent is gone, and a new one looks at the same machine."""
        ...


Promise = Callable[[Dependencies], Awaitable[None]]


def sandbox_config(name: str = "web", attempt: int = 0) -> SandboxConfig:
    return SandboxConfig(pod=make_pod(name), attempt=attempt, hostname=name)


def container_config(outside: Dependencies, name: str = "c", attempt: int = 0, **fields: object) -> ContainerConfig:
    values = {"image": "busybox:1.36", "command": outside.program(), **fields}
    return ContainerConfig(name=name, attempt=attempt, **values)  # type: ignore[arg-type]


async def started(outside: Dependencies, sandbox_id: str, name: str = "c", attempt: int = 0, **fields: object) -> str:
    """A running container. -> its id"""
    config = container_config(outside, name, attempt, **fields)
    container_id = await outside.runtime.create_container(sandbox_id, config)
    await outside.runtime.start_container(container_id)
    await outside.settled()
    return container_id


async def seen(runtime: Runtime, uid: str, container_id: str) -> ObservedContainer:
    pod = await runtime.observe(uid)
    return next(container for container in pod.containers if container.id == container_id)


async def until(
    runtime: Runtime, uid: str, condition: Callable[[ObservedPod], object], *, within: float = DEADLINE
) -> ObservedPod:
    """The pod, once it is as wanted."""
    pause = 0.002
    async with asyncio.timeout(within):
        while not condition(pod := await runtime.observe(uid)):
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.5)
    return pod


async def ended(runtime: Runtime, uid: str, container_id: str) -> ObservedContainer:
    def is_over(pod: ObservedPod) -> bool:
        return any(c.id == container_id and c.state is State.EXITED for c in pod.containers)

    pod = await until(runtime, uid, is_over)
    return next(container for container in pod.containers if container.id == container_id)


# --- the promises


async def a_runtime_says_what_it_is_and_that_it_is_ready(outside: Dependencies) -> None:
    version = await outside.runtime.version()
    status = await outside.runtime.status()
    assert version.name
    assert version.version
    assert status.ready
    assert status.network_ready


async def nothing_is_seen_of_a_pod_that_never_was(outside: Dependencies) -> None:
    assert await outside.runtime.observe("nobody") == ObservedPod(uid="nobody")
    assert await outside.runtime.pods() == ()


async def a_sandbox_is_ready_until_it_is_stopped_and_seen_until_it_is_removed(outside: Dependencies) -> None:
    runtime = outside.runtime
    made = await runtime.run_sandbox(sandbox_config(attempt=2))
    sandbox_id = made.id
    pod = await runtime.observe("uid-web")
    assert pod.sandboxes == (made,)
    assert made.ips
    assert (pod.name, pod.namespace) == ("web", "default")
    assert [(s.id, s.ready, s.attempt) for s in pod.sandboxes] == [(sandbox_id, True, 2)]
    assert pod.sandboxes[0].created_at is not None
    assert await runtime.pods() == (pod,)
    await runtime.stop_sandbox(sandbox_id)
    pod = await runtime.observe("uid-web")
    assert [(s.id, s.ready) for s in pod.sandboxes] == [(sandbox_id, False)]
    await runtime.remove_sandbox(sandbox_id)
    assert (await runtime.observe("uid-web")).is_gone
    assert await runtime.pods() == ()


async def a_container_goes_from_created_to_running_to_exited(outside: Dependencies) -> None:
    runtime = outside.runtime
    sandbox_id = (await runtime.run_sandbox(sandbox_config())).id
    container_id = await runtime.create_container(sandbox_id, container_config(outside))
    created = await seen(runtime, "uid-web", container_id)
    assert (created.state, created.started_at, created.finished_at) == (State.CREATED, None, None)
    await runtime.start_container(container_id)
    running = await seen(runtime, "uid-web", container_id)
    assert (running.state, running.finished_at) == (State.RUNNING, None)
    await outside.end("uid-web", "c", 0)
    exited = await ended(runtime, "uid-web", container_id)
    assert (exited.exit_code, exited.reason) == (0, "Completed")
    assert created.created_at is not None
    assert exited.started_at is not None
    assert exited.finished_at is not None
    slack = timedelta(milliseconds=1)
    assert created.created_at <= exited.started_at + slack
    assert exited.started_at <= exited.finished_at + slack


async def a_program_that_fails_is_an_error_with_its_code(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    container_id = await started(outside, sandbox_id)
    await outside.end("uid-web", "c", FAILURE)
    exited = await ended(outside.runtime, "uid-web", container_id)
    assert (exited.exit_code, exited.reason) == (FAILURE, "Error")


async def what_a_container_was_made_from_is_read_back(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    annotations = {"io.kubernetes.container.hash": "abc", "io.kubernetes.pod.terminationGracePeriod": "45"}
    config = container_config(outside, "main", 4, image="redis:7", annotations=annotations)
    await outside.runtime.create_container(sandbox_id, config)
    found = (await outside.runtime.observe("uid-web")).newest("main")
    assert found is not None
    assert (found.attempt, found.hash, found.image, found.grace_seconds) == (4, "abc", "redis:7", 45)
    assert found.sandbox_id == sandbox_id


async def the_newest_attempts_and_sandboxes_come_first(outside: Dependencies) -> None:
    runtime = outside.runtime
    first = (await runtime.run_sandbox(sandbox_config(attempt=0))).id
    old = await started(outside, first)
    await runtime.stop_sandbox(first)
    second = (await runtime.run_sandbox(sandbox_config(attempt=1))).id
    new = await started(outside, second, attempt=1)
    pod = await runtime.observe("uid-web")
    assert [s.id for s in pod.sandboxes] == [second, first]
    assert [c.id for c in pod.attempts("c")] == [new, old]


async def pods_are_kept_apart(outside: Dependencies) -> None:
    runtime = outside.runtime
    a, b = (await runtime.run_sandbox(sandbox_config("a"))).id, (await runtime.run_sandbox(sandbox_config("b"))).id
    in_a, in_b = await started(outside, a), await started(outside, b)
    assert {pod.uid for pod in await runtime.pods()} == {"uid-a", "uid-b"}
    await runtime.remove_sandbox(a)
    assert (await runtime.observe("uid-a")).is_gone
    assert (await seen(runtime, "uid-b", in_b)).state is State.RUNNING
    assert in_a != in_b


async def stopping_ends_a_program_that_heeds_sigterm(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    container_id = await started(outside, sandbox_id)
    async with asyncio.timeout(DEADLINE):
        await outside.runtime.stop_container(container_id, 1000.0)
    assert (await seen(outside.runtime, "uid-web", container_id)).state is State.EXITED


async def stopping_kills_a_stubborn_program_after_the_grace(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    container_id = await started(outside, sandbox_id, command=outside.stubborn())
    async with asyncio.timeout(DEADLINE):
        await outside.runtime.stop_container(container_id, 0.2)
    exited = await seen(outside.runtime, "uid-web", container_id)
    assert (exited.state, exited.exit_code, exited.reason) == (State.EXITED, 137, "Error")


async def a_second_stop_with_a_shorter_grace_shortens_the_first(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    container_id = await started(outside, sandbox_id, command=outside.stubborn())
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as both:
        both.create_task(outside.runtime.stop_container(container_id, 1000.0))
        await asyncio.sleep(0.05)
        both.create_task(outside.runtime.stop_container(container_id, 0.1))
    assert (await seen(outside.runtime, "uid-web", container_id)).state is State.EXITED


async def a_container_that_never_started_can_be_stopped_and_then_not_started(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    container_id = await outside.runtime.create_container(sandbox_id, container_config(outside))
    await outside.runtime.stop_container(container_id, 1.0)
    assert (await seen(outside.runtime, "uid-web", container_id)).state is State.EXITED
    with pytest.raises(Invalid):
        await outside.runtime.start_container(container_id)


async def a_container_starts_only_once(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    container_id = await started(outside, sandbox_id)
    with pytest.raises(Invalid):
        await outside.runtime.start_container(container_id)
    assert (await seen(outside.runtime, "uid-web", container_id)).state is State.RUNNING


async def an_attempt_exists_only_once(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    await started(outside, sandbox_id)
    with pytest.raises(Invalid):
        await outside.runtime.create_container(sandbox_id, container_config(outside))


async def stopping_a_sandbox_ends_its_containers_at_once(outside: Dependencies) -> None:
    runtime = outside.runtime
    sandbox_id = (await runtime.run_sandbox(sandbox_config())).id
    ids = [await started(outside, sandbox_id, name, command=outside.stubborn()) for name in ("a", "b")]
    await runtime.stop_sandbox(sandbox_id)
    states = [(await seen(runtime, "uid-web", each)).state for each in ids]
    assert states == [State.EXITED, State.EXITED]
    assert not (await runtime.observe("uid-web")).is_running


async def removing_kills_what_runs(outside: Dependencies) -> None:
    runtime = outside.runtime
    sandbox_id = (await runtime.run_sandbox(sandbox_config())).id
    container_id = await started(outside, sandbox_id, command=outside.stubborn())
    await runtime.remove_container(container_id)
    pod = await runtime.observe("uid-web")
    assert pod.containers == ()
    assert pod.sandboxes[0].ready
    await started(outside, sandbox_id, attempt=1)
    await runtime.remove_sandbox(sandbox_id)
    assert (await runtime.observe("uid-web")).is_gone


async def stopping_and_removing_again_is_harmless(outside: Dependencies) -> None:
    runtime = outside.runtime
    sandbox_id = (await runtime.run_sandbox(sandbox_config())).id
    container_id = await started(outside, sandbox_id)
    for _ in range(2):
        await runtime.stop_container(container_id, 1.0)
    for _ in range(2):
        await runtime.remove_container(container_id)
    await runtime.stop_container(container_id, 1.0)
    for _ in range(2):
        await runtime.stop_sandbox(sandbox_id)
    for _ in range(2):
        await runtime.remove_sandbox(sandbox_id)
    await runtime.stop_sandbox(sandbox_id)


async def what_is_not_there_is_not_found(outside: Dependencies) -> None:
    runtime = outside.runtime
    with pytest.raises(NotFound):
        await runtime.create_container("nowhere", container_config(outside))
    with pytest.raises(NotFound):
        await runtime.start_container("nothing")
    with pytest.raises(NotFound):
        await runtime.exec_sync("nothing", ("true",), 1.0)
    with pytest.raises(NotFound):
        await runtime.reopen_log("nothing")


async def nothing_is_made_in_a_stopped_sandbox(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    await outside.runtime.stop_sandbox(sandbox_id)
    with pytest.raises(Retry):
        await outside.runtime.create_container(sandbox_id, container_config(outside))


async def commands_run_only_in_running_containers(outside: Dependencies) -> None:
    runtime = outside.runtime
    sandbox_id = (await runtime.run_sandbox(sandbox_config())).id
    container_id = await runtime.create_container(sandbox_id, container_config(outside))
    with pytest.raises(Retry):
        await runtime.exec_sync(container_id, ("echo", "hello"), 10.0)
    await runtime.start_container(container_id)
    result = await runtime.exec_sync(container_id, ("echo", "hello"), 10.0)
    assert result.exit_code == 0
    assert b"hello" in result.stdout
    await runtime.stop_container(container_id, 10.0)
    with pytest.raises(Retry):
        await runtime.exec_sync(container_id, ("echo", "hello"), 10.0)


async def a_pulled_image_is_here(outside: Dependencies) -> None:
    image = await outside.runtime.pull_image("busybox:1.36")
    assert image.id
    assert await outside.runtime.image("busybox:1.36") == image


async def it_is_known_how_much_room_images_have(outside: Dependencies) -> None:
    storage = await outside.runtime.image_storage()
    assert storage is not None
    assert 0 <= storage.available <= storage.capacity
    assert storage.capacity > 0


async def the_end_of_a_container_is_told_to_who_listens(outside: Dependencies) -> None:
    runtime = outside.runtime
    sandbox_id = (await runtime.run_sandbox(sandbox_config())).id
    container_id = await started(outside, sandbox_id)
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def listen() -> None:
        async with aclosing(runtime.changes()) as changes:
            async for uid in changes:
                heard.put_nowait(uid)

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.01)
    await outside.end("uid-web", "c", 0)
    async with asyncio.timeout(DEADLINE):
        assert await heard.get() == "uid-web"
    assert (await seen(runtime, "uid-web", container_id)).state is State.EXITED
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)


async def a_new_agent_finds_everything_as_it_was(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    running = await started(outside, sandbox_id, "running")
    over = await started(outside, sandbox_id, "over")
    await outside.end("uid-web", "over", FAILURE)
    await ended(outside.runtime, "uid-web", over)
    await outside.runtime.create_container(sandbox_id, container_config(outside, "made"))
    before = await outside.runtime.pods()
    runtime = await outside.restarted()
    assert await runtime.pods() == before
    await runtime.stop_container(running, 10.0)
    assert (await seen(runtime, "uid-web", running)).state is State.EXITED


async def a_container_that_ends_while_no_agent_looks_is_seen_as_ended(outside: Dependencies) -> None:
    sandbox_id = (await outside.runtime.run_sandbox(sandbox_config())).id
    container_id = await started(outside, sandbox_id)
    await outside.runtime.close()
    await outside.end("uid-web", "c", FAILURE)
    runtime = await outside.restarted()
    exited = await ended(runtime, "uid-web", container_id)
    assert (exited.exit_code, exited.reason) == (FAILURE, "Error")


async def a_running_container_can_be_given_other_limits(outside: Dependencies) -> None:
    runtime = outside.runtime
    refusal = runtime.capabilities.updates_containers
    assert refusal is not None
    sandbox_id = (await runtime.run_sandbox(sandbox_config())).id
    container_id = await started(outside, sandbox_id, limits=Limits(cpu_shares=512, cpu_quota=50_000, memory=64 << 20))
    update = Limits(cpu_shares=256, memory=128 << 20)
    if await refusal():
        with pytest.raises(Invalid, match="cannot be limited on this machine"):
            await runtime.update_container(container_id, update)
        return
    await runtime.update_container(container_id, update)
    for _ in range(2):  # an agent that comes later sees the same
        container = await seen(runtime, "uid-web", container_id)
        assert (container.state, container.attempt) == (State.RUNNING, 0)
        told = container.limits
        assert told is None or (told.cpu_shares, told.cpu_quota, told.memory) == (256, 50_000, 128 << 20)
        runtime = await outside.restarted()
    await runtime.stop_container(container_id, 0)
    await runtime.update_container(container_id, update)
    with pytest.raises(NotFound):
        await runtime.update_container("nobody", update)


async def many_pods_run_at_once(outside: Dependencies) -> None:
    async def run(number: int) -> None:
        sandbox_id = (await outside.runtime.run_sandbox(sandbox_config(f"p{number}"))).id
        await started(outside, sandbox_id)

    async with asyncio.TaskGroup() as together:
        for number in range(12):
            together.create_task(run(number))
    pods = await outside.runtime.pods()
    assert len(pods) == 12
    assert all(pod.containers[0].state is State.RUNNING for pod in pods)


PROMISES: Final[tuple[Promise, ...]] = (
    a_runtime_says_what_it_is_and_that_it_is_ready,
    nothing_is_seen_of_a_pod_that_never_was,
    a_sandbox_is_ready_until_it_is_stopped_and_seen_until_it_is_removed,
    a_container_goes_from_created_to_running_to_exited,
    a_program_that_fails_is_an_error_with_its_code,
    what_a_container_was_made_from_is_read_back,
    the_newest_attempts_and_sandboxes_come_first,
    pods_are_kept_apart,
    stopping_ends_a_program_that_heeds_sigterm,
    stopping_kills_a_stubborn_program_after_the_grace,
    a_second_stop_with_a_shorter_grace_shortens_the_first,
    a_container_that_never_started_can_be_stopped_and_then_not_started,
    a_container_starts_only_once,
    an_attempt_exists_only_once,
    stopping_a_sandbox_ends_its_containers_at_once,
    removing_kills_what_runs,
    stopping_and_removing_again_is_harmless,
    what_is_not_there_is_not_found,
    nothing_is_made_in_a_stopped_sandbox,
    commands_run_only_in_running_containers,
    a_pulled_image_is_here,
    it_is_known_how_much_room_images_have,
    the_end_of_a_container_is_told_to_who_listens,
    a_new_agent_finds_everything_as_it_was,
    a_container_that_ends_while_no_agent_looks_is_seen_as_ended,
    a_running_container_can_be_given_other_limits,
    many_pods_run_at_once,
)
