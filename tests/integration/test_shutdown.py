"""A real agent on a machine that goes down: told so by (a stand-in for) logind over a real bus, or by SIGTERM."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from kit.agent_process import NODE_NAME, Node
from kit.api_server import LoopbackApi, loopback_api
from kit.logind import logind, private_bus
from kit.waiting import wait_for

TERMINATED: Final = "Pod was terminated in response to imminent node shutdown."
QUICK: Final = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


def pod(name: str, priority: int = 0) -> dict[str, Any]:
    spec = {
        "nodeName": NODE_NAME,
        "priority": priority,
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", QUICK]}],
    }
    return {"metadata": {"name": name, "namespace": "default", "uid": f"{name}-uid"}, "spec": spec}


class World:
    def __init__(self, folder: Path, api: LoopbackApi, *flags: str) -> None:
        self.api = api
        configuration = folder / "kubelet.yaml"
        head = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
        periods = {"shutdownGracePeriod": "5s", "shutdownGracePeriodCriticalPods": "2s"}
        configuration.write_text(json.dumps({**head, **periods}))
        self.node = Node(folder, "--kubeconfig", str(folder / "kubeconfig"), "--config", str(configuration), *flags)

    def fill(self) -> None:
        wait_for(lambda: self.api.condition(NODE_NAME)[0] == "True", otherwise=self.node.told)
        for each in (pod("plain"), pod("critical", 2_000_000_000)):
            self.api.apply(each)
        wait_for(lambda: len(self.node.containers()) == 2, otherwise=self.node.told)

    def phases(self) -> dict[str, tuple[str, str, str]]:
        told = {name: each.get("status", {}) for name, each in self.api.pods().items()}
        return {name: (s.get("phase", ""), s.get("reason", ""), s.get("message", "")) for name, s in told.items()}

    def finished_at(self, name: str) -> str:
        (status,) = self.api.pods()[name]["status"]["containerStatuses"]
        return str(status["state"]["terminated"]["finishedAt"])


async def later(condition: Callable[[], object], world: World) -> None:
    await asyncio.to_thread(wait_for, condition, seconds=20, otherwise=world.node.told)


@pytest.mark.timeout(120)
async def test_the_machine_waits_until_pods_have_ended_in_their_order_and_may_change_its_mind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "node").mkdir()
    with private_bus(tmp_path) as address, loopback_api(tmp_path / "node" / "kubeconfig") as api:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        world = World(tmp_path / "node", api)
        async with logind(address, tmp_path) as machine:
            with world.node.agent() as agent:
                await asyncio.to_thread(world.fill)
                await later(lambda: machine.locks == 1, world)
                machine.say("b", True)
                await later(lambda: api.condition(NODE_NAME) == ("False", "node is shutting down"), world)
                await later(lambda: machine.locks == 0, world)
                ended = ("Failed", "Terminated", TERMINATED)
                await later(lambda: world.phases() == {"plain": ended, "critical": ended}, world)
                assert world.finished_at("plain") <= world.finished_at("critical")
                assert ("NodeShutdown", "Shutdown manager detected shutdown event") in api.events()
                api.apply(pod("late"))
                await later(lambda: world.phases()["late"][:2] == ("Failed", "NodeShutdown"), world)
                state = json.loads((world.node.state / "graceful_node_shutdown_state").read_text())
                assert state["startTime"] < state["endTime"]

                machine.say("b", False)
                await later(lambda: machine.locks == 1, world)
                await later(lambda: api.condition(NODE_NAME)[0] == "True", world)
                api.apply(pod("later"))
                await later(lambda: "later" in world.node.containers(), world)
                await asyncio.to_thread(agent.stop)
            assert machine.locks == 0
        await asyncio.to_thread(world.node.remove_pods)


@pytest.mark.timeout(120)
def test_without_systemd_a_signal_says_that_the_machine_goes_down(tmp_path: Path) -> None:
    with loopback_api(tmp_path / "kubeconfig") as api:
        world = World(tmp_path, api, "--shutdown-on-term")
        with world.node.agent() as agent:
            world.fill()
            agent.stop()
        ended = ("Failed", "Terminated", TERMINATED)
        assert world.phases() == {"plain": ended, "critical": ended}
        assert api.condition(NODE_NAME) == ("False", "node is shutting down")
        world.node.remove_pods()
