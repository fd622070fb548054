"""The agent takes over a node that another agent ran: nobody may notice.

The node is recorded from a Go kubelet v1.34: pods of every kind as the API server had them, manifests of static pods,
and what the runtime was told to make of them. Here it is made again, word for word but for the places it lies in.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf.json_format import ParseDict

from kit.agent_process import NODE_NAME, Node
from kit.api_server import LoopbackApi, loopback_api
from kit.containerd import Containerd, CriCall, cri_caller
from kit.inventory import inventory, take_away_pods
from kit.waiting import wait_for
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.sources.manifest import Place, read_manifest

RECORDED: Final = Path(__file__).parent.parent / "data" / "other_agents_node.json"
NAME: Final = "ka-node"
MANIFESTS: Final = "/etc/kubernetes/manifests"
READY: Final = ("Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers")

Recorded = dict[str, Any]


def uid_of(manifest: Recorded, node: str, folder: str) -> str:
    path = f"{folder}/{manifest['metadata']['name']}.json"
    (pod,) = read_manifest(json.dumps(manifest).encode(), Place(node_name=node, source="file", origin=path)).pods
    return pod.metadata.uid


def test_static_pods_have_the_uids_that_the_other_agent_gave_them() -> None:
    recorded = [each for each in json.loads(RECORDED.read_text()) if "manifest" in each]
    assert len(recorded) == 3
    for each in recorded:
        assert uid_of(each["manifest"], NAME, MANIFESTS) == each["sandbox"]["metadata"]["uid"]


class World:
    """What the other agent has left: a runtime full of pods, and folders."""

    def __init__(self, folder: Path, containerd: Containerd, api: LoopbackApi) -> None:
        kubeconfig = str(folder / "kubeconfig")
        self.node = Node(folder, "--container-runtime-endpoint", containerd.endpoint, "--kubeconfig", kubeconfig)
        self.containerd = containerd
        self.api = api
        self.before = inventory(containerd)
        self.pods = self._recorded()

    def _recorded(self) -> list[Recorded]:
        text = RECORDED.read_text().replace(NAME, NODE_NAME)
        for theirs, ours in (
            ("/var/lib/kubelet/", f"{self.node.state}/"),
            ("/var/log/pods/", f"{self.node.state}/logs/"),
            ("/kubepods/", f"/{self.node.cgroup_root}/kubepods/"),
        ):
            text = text.replace(theirs, ours)
        for each in json.loads(text):
            if "manifest" in each:
                theirs = each["sandbox"]["metadata"]["uid"]
                text = text.replace(theirs, uid_of(each["manifest"], NODE_NAME, str(self.node.manifests)))
        pods: list[Recorded] = json.loads(text)
        return pods

    def make(self) -> None:
        self.api.apply(_object("cm", data={"A": "1"}), "configmaps")
        self.api.apply(_object("sec", data={"k": "dg=="}), "secrets")
        self.api.apply(_object("kube-root-ca.crt", data={"ca.crt": "c"}), "configmaps")
        self.api.apply(_object("default"), "serviceaccounts")
        with cri_caller(self.containerd.endpoint) as call:
            for each in self.pods:
                _run(each, call)
        for each in self.pods:
            if "pod" in each:
                self.api.apply(each["pod"])
            else:
                name = each["manifest"]["metadata"]["name"]
                (self.node.manifests / f"{name}.json").write_text(json.dumps(each["manifest"]))

    def unmount(self) -> None:
        """What a failed test leaves mounted, nobody could remove."""
        for place in self.mounts():
            subprocess.run(["umount", "--lazy", place], check=False)

    def mounts(self) -> list[str]:
        lines = Path("/proc/mounts").read_text().splitlines()
        return [line.split()[1] for line in lines if f"{self.node.state}/" in line]

    def take_away(self) -> None:
        for path in self.node.manifests.iterdir():
            path.unlink()
        for each in self.pods:
            if "pod" in each:
                self.api.ask_to_delete(each["pod"]["metadata"]["name"])

    def states(self) -> dict[str, tuple[str, int, bool]]:
        """By id: the pod's name, the attempt, and whether it runs."""
        with cri_caller(self.containerd.endpoint) as call:
            reply = call("RuntimeService/ListContainers", cri.ListContainersRequest(), cri.ListContainersResponse)
        return {
            each.id: (
                each.labels["io.kubernetes.pod.name"],
                each.metadata.attempt,
                each.state == cri.CONTAINER_RUNNING,
            )
            for each in reply.containers
        }

    def sandboxes(self) -> set[str]:
        return {*inventory(self.containerd).sandboxes} - {*self.before.sandboxes}

    def seen(self) -> set[str]:
        """The names of pods that the agent knows to run."""
        return {
            pod["metadata"]["name"]
            for pod in self.node.pods().values()
            if any("running" in each["state"] for each in pod.get("status", {}).get("containerStatuses", ()))
        }


