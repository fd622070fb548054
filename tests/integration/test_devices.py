"""A pod gets the devices of a plug-in, with everything that belongs to them, on each runtime; and keeps them."""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.agent_process import Node
from kit.containerd import Containerd
from kit.device_plugin import PluginOfDevices, healthy
from kit.waiting import eventually
from pykubelet.base.errors import PykubeletError
from pykubelet.plugins._gen import device_plugin_pb2 as wire

THING = "example.com/thing"
TUN = Path("/dev/net/tun")
SAYS = (
    'echo "$THINGS $(cat /driver/version) $(test -c /dev/thing && exec 3<>/dev/thing && echo opened)"; exec sleep 1000'
)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """The path of a socket has its limits."""
    with tempfile.TemporaryDirectory(prefix="pykubelet-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def pod(name: str, count: int = 1) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", SAYS],
        "resources": {"limits": {THING: count}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }


def brings(folder: Path) -> PluginOfDevices:
    """A plug-in with two devices, which are the machine's own for private networks."""
    (folder / "driver").mkdir()
    (folder / "driver" / "version").write_text("7.1")
    plugin = PluginOfDevices(THING)
    plugin.tell(*healthy("t1", "t2"))
    plugin.answer = lambda ids: wire.ContainerAllocateResponse(
        envs={"THINGS": " ".join(ids)},
        mounts=[wire.Mount(container_path="/driver", host_path=str(folder / "driver"), read_only=True)],
        devices=[wire.DeviceSpec(container_path="/dev/thing", host_path=str(TUN), permissions="rw")],
    )
    return plugin


def said(node: Node, name: str) -> str:
    logs = sorted((node.state / "logs").glob(f"default_{name}-*/c/*.log"))
    return " ".join(logs[-1].read_text().split(" ", 3)[3:]).strip() if logs else ""


async def until_registered(plugin: PluginOfDevices, node: Node) -> None:
    """As plug-ins do it: the agent may take a moment to load what answers them."""
    async with asyncio.timeout(40):
        while True:
            try:
                return await plugin.register(node.state / "device-plugins", "p.sock")
            except PykubeletError:
                await asyncio.sleep(0.2)


@pytest.mark.skipif(os.getuid() != 0 or not TUN.exists(), reason="only root may open the device")
@pytest.mark.parametrize("runtime", ["embedded", "containerd"])
async def test_a_pod_has_its_devices_and_keeps_them(runtime: str, containerd: Containerd, short_folder: Path) -> None:
    flags = ("--container-runtime-endpoint", containerd.endpoint) if runtime == "containerd" else ()
    node, plugin = Node(short_folder, *flags), brings(short_folder)
    with node.agent() as agent:
        await eventually((node.state / "device-plugins" / "kubelet.sock").exists)  # as plug-ins watch for it
        async with plugin.at(node.state / "device-plugins" / "p.sock"):
            await until_registered(plugin, node)
            (node.manifests / "one.json").write_text(json.dumps(pod("one")))
            await eventually(lambda: said(node, "one") == "t1 7.1 opened")
            (node.manifests / "two.json").write_text(json.dumps(pod("two", 2)))
            await eventually(lambda: node.pods().get("two", {}).get("status", {}).get("phase") == "Failed")
            assert node.pods()["two"]["status"]["reason"] == "UnexpectedAdmissionError"
            before = node.containers()
            agent.kill()
    with node.agent("--stop-pods-on-exit") as agent:  # the plug-in is away, and the pod goes on
        await eventually(lambda: node.containers().get("one") == before["one"])
        agent.stop()
    assert plugin.asked.count("allocate t1") == 1
    node.remove_pods()
