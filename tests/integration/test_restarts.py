"""The agent is killed, and containerd goes away under it: what runs goes on, and nothing is left behind."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from kit.agent_process import NODE_NAME, Node, is_alive, running_containers
from kit.api_server import LoopbackApi, loopback_api
from kit.containerd import Containerd
from kit.inventory import inventory, take_away_pods
from kit.waiting import wait_for

KILLS: Final = 8
STATIC: Final = tuple(f"static{number}" for number in range(12))
SERVED: Final = tuple(f"served{number}" for number in range(8))
COMING_AND_GOING: Final = 3
"""Of either kind."""


def pod(name: str, version: int = 0, command: tuple[str, ...] = ("sleep", "100000")) -> dict[str, Any]:
    """As light as pods are. Its program does not hear SIGTERM, so it is killed after its grace."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"version": f"v{version}"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "c", "image": "busybox:1.36", "imagePullPolicy": "IfNotPresent", "command": list(command)}
            ],
        },
    }


class World:
    """A node with pods from manifests and from an API server, on a containerd."""

    def __init__(self, folder: Path, containerd: Containerd, api: LoopbackApi) -> None:
        kubeconfig = str(folder / "kubeconfig")
        self.node = Node(folder, "--container-runtime-endpoint", containerd.endpoint, "--kubeconfig", kubeconfig)
        self.containerd = containerd
        self.api = api
        self.before = inventory(containerd)
        self.versions = 0

    def write(self, name: str, command: tuple[str, ...] = ("sleep", "100000")) -> None:
        """A manifest, new or changed."""
        self.versions += 1
        there = self.node.manifests / f"{name}.json"
        new = there.with_suffix(".new")
        new.write_text(json.dumps(pod(name, self.versions, command)))
        new.rename(there)

    def serve(self, name: str) -> None:
        """A pod that the API server has bound to this node."""
        self.versions += 1
        made = pod(name, self.versions)
        made["metadata"]["uid"] = f"{name}-{self.versions}"
        made["spec"] |= {"nodeName": NODE_NAME, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}
        self.api.apply(made)

    def wanted(self) -> set[str]:
        served = {name for name, each in self.api.pods().items() if not _is_mirror(each)}
        leaving = {name for name in served if "deletionTimestamp" in self.api.pods()[name]["metadata"]}
        return {path.stem for path in self.node.manifests.glob("*.json")} | served - leaving

    def faults(self) -> list[str]:
        """What is not as it should be once the agent has come to rest."""
        pods = self.node.pods()
        running = running_containers(pods)
        held = inventory(self.containerd)
        uids = {each["metadata"]["uid"]: name for name, each in pods.items()}
        found = [*held.disagreements(self.before)]
        if running.keys() != self.wanted():
            found.append(f"running: {sorted(running)}, wanted: {sorted(self.wanted())}")
        if strangers := held.uids() - self.before.uids() - uids.keys():
            found.append(f"belongs to nobody: {sorted(strangers)}")
        for uid, name in uids.items():
            if held.running(uid) != [running.get(name, ("",))[0]]:
                found.append(f"{name}: in containerd run {held.running(uid)}, told is {running.get(name)}")
        return [*found, *self._folder_faults({*uids})]

    def _folder_faults(self, uids: set[str]) -> Iterator[str]:
        folders = {path.name for path in (self.node.state / "pods").glob("*")}
        logs = {path.name.rpartition("_")[2] for path in (self.node.state / "logs").glob("*")}
        for what, found in (("folders", folders), ("log folders", logs)):
            if found != uids:
                yield f"{what}: too many: {sorted(found - uids)}, missing: {sorted(uids - found)}"

    def leftovers(self) -> list[str]:
        """What should have gone when all pods have gone."""
        held = inventory(self.containerd)
        left = [*held.disagreements(self.before), *self._folder_faults(set())]
        left += [f"pod {uid}" for uid in held.uids() - self.before.uids()]
        return left + [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.node.state) in line]


@pytest.fixture
def world(tmp_path: Path, containerd: Containerd) -> Iterator[World]:
    with loopback_api(tmp_path / "kubeconfig") as api:
        made = World(tmp_path, containerd, api)
        try:
            yield made
        finally:
            take_away_pods(containerd, made.before)


def _is_mirror(pod: dict[str, Any]) -> bool:
    return "kubernetes.io/config.mirror" in pod["metadata"].get("annotations", {})


# --- the agent


