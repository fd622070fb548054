# ruff: noqa: ASYNC240 - tests may block
"""A pod wants what is for all: the machine's memory by its /dev/shm, its disk by what cannot be taken away again. And
it listens to what goes over the network that all share."""

import os
from pathlib import Path

import pytest

from contract.runtime import container_config, ended, sandbox_config
from pykubelet.api.security import Capabilities, SecurityContext
from unit.runtime.process.machine import UID, Machine, sandbox_of

only_root = pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user's pods have its share of everything")
DEPTH = 3000
DIG = f"""
import os
os.chdir({{place!r}})
for _ in range({DEPTH}):
    os.mkdir("d"), os.chdir("d")
print("dug")
"""
FILL = "head -c 100000000 /dev/zero > /dev/shm/full; stat -c %s /dev/shm/full"
LISTEN = """
import socket
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    print("listens")
except PermissionError:
    print("is refused")
"""


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/etc"])
async def test_a_pod_that_digs_deep_can_be_removed(isolated: Machine, place: str) -> None:
    """The fixture looks for what is left when all is removed."""
    _, output = await isolated.run("", command=("python3", "-c", DIG.format(place=place)))
    assert output == "dug\n"


@only_root
async def test_no_pod_fills_the_memory_that_all_share(isolated: Machine) -> None:
    container_id = await isolated.start("sleep 1000")
    result = await isolated.runtime.exec_sync(container_id, ("sh", "-c", FILL), 20)
    assert int(result.stdout) == 64 << 20
    (pod,) = await isolated.runtime.pods()
    sandbox_id = pod.sandboxes[0].id
    assert sandbox_id in Path("/proc/self/mountinfo").read_text()
    await isolated.runtime.remove_sandbox(sandbox_id)
    assert sandbox_id not in Path("/proc/self/mountinfo").read_text()


async def test_containers_of_one_pod_share_it(isolated: Machine) -> None:
    sandbox_id = (await isolated.runtime.run_sandbox(sandbox_config())).id
    said = []
    for attempt, script in enumerate(("echo well > /dev/shm/said", "cat /dev/shm/said")):
        config = container_config(isolated, attempt=attempt, command=("sh", "-c", script))
        container_id = await isolated.runtime.create_container(sandbox_id, config)
        await isolated.runtime.start_container(container_id)
        await ended(isolated.runtime, UID, container_id)
        said.append(isolated.output(container_id))
    assert said == ["", "well\n"]


@only_root
async def test_only_who_asks_for_it_hears_what_others_say(isolated: Machine) -> None:
    command = ("python3", "-c", LISTEN)
    _, output = await isolated.run("", command=command)
    assert output == "is refused\n"
    asks = sandbox_of(SecurityContext(capabilities=Capabilities(add=("NET_RAW",))))
    _, output = await isolated.run("", command=command, sandbox=asks, attempt=1)
    assert output == "listens\n"
