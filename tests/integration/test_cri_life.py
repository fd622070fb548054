# ruff: noqa: ASYNC240 - tests may block
"""The CRI runtime on a real containerd: what programs say and how they end, images, a runtime that comes and goes."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from contract.runtime import sandbox_config as other_sandbox
from contract.runtime import seen, until
from kit.containerd import Containerd
from kit.cri_node import FOREVER, UID, CriNode
from kit.oci import make_image
from kit.registry import PASSWORD, USER, loopback_registry
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.base.errors import NotFound, PykubeletError, Retry
from pykubelet.pod.observed import State
from pykubelet.pod.ports.runtime import (
    Limits,
    Mount,
    PullCredentials,
)

# --- what it says and how it ends


async def test_logs_are_files_in_the_format_of_cri(node: CriNode) -> None:
    await node.run("echo out; echo err >&2; printf open")
    lines = node.log()
    assert sorted(line.split(" ", 1)[1] for line in lines) == ["stderr F err", "stdout F out", "stdout P open"]
    assert all(line[:4].isdecimal() and "T" in line.split()[0] for line in lines)


async def test_a_log_that_was_moved_away_is_begun_anew(node: CriNode) -> None:
    container_id = await node.start("trap 'echo two' USR1; echo one; while :; do sleep 1000 & wait $!; done")
    await node.outside.settled()
    log = node.logs / f"default_web_{UID}" / "c" / "0.log"
    log.rename(log.with_suffix(".old"))
    await node.runtime.reopen_log(container_id)
    await node.ask(container_id, "kill", "-USR1", "1")
    await eventually(lambda: log.exists() and log.read_text().endswith("stdout F two\n"))
    assert log.with_suffix(".old").read_text().endswith("stdout F one\n")


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [("exit 0", 0, "Completed"), ("exit 42", 42, "Error"), ("sh -c 'kill -SEGV $$'; exit $?", 139, "Error")],
)
async def test_the_way_a_program_ended_is_seen(node: CriNode, script: str, code: int, reason: str) -> None:
    done = await node.run(script)
    assert (done.state, done.exit_code, done.reason) == (State.EXITED, code, reason)


async def test_a_program_that_is_not_there_cannot_be_started(node: CriNode) -> None:
    with pytest.raises(PykubeletError, match=r"no such file|not found"):
        await node.start(command=("/nothing",))
    left = (await node.runtime.observe(UID)).containers[0]
    assert (left.state, left.exit_code, left.reason) == (State.EXITED, 128, "StartError")


async def test_who_takes_too_much_memory_is_killed_for_it(node: CriNode) -> None:
    limits = Limits(memory=16 * 2**20)
    done = await node.run("head -c 64000000 /dev/zero | tail -c 64000000 > /dev/null; x=$(yes)", limits=limits)
    assert (done.exit_code, done.reason) == (137, "OOMKilled")


async def test_the_last_words_of_a_container_are_kept(node: CriNode, tmp_path: Path) -> None:
    file = tmp_path / "last-words"
    file.touch()
    container = Container(name="c", termination_message_path="/dev/last", termination_message_policy="File")
    mount = Mount(host_path=str(file), container_path="/dev/last")
    done = await node.run("printf goodbye > /dev/last; exit 1", sandbox=node.sandbox(container), mounts=(mount,))
    assert done.message == "goodbye"


async def test_without_last_words_the_end_of_the_log_counts_when_the_pod_wants_so(node: CriNode) -> None:
    container = Container(name="c", termination_message_path="/x", termination_message_policy="FallbackToLogsOnError")
    assert (await node.run("echo one; echo two; exit 1", sandbox=node.sandbox(container))).message == "one\ntwo\n"


async def test_a_command_that_takes_too_long_is_killed(node: CriNode) -> None:
    container_id = await node.start()
    began = time.monotonic()
    with pytest.raises(Retry, match=r"timeout|[Dd]eadline"):
        await node.runtime.exec_sync(container_id, ("sleep", "987"), 1.0)
    assert time.monotonic() - began < 30
    assert "987" not in await node.ask(container_id, "ps")


async def test_commands_tell_their_code_and_both_outputs(node: CriNode) -> None:
    result = await node.runtime.exec_sync(await node.start(), ("sh", "-c", "echo a; echo b >&2; exit 5"), 10.0)
    assert (result.exit_code, result.stdout, result.stderr) == (5, b"a\n", b"b\n")


async def test_a_stop_waits_for_the_grace_and_no_longer(node: CriNode) -> None:
    sandbox = node.sandbox()
    sandbox_id = (await node.runtime.run_sandbox(sandbox)).id
    polite = await node.add(sandbox_id, sandbox, "trap 'exit 3' TERM; while :; do sleep 1000 & wait $!; done", "polite")
    stubborn = await node.add(sandbox_id, sandbox, "trap '' TERM; while :; do sleep 1000 & wait $!; done", "stubborn")
    await node.outside.settled()
    began = time.monotonic()
    await node.runtime.stop_container(polite, 30.0)
    assert time.monotonic() - began < 15
    began = time.monotonic()
    await node.runtime.stop_container(stubborn, 2.0)
    assert 2 <= time.monotonic() - began < 20
    codes = [(await seen(node.runtime, UID, each)).exit_code for each in (polite, stubborn)]
    assert codes == [3, 137]


# --- images


async def test_images_come_from_a_registry_and_can_be_removed(node: CriNode) -> None:
    image = make_image("x", node.containerd.layer, {"User": "77"})
    name = node.containerd.registry.push(image, "team/app", "v1")
    assert await node.runtime.image(name) is None
    pulled = await node.runtime.pull_image(name)
    assert (name in pulled.names, pulled.user, pulled.size > 0) == (True, "77", True)
    assert pulled in await node.runtime.images()
    await node.runtime.remove_image(pulled.id)
    assert await node.runtime.image(name) is None


async def test_a_containers_image_is_told_by_tag_and_by_digest(node: CriNode) -> None:
    image = make_image("x", node.containerd.layer, {"User": "78"})
    name = node.containerd.registry.push(image, "team/named", "v1")
    pulled = await node.runtime.pull_image(name)
    await node.start(image=name, image_id=pulled.id)
    (found,) = (await node.runtime.observe(UID)).containers
    repository = name.rpartition(":")[0]
    assert (found.image, found.image_id) == (name, f"{repository}@{image.manifest.digest}")
    await node.runtime.remove_image(pulled.id)


async def test_an_image_without_a_tag_is_told_by_its_id_and_by_digest(node: CriNode) -> None:
    image = make_image("x", node.containerd.layer, {"User": "79"})
    repository = node.containerd.registry.push(image, "team/nameless", "v1").rpartition(":")[0]
    name = f"{repository}@{image.manifest.digest}"
    pulled = await node.runtime.pull_image(name)
    await node.start(image=name, image_id=pulled.id)
    (found,) = (await node.runtime.observe(UID)).containers
    assert (found.image, found.image_id) == (pulled.id, name)
    await node.runtime.remove_image(pulled.id)


async def test_an_image_that_no_registry_has_is_not_found(node: CriNode) -> None:
    with pytest.raises(NotFound, match="nothing-here"):
        await node.runtime.pull_image(f"{node.containerd.registry.address}/nothing-here:1")


async def test_a_name_that_is_none_is_refused(node: CriNode) -> None:
    with pytest.raises(PykubeletError, match=r"invalid reference|parse"):
        await node.runtime.pull_image("Not A Name")


async def test_a_protected_registry_wants_the_right_password(node: CriNode, tmp_path: Path) -> None:
    with loopback_registry(tmp_path / "registry", protected=True) as registry:
        name = registry.push(make_image("y", node.containerd.layer), "team/secret", "v1")
        for wrong in (None, PullCredentials(username=USER, password="guess")):
            with pytest.raises(PykubeletError, match=r"401|[Uu]nauthorized|authorization"):
                await node.runtime.pull_image(name, wrong)
        pulled = await node.runtime.pull_image(name, PullCredentials(username=USER, password=PASSWORD))
        assert name in pulled.names


# --- events, and a runtime that comes and goes


async def listening(node: CriNode) -> AsyncGenerator[str, None]:
    """The hints, once they come: nobody tells when a stream is open, so another pod dies until that is heard."""
    changes, attempt = node.runtime.changes(), 0
    first = asyncio.ensure_future(anext(changes))
    async with asyncio.timeout(30):
        while not first.done():
            sandbox_id = (await node.runtime.run_sandbox(other_sandbox("other", attempt))).id
            await node.runtime.stop_sandbox(sandbox_id)
            await asyncio.wait({first}, timeout=1.0)
            attempt += 1
    assert await first == "uid-other"
    return changes


async def heard_of(changes: AsyncGenerator[str, None], uid: str) -> None:
    async with asyncio.timeout(10):
        while await anext(changes) != uid:
            pass  # a late word of the other pod


async def test_a_death_is_heard_of_within_a_tenth_of_a_second(node: CriNode) -> None:
    sandbox = node.sandbox()
    sandbox_id = (await node.runtime.run_sandbox(sandbox)).id
    delays = []
    async with aclosing(await listening(node)) as changes:
        for number in range(5):
            container_id = await node.add(sandbox_id, sandbox, FOREVER, f"c{number}")
            await node.outside.settled()
            (pid,) = (await node.outside.pids(f"id=={container_id}")).values()
            await node.ask(container_id, "true")  # a command's end is no container's end
            killed = time.monotonic()
            os.kill(pid, 9)
            await heard_of(changes, UID)
            delays.append(time.monotonic() - killed)
            assert (await seen(node.runtime, UID, container_id)).state is State.EXITED
    assert sorted(delays)[len(delays) // 2] < 0.1, delays


async def test_a_sandbox_that_dies_is_heard_of_and_seen(node: CriNode) -> None:
    sandbox_id = (await node.runtime.run_sandbox(node.sandbox())).id
    (pid,) = (await node.outside.pids(f"id=={sandbox_id}")).values()
    async with aclosing(await listening(node)) as changes:
        os.kill(pid, 9)
        await heard_of(changes, UID)
    assert not (await node.runtime.observe(UID)).sandboxes[0].ready


@pytest.mark.parametrize("end", [Containerd.kill, Containerd.stop], ids=["crash", "update"])
async def test_pods_outlive_the_end_of_the_runtime_and_calls_recover(node: CriNode, end: Callable[..., None]) -> None:
    container_id = await node.start()
    (pid,) = (await node.outside.pids(f"id=={container_id}")).values()
    changes = await listening(node)
    before = await node.runtime.pods()
    hint = asyncio.ensure_future(anext(changes))
    await asyncio.to_thread(end, node.containerd)
    with pytest.raises((Retry, StopAsyncIteration)):
        await hint
    with pytest.raises(Retry, match="does not answer"):
        await node.runtime.pods()
    await asyncio.to_thread(node.containerd.start)
    assert await _recovered(node.runtime.pods) == before
    assert Path(f"/proc/{pid}").exists()
    assert await node.ask(container_id, "echo", "still here") == "still here\n"
    await node.runtime.stop_container(container_id, 10.0)
    assert (await until(node.runtime, UID, lambda pod: pod.containers)).containers[0].state is State.EXITED


async def _recovered(call: Callable[[], Any]) -> Any:
    async with asyncio.timeout(10):
        while True:
            try:
                return await call()
            except Retry:
                await asyncio.sleep(0.05)