@pytest.mark.timeout(300)
def test_twenty_pods_outlive_one_agent_after_the_other_and_nothing_of_what_came_and_went_is_left(world: World) -> None:
    seed = int(os.environ.get("PYKUBELET_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
    chance = random.Random(seed)
    print(f"PYKUBELET_TEST_SEED={seed}")  # the same moments again, as far as a machine can
    for name in STATIC:
        world.write(name)
    for name in SERVED:
        world.serve(name)
    with world.node.agent():
        untouched = _settled(world, seed)
    for _ in range(KILLS):
        with world.node.agent():
            _stir(world, chance)
            if chance.random() < 0.9:  # the others are killed while they start
                wait_for(world.node.pods)
            time.sleep(chance.uniform(0.0, 0.9))  # not for luck: this is the moment of its death
    print(f"calls cut short: {(world.containerd.root / 'containerd.log').read_text().count('context canceled')}")
    with world.node.agent("--stop-pods-on-exit") as last:
        after = _settled(world, seed)
        assert {name: after[name] for name in untouched} == untouched, f"seed {seed}"
        assert {restarts for _, restarts in untouched.values()} == {0}
        wanted = {pod["metadata"]["uid"] for pod in world.node.pods().values()}
        last.stop()
    assert inventory(world.containerd).uids() - world.before.uids() <= wanted, f"seed {seed}"
    world.node.remove_pods()
    assert world.leftovers() == [], f"seed {seed}\n{world.node.told()}"


def _settled(world: World, seed: int = 0) -> dict[str, tuple[str, int]]:
    """The containers, once exactly those run that should."""
    wait_for(lambda: not world.faults(), seconds=120, otherwise=lambda: _complaint(world, seed))
    return world.node.containers()


def _complaint(world: World, seed: int) -> str:
    return "\n".join([f"(seed {seed})", *world.faults(), world.node.told()])


def _stir(world: World, chance: random.Random) -> None:
    """One static pod and one of the API server comes, changes or goes."""
    number = chance.randrange(COMING_AND_GOING)
    manifest = world.node.manifests / f"guest{number}.json"
    if manifest.exists() and chance.random() < 0.5:
        manifest.unlink()
    else:
        world.write(manifest.stem)
    name = f"visitor{chance.randrange(COMING_AND_GOING)}"
    if name not in world.api.pods():
        world.serve(name)
    elif "deletionTimestamp" not in world.api.pods()[name]["metadata"]:
        world.api.ask_to_delete(name)


# --- containerd


@pytest.mark.timeout(240)
@pytest.mark.parametrize("ending", ["in good order", "killed"])
def test_pods_go_on_while_containerd_is_away_and_what_ended_meanwhile_is_handled_after(
    world: World, ending: str
) -> None:
    for name in ("steady", "other"):
        world.write(name)
    world.serve("served")
    world.write("mortal", ("sh", "-c", "trap 'exit 3' USR1; while :; do sleep 1 & wait $!; done"))
    with world.node.agent("--stop-pods-on-exit") as agent:
        before = _settled(world)
        pids = _pids(world.containerd)
        wait_for(lambda: world.api.condition(NODE_NAME)[0] == "True")
        with _away(world.containerd, ending):
            began = time.monotonic()
            wait_for(lambda: world.api.condition(NODE_NAME)[0] == "False", otherwise=world.node.told)
            print(f"from containerd's end to NotReady: {time.monotonic() - began:.1f} s")
            assert "container runtime not ready: the runtime does not answer" in world.api.condition(NODE_NAME)[1]
            assert all(map(is_alive, pids.values()))
            os.kill(pids[before["mortal"][0]], signal.SIGUSR1)
            wait_for(lambda: not is_alive(pids[before["mortal"][0]]))
            world.write("latecomer")
            wait_for(lambda: "latecomer" in world.node.pods())  # the agent itself goes on
        wait_for(lambda: world.api.condition(NODE_NAME)[0] == "True", otherwise=world.node.told)
        after = _settled(world)
        untouched = ("steady", "other", "served")
        assert [after[name] for name in untouched] == [before[name] for name in untouched]
        assert all(is_alive(pids[before[name][0]]) for name in untouched)
        assert after["mortal"][1] == 1
        [status] = world.node.pods()["mortal"]["status"]["containerStatuses"]
        assert status["lastState"]["terminated"]["containerID"].endswith(before["mortal"][0])
        assert agent.is_alive
        agent.stop()
    world.node.remove_pods()
    assert world.leftovers() == [], world.node.told()


@pytest.mark.timeout(240)
def test_an_agent_that_starts_before_containerd_waits_for_it(world: World) -> None:
    world.write("early")
    with ExitStack() as stack:
        with _away(world.containerd, "in good order"):
            with world.node.agent() as hasty:
                wait_for(lambda: hasty.answers() and "waiting for the runtime" in world.node.told())
                hasty.stop()  # also one that waits ends when it is told to
            agent = stack.enter_context(world.node.agent("--stop-pods-on-exit"))
            wait_for(lambda: agent.answers() and world.node.told().count("waiting for the runtime") == 2)
        _settled(world)
        wait_for(lambda: world.api.condition(NODE_NAME)[0] == "True")
        agent.stop()
    world.node.remove_pods()
    assert world.leftovers() == [], world.node.told()


@contextmanager
def _away(containerd: Containerd, ending: str) -> Iterator[None]:
    if ending == "killed":
        containerd.kill()
    else:
        containerd.stop()
    try:
        yield
    finally:
        containerd.start()


def _pids(containerd: Containerd) -> dict[str, int]:
    """Of all tasks, by container."""
    lines = containerd.ctr("tasks", "ls").splitlines()[1:]
    return {line.split()[0]: int(line.split()[1]) for line in lines}