def _object(name: str, **fields: Any) -> Recorded:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, **fields}


def _run(pod: Recorded, call: CriCall) -> None:
    config = ParseDict(pod["sandbox"], cri.PodSandboxConfig())
    Path(config.log_directory).mkdir(parents=True)
    is_over = pod.get("pod", {}).get("status", {}).get("phase") in ("Succeeded", "Failed")
    request = cri.RunPodSandboxRequest(config=config)
    sandbox = call("RuntimeService/RunPodSandbox", request, cri.RunPodSandboxResponse).pod_sandbox_id
    ids: dict[str, str] = {}
    for each in pod["containers"]:
        made = ParseDict({**each, "image": {"image": "busybox:1.36"}}, cri.ContainerConfig())
        (Path(config.log_directory) / made.log_path).parent.mkdir(exist_ok=True)
        for mount in made.mounts:
            _make_source(Path(mount.host_path))
        create = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=made, sandbox_config=config)
        container = call("RuntimeService/CreateContainer", create, cri.CreateContainerResponse).container_id
        ids[made.metadata.name] = f"containerd://{container}"
        start = cri.StartContainerRequest(container_id=container)
        call("RuntimeService/StartContainer", start, cri.StartContainerResponse)
        goes_on = [later for later in pod["containers"] if later["metadata"]["name"] == made.metadata.name][-1]
        if each is not goes_on or is_over:
            wait_for(lambda asked=container: _has_ended(call, asked))  # type: ignore[misc]
    told = pod.get("pod", {}).get("status", {})
    for status in (*told.get("initContainerStatuses", ()), *told.get("containerStatuses", ())):
        status["containerID"] = ids[status["name"]]
    if is_over:
        stop = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox)
        call("RuntimeService/StopPodSandbox", stop, cri.StopPodSandboxResponse)


def _has_ended(call: CriCall, container: str) -> bool:
    request = cri.ContainerStatusRequest(container_id=container)
    reply = call("RuntimeService/ContainerStatus", request, cri.ContainerStatusResponse)
    return reply.status.state == cri.CONTAINER_EXITED


def _make_source(path: Path) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name == "etc-hosts" or "containers" in path.parts or "volume-subpaths" in path.parts:
        path.touch(mode=0o666)
    else:
        path.mkdir(mode=0o777)
        path.chmod(0o777)


@pytest.fixture
def world(tmp_path: Path, containerd: Containerd) -> Iterator[World]:
    with loopback_api(tmp_path / "kubeconfig") as api:
        made = World(tmp_path, containerd, api)
        try:
            yield made
        finally:
            take_away_pods(containerd, made.before)
            made.unmount()


@pytest.mark.timeout(180)
def test_a_node_that_another_agent_ran_is_taken_over_and_no_container_notices(world: World) -> None:
    world.make()
    before, sandboxes = world.states(), world.sandboxes()
    assert len({name for name, _, _ in before.values()}) == 23
    for _ in range(2):  # and then by one more of ours
        with world.node.agent():
            wait_for(lambda: world.seen() == {name for name, _, runs in before.values() if runs}, seconds=60)
            assert world.states() == before, world.node.told()
            assert world.sandboxes() == sandboxes
            _nobody_flipped(world)
    with world.node.agent():
        world.take_away()
        wait_for(lambda: not world.sandboxes() and not world.mounts() and not world.api.pods(), seconds=60)


def _nobody_flipped(world: World) -> None:
    """What was ready has been ready all the time, as far as anybody was told."""
    now = world.api.pods()
    for each in (each["pod"] for each in world.pods if "pod" in each):
        name = each["metadata"]["name"]
        for condition in each["status"]["conditions"]:
            if condition["type"] in READY:
                told = next(c for c in now[name]["status"]["conditions"] if c["type"] == condition["type"])
                fields = ("status", "lastTransitionTime")
                assert [told.get(field) for field in fields] == [condition.get(field) for field in fields], name
