"""What people are told of a pod's troubles, in upstream's words: stories in virtual time."""

import asyncio
from typing import Any

from kit.node import World, make_node
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.pod.container.failures import FoldersFailed
from pykubelet.pod.lifecycle.pod_update import Listed


def pod(name: str = "web", **fields: Any) -> Pod:
    made = make_pod(name)
    return changed(made, spec=changed(made.spec, **({"restart_policy": "Always"} | fields)))


def told(world: World, reason: str) -> list[str]:
    return [message for _, each, message in world.events.all if each == reason]


@virtual_time
async def test_a_sandbox_that_is_made_anew_is_told_of() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        assert not told(world, "SandboxChanged"), "a first one is nothing to speak of"
        world.runtime.lose_sandbox("uid-web")
        await eventually(lambda: told(world, "SandboxChanged"), seconds=90)
    assert told(world, "SandboxChanged")[0] == "Pod sandbox changed, it will be killed and re-created."


@virtual_time
async def test_a_pod_that_cannot_be_looked_at_or_killed_is_told_of() -> None:
    world = World()
    async with world.agent():
        world.runtime.failures["observe"] = [Retry("the runtime is away")]
        world.pods.apply(pod())
        await eventually(world.runtime.running, seconds=60)
        assert told(world, "FailedSync") == ["error determining status: the runtime is away"]
        world.runtime.failures["stop_container"] = [Retry("it is stuck")]
        world.pods.remove("uid-web")
        await eventually(lambda: world.runtime.is_empty, seconds=60)
    assert told(world, "FailedKillPod") == ["error killing pod: it is stuck"]


@virtual_time
async def test_folders_that_cannot_be_made_are_no_failed_mount() -> None:
    world = World()
    async with world.agent():
        world.host.failures["set_up"] = [FoldersFailed("error making pod data directories: no room")]
        world.pods.apply(pod())
        await eventually(world.runtime.running, seconds=60)
    assert told(world, "Failed") == ["error making pod data directories: no room"]
    assert not told(world, "FailedMount")


@virtual_time
async def test_a_second_pod_of_a_name_is_told_of() -> None:
    world = World()
    async with world.agent():
        second = changed(make_pod("web"), metadata=changed(make_pod("web").metadata, uid="second"))
        await asyncio.sleep(1)
        world.files._events.put_nowait(Listed((pod(), second)))
        await eventually(lambda: told(world, "FailedValidation"))
    what = 'Error validating pod web_default(second) from file due to duplicate pod name "web", ignoring'
    assert told(world, "FailedValidation") == [what]


@virtual_time
async def test_a_pod_that_does_not_make_room_in_time_is_told_of() -> None:
    world = World()
    world.node = make_node(cpu="1")
    share = (Container(name="c", image="i", resources=ResourceRequirements(requests={"cpu": parse("800m")})),)
    async with world.agent():
        for name, seconds, exceeded in (("quick", 0.0, 0), ("stuck", 100.0, 1)):
            world.runtime.delays["stop_container"] = seconds
            world.pods.apply(pod(name, containers=share, termination_grace_period_seconds=30))
            await eventually(lambda name=name: world.runtime.running() == [f"{name}/c"], seconds=300)  # type: ignore[misc]
            critical = pod("critical", containers=share, priority=2_000_000_000)
            world.pods.apply(critical)
            await eventually(lambda: world.runtime.running() == ["critical/c"], seconds=300)
            assert len(told(world, "ExceededGracePeriod")) == exceeded
            world.runtime.delays.clear()
            world.pods.remove("uid-critical")
            world.pods.remove(f"uid-{name}")
            await eventually(lambda: world.runtime.is_empty, seconds=60)
    what = "Container runtime did not kill the pod within specified grace period."
    assert told(world, "ExceededGracePeriod") == [what]


@virtual_time
async def test_events_of_containers_say_which_one_they_are_about() -> None:
    world = World()
    sidecar = Container(name="log", image="i", restart_policy="Always")
    async with world.agent():
        world.pods.apply(pod(init_containers=(sidecar,)))
        await eventually(lambda: len(world.runtime.running()) == 2, seconds=60)
        for _ in range(2):
            world.runtime.exit("uid-web", "c", 1)
            await eventually(lambda: "c" in str(world.runtime.running()), seconds=60)
        world.pods.remove("uid-web")
        await eventually(lambda: world.runtime.is_empty, seconds=60)
    main, first = "spec.containers{c}", "spec.initContainers{log}"
    assert {
        reason: world.events.paths[reason] for reason in ("Pulling", "Pulled", "Created", "Started", "Killing")
    } == {
        "Pulling": {main, first},
        "Pulled": {main, first},
        "Created": {main, first},
        "Started": {main, first},
        "Killing": {main, first},
    }
    assert world.events.paths["BackOff"] == {main}
