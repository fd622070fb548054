"""Ephemeral containers, which come to a pod that runs already: `kubectl debug` makes them."""

from typing import Any

import pytest

from contract.runtime import container_config, ended, sandbox_config
from pykubelet.api.container import EphemeralContainer
from pykubelet.api.security import Capabilities, SecurityContext
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.observed import State
from pykubelet.pod.ports.runtime import SandboxConfig
from unit.runtime.process.machine import UID, Machine

PEEK = "cat /proc/1/comm; tr '\\0' ' ' < /proc/1/cmdline; readlink /proc/self/ns/pid"


def with_debugger(config: SandboxConfig, **fields: Any) -> SandboxConfig:
    """The pod, once somebody has put a container into it."""
    spec = changed(config.pod.spec, ephemeral_containers=(EphemeralContainer(name="debug", **fields),))
    return changed(config, pod=changed(config.pod, spec=spec))


async def debugging(
    machine: Machine, script: str, *, sandbox: SandboxConfig | None = None, target: str = "c", **fields: Any
) -> tuple[str, str]:
    """-> the ids of the container that runs, and of one that is made for it later, not started yet."""
    before = sandbox or sandbox_config()
    main = await machine.start("exec sleep 1234", sandbox=before)
    now = with_debugger(before, target_container_name=target, **fields)
    sandbox_id = (await machine.runtime.observe(UID)).sandboxes[0].id
    config = container_config(machine, name="debug", command=("sh", "-c", script), sandbox=now)
    return main, await machine.runtime.create_container(sandbox_id, config)


async def said(machine: Machine, container_id: str) -> str:
    await machine.runtime.start_container(container_id)
    assert (await ended(machine.runtime, UID, container_id)).exit_code == 0
    return machine.output(container_id)


async def test_it_is_among_the_processes_of_its_target(isolated: Machine) -> None:
    main, debugger = await debugging(isolated, PEEK)
    name, command, own = (await said(isolated, debugger)).replace("1234 pid", "1234 \npid").splitlines()
    theirs = await isolated.runtime.exec_sync(main, ("readlink", "/proc/self/ns/pid"), 10)
    assert (name, command.strip(), own) == ("sleep", "sleep 1234", theirs.stdout.decode().strip())


async def test_it_can_send_signals_to_its_target_and_ends_with_it(isolated: Machine) -> None:
    main, debugger = await debugging(isolated, "sleep 1000 & trap 'kill -KILL $$' TERM; wait")
    await isolated.runtime.start_container(debugger)
    await isolated.runtime.stop_container(main, 0)
    assert (await ended(isolated.runtime, UID, debugger)).exit_code == 137


async def test_its_end_leaves_the_target_running_and_nothing_else_behind(isolated: Machine) -> None:
    main, debugger = await debugging(isolated, "setsid sleep 4321 & exec sleep 1000")
    await isolated.runtime.start_container(debugger)

    async def asked(script: str) -> str:
        return (await isolated.runtime.exec_sync(main, ("sh", "-c", script), 20)).stdout.decode()

    look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"
    assert "sleep 4321" in await asked(f"until {look} | grep 'sleep 432[1]'; do sleep 0.01; done")
    await isolated.runtime.stop_container(debugger, 0)
    left = await asked(look)
    assert "sleep 4321" not in left
    assert "sleep 1234" in left


async def test_commands_in_it_see_the_target_too(isolated: Machine) -> None:
    _, debugger = await debugging(isolated, "exec sleep 1000")
    await isolated.runtime.start_container(debugger)
    done = await isolated.runtime.exec_sync(debugger, ("cat", "/proc/1/cmdline"), 10)
    assert done.stdout == b"sleep\x001234\x00"


async def test_without_its_target_it_is_not_started(isolated: Machine) -> None:
    _, debugger = await debugging(isolated, "true", target="nobody")
    with pytest.raises(Retry, match="its target container nobody does not run"):
        await isolated.runtime.start_container(debugger)


async def test_where_processes_are_shared_anyway_there_is_nothing_to_join(any_machine: Machine) -> None:
    shared = sandbox_config()
    shared = changed(shared, pod=changed(shared.pod, spec=changed(shared.pod.spec, share_process_namespace=True)))
    _, debugger = await debugging(any_machine, "cat /proc/[0-9]*/cmdline", sandbox=shared)
    await any_machine.runtime.start_container(debugger)
    await ended(any_machine.runtime, UID, debugger)
    assert "sleep\x001234" in any_machine.output(debugger)


async def test_its_security_context_holds_though_it_came_later(isolated: Machine) -> None:
    context = SecurityContext(run_as_user=1000, capabilities=Capabilities(drop=("ALL",)))
    _, debugger = await debugging(isolated, "id -u; grep CapBnd /proc/self/status", security_context=context)
    assert (await said(isolated, debugger)).split() == ["1000", "CapBnd:", "0000000000000000"]


async def test_what_it_asks_for_in_vain_is_refused(any_machine: Machine) -> None:
    with pytest.raises(Invalid, match="container debug: procMount Unmasked cannot be provided"):
        await debugging(any_machine, "true", security_context=SecurityContext(proc_mount="Unmasked"))


async def test_an_agent_that_comes_later_knows_it(isolated: Machine) -> None:
    context = SecurityContext(run_as_user=1000)
    _, debugger = await debugging(isolated, "exec sleep 1000", security_context=context)
    await isolated.runtime.start_container(debugger)
    runtime = await isolated.restarted()
    done = await runtime.exec_sync(debugger, ("sh", "-c", "id -u; cat /proc/1/comm"), 10)
    assert done.stdout == b"1000\nsleep\n"
    states = {each.name: each.state for each in (await runtime.observe(UID)).containers}
    assert states == {"c": State.RUNNING, "debug": State.RUNNING}
