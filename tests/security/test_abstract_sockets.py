# ruff: noqa: ASYNC240 - tests may block
"""A container that knows the name of one of this machine's abstract sockets does not get through to it."""

import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.waiting import eventually
from pykubelet.api.security import Capabilities, SeccompProfile, SecurityContext
from pykubelet.runtime.process.shim import attached
from unit.runtime.process.machine import Machine, sandbox_of

PATH = (("PATH", os.environ["PATH"]),)
KNOCK = """
import socket
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
    try:
        with socket.socket(socket.AF_UNIX, kind) as knock:
            knock.connect("\\0{name}-%d" % kind)
            print("in", kind)
    except OSError as error:
        print("out", error.errno)
"""


@pytest.fixture
def name() -> Iterator[str]:
    """Of sockets of this machine, one of each kind, behind which everybody is welcome."""
    name = f"pykubelet-test-{secrets.token_hex(4)}"
    sockets = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        made = socket.socket(socket.AF_UNIX, kind)
        sockets.append(made)
        made.bind(f"\0{name}-{kind:d}")
        if kind != socket.SOCK_DGRAM:
            made.listen()
    yield name
    for each in sockets:
        each.close()


@pytest.fixture
async def scoped(isolated: Machine) -> Machine:
    said = (await isolated.runtime.status()).limitations
    if not any("its program does not" in sentence for sentence in said):
        assert any(sentence.startswith("Abstract unix sockets of this machine can be reached") for sentence in said)
        pytest.skip("this kernel cannot tell sockets apart")
    return isolated


def knocking(name: str) -> tuple[str, ...]:
    return ("python3", "-c", KNOCK.format(name=name))


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"run_as_user": 1234},
        {"allow_privilege_escalation": False},
        {"seccomp_profile": SeccompProfile(type="RuntimeDefault")},
        {"capabilities": Capabilities(add=("SYS_ADMIN", "NET_ADMIN", "DAC_OVERRIDE"))},
    ],
)
async def test_this_machines_sockets_are_out_of_reach(scoped: Machine, name: str, own: dict[str, Any]) -> None:
    sandbox = sandbox_of(SecurityContext(**own))
    _, output = await scoped.run("", command=knocking(name), env=PATH, sandbox=sandbox)
    assert output == "out 1\nout 1\nout 1\n"


@pytest.mark.parametrize("spec", [{"host_network": True}, {"share_process_namespace": True}])
async def test_who_shares_by_his_own_wish_gets_through(scoped: Machine, name: str, spec: dict[str, Any]) -> None:
    _, output = await scoped.run("", command=knocking(name), env=PATH, sandbox=sandbox_of(**spec))
    assert output == "in 1\nin 2\nin 5\n"


async def test_a_container_reaches_its_own(scoped: Machine) -> None:
    own = f"""
import os, socket
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
    door.bind("\\0pykubelet-own-{os.getpid()}"); door.listen()
    if os.fork() == 0:
        knock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        knock.connect("\\0pykubelet-own-{os.getpid()}"); knock.send(b"me"); os._exit(0)
    print(door.accept()[0].recv(2).decode())
"""
    _, output = await scoped.run("", command=("python3", "-c", own), env=PATH)
    assert output == "me\n"


async def test_a_command_still_looks_into_the_containers_processes(scoped: Machine) -> None:
    container_id = await scoped.start("sleep 1000", env=(("MARK", "here"), *PATH))
    command = ("sh", "-c", "tr '\\0' '\\n' < /proc/1/environ | grep MARK; echo said > /proc/1/fd/1")
    assert (await scoped.runtime.exec_sync(container_id, command, 10)).stdout == b"MARK=here\n"
    await eventually(lambda: scoped.output(container_id) == "said\n")


async def test_none_of_the_runtimes_own_sockets_is_abstract(isolated: Machine) -> None:
    container_id = await isolated.start("sleep 1000", stdin=True)
    folder = isolated.root / "containers" / container_id
    await eventually(lambda: (folder / attached.NAME).is_socket())
    names = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()]
    assert not [each for each in names if each.startswith("@") and ("pykubelet" in each or container_id in each)]
