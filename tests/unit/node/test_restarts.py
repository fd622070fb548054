"""Containers that people restart, and containers with rules of their own: the agent in virtual time."""

from functools import partial

import pytest

from kit.node import Running, World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container, ContainerRestartRule, ContainerRestartRuleOnExitCodes
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod.lifecycle.pod_features import PodFeatures

MAIN, SIDE = Container(name="c", image="x"), Container(name="side", image="x", restart_policy="Always")


def pod(*containers: Container, policy: str = "Always", init: tuple[Container, ...] = ()) -> Pod:
    made = make_pod("web")
    spec = changed(made.spec, restart_policy=policy, containers=containers or (MAIN,), init_containers=init)
    return changed(made, spec=spec)


def restarts(node: Running, name: str = "c") -> int:
    status = node.status("uid-web")
    return next(
        each.restart_count
        for each in (*status.init_container_statuses, *status.container_statuses)
        if each.name == name
    )


def has_restarted(node: Running, times: int) -> bool:
    return restarts(node) == times


@virtual_time
async def test_one_container_is_restarted_in_place() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(MAIN, Container(name="other", image="x")))
        await eventually(lambda: world.runtime.running() == ["web/c", "web/other"])
        before = world.now()
        for count in range(1, 6):
            assert node.agent.restart("default", "web", "c") == "c"
            await eventually(partial(has_restarted, node, count))
            await eventually(lambda: world.runtime.running() == ["web/c", "web/other"])
        assert (world.now() - before).total_seconds() < 5, "who asks for it does not wait as for a crash"
        assert restarts(node, "other") == 0
        assert node.phase("uid-web") == "Running"
        assert "Killing" in world.events.reasons("web")
        world.runtime.exit("uid-web", "c", 1)
        ended = world.now()
        await eventually(lambda: restarts(node) == 6)
        assert (world.now() - ended).total_seconds() < 1, "nor has its first crash been counted before"


@virtual_time
async def test_one_that_waits_because_it_crashes_is_started_now() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        for _ in range(2):
            world.runtime.exit("uid-web", "c", 1)
            await eventually(lambda: world.runtime.running() or node.waiting("uid-web") == "CrashLoopBackOff")
        asked = world.now()
        assert node.agent.restart("default", "web", "") == "c"
        await eventually(world.runtime.running)
        assert (world.now() - asked).total_seconds() < 1


@virtual_time
async def test_a_side_car_is_restarted_while_the_rest_goes_on() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(init=(SIDE,)))
        await eventually(lambda: world.runtime.running() == ["web/c", "web/side"])
        node.agent.restart("default", "web", "side")
        await eventually(lambda: restarts(node, "side") == 1)
        assert restarts(node) == 0


@virtual_time
async def test_what_would_not_come_back_is_not_ended() -> None:
    world = World()
    async with world.agent() as node:
        with pytest.raises(NotFound, match="no pod default/web here"):
            node.agent.restart("default", "web", "")
        world.pods.apply(
            pod(MAIN, Container(name="d", image="x"), policy="OnFailure", init=(Container(name="i", image="x"),))
        )
        await eventually(lambda: world.runtime.running() == ["web/i"])
        for name, kind, words in (
            ("", Invalid, "choose one with -c: c, d"),
            ("nope", NotFound, "has no container nope; there are: c, d"),
            ("i", Invalid, "container i runs once"),
            ("c", Retry, "has not been started yet"),
        ):
            with pytest.raises(kind, match=words):
                node.agent.restart("default", "web", name)
        world.runtime.exit("uid-web", "i", 0)
        await eventually(lambda: world.runtime.running() == ["web/c", "web/d"])
        with pytest.raises(Invalid, match="with restartPolicy OnFailure an end may be its last"):
            node.agent.restart("default", "web", "c")
        world.runtime.exit("uid-web", "c", 0)
        await eventually(lambda: world.runtime.running() == ["web/d"])
        await eventually(lambda: node.status("uid-web").container_statuses[0].state.terminated is not None)
        with pytest.raises(Invalid, match="has ended for good"):
            node.agent.restart("default", "web", "c")
        assert world.runtime.running() == ["web/d"]


def rules(*codes: int) -> tuple[ContainerRestartRule, ...]:
    return (
        ContainerRestartRule(action="Restart", exit_codes=ContainerRestartRuleOnExitCodes(operator="In", values=codes)),
    )


@virtual_time
async def test_a_container_s_own_rules_decide_where_the_gate_is_open() -> None:
    world = World()
    world.features = PodFeatures(restart_rules=True)
    picky = Container(name="c", image="x", restart_policy="Never", restart_policy_rules=rules(42))
    async with world.agent() as node:
        world.pods.apply(pod(picky, policy="Never"))
        await eventually(world.runtime.running)
        world.runtime.exit("uid-web", "c", 42)
        await eventually(lambda: restarts(node) == 1)
        assert node.phase("uid-web") == "Running"
        world.runtime.exit("uid-web", "c", 1)
        await eventually(lambda: node.phase("uid-web") == "Failed")
        assert restarts(node) == 1


@virtual_time
async def test_they_decide_nothing_where_it_is_shut() -> None:
    world = World()
    picky = Container(name="c", image="x", restart_policy="Never", restart_policy_rules=rules(42))
    async with world.agent() as node:
        world.pods.apply(pod(picky, policy="Never"))
        await eventually(world.runtime.running)
        world.runtime.exit("uid-web", "c", 42)
        await eventually(lambda: node.phase("uid-web") == "Failed")


@virtual_time
async def test_one_that_stays_down_does_not_end_a_pod_whose_other_comes_back() -> None:
    world = World()
    world.features = PodFeatures(restart_rules=True)
    async with world.agent() as node:
        world.pods.apply(pod(Container(name="c", image="x", restart_policy="Never"), Container(name="d", image="x")))
        await eventually(lambda: world.runtime.running() == ["web/c", "web/d"])
        world.runtime.exit("uid-web", "c", 1)
        world.runtime.exit("uid-web", "d", 1)
        await eventually(lambda: restarts(node, "d") == 1)
        assert restarts(node) == 0
        assert node.phase("uid-web") == "Running"
