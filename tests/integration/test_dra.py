"""Pods get the devices that were allocated to their claims, on each runtime, whatever becomes of driver and agent."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kit.agent_process import NODE_NAME, Node
from kit.api_server import LoopbackApi, loopback_api
from kit.containerd import Containerd
from kit.dra_driver import Driver, answered, claim_object, device
from kit.waiting import eventually
from pykubelet.pod.claims.checkpoint import read

TUN = Path("/dev/net/tun")
VENDOR = f"test-{os.getpid()}.example.com"
SAYS = 'trap "exit 0" TERM; echo "$GPU $NIC $(test -c /dev/gpu && exec 3<>/dev/gpu && echo opened)"; sleep 1000 & wait'


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """The path of a socket has its limits."""
    with tempfile.TemporaryDirectory(prefix="pykubelet-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def cdi() -> Iterator[None]:
    """What the names of this test's devices stand for."""
    path = Path("/var/run/cdi") / f"pykubelet-{VENDOR}.json"
    made = not path.parent.exists()
    path.parent.mkdir(exist_ok=True)
    node = {"path": "/dev/gpu", "hostPath": str(TUN), "permissions": "rw"}
    devices = [
        {"name": "gpu", "containerEdits": {"env": ["GPU=gpu-0"], "deviceNodes": [node]}},
        {"name": "nic", "containerEdits": {"env": ["NIC=nic-0"]}},
    ]
    path.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": f"{VENDOR}/thing", "devices": devices}))
    yield
    path.unlink()
    if made:
        path.parent.rmdir()


def pod(name: str, *requests: str, template: bool = False) -> dict[str, Any]:
    uses = [{"name": "mine", "request": each} if each else {"name": "mine"} for each in requests]
    container = {"image": "busybox:1.36", "imagePullPolicy": "IfNotPresent", "resources": {"claims": uses}}
    source = {"resourceClaimTemplateName": "t"} if template else {"resourceClaimName": "shared"}
    status = {"resourceClaimStatuses": [{"name": "mine", "resourceClaimName": f"{name}-own"}]} if template else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "nodeName": NODE_NAME,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "resourceClaims": [{"name": "mine", **source}],
            "containers": [{"name": "c", "command": ["sh", "-c", SAYS], **container}],
        },
        "status": status,
    }


def said(node: Node, name: str) -> str:
    logs = sorted((node.state / "logs").glob(f"default_{name}_*/c/*.log"))
    return " ".join(logs[-1].read_text().split(" ", 3)[3:]).strip() if logs else ""


def in_use(node: Node) -> dict[str, list[str]]:
    path = node.state / "dra_manager_state"
    return {each.name: sorted(each.pods) for each in read(path.read_bytes())} if path.exists() else {}


def apply_claims(api: LoopbackApi) -> None:
    devices = ("gpu-0", "nic-0")
    api.apply(claim_object("shared", "uid-one", "uid-two", devices=devices), "resourceclaims")
    api.apply(claim_object("own-own", "uid-own", owner="uid-own", devices=devices), "resourceclaims")


@pytest.mark.skipif(os.getuid() != 0 or not TUN.exists(), reason="only root may open the device")
@pytest.mark.usefixtures("cdi")
@pytest.mark.parametrize("runtime", ["embedded", "containerd"])
async def test_pods_have_what_they_claim_and_give_it_back(
    runtime: str, containerd: Containerd, short_folder: Path
) -> None:
    flags = ("--container-runtime-endpoint", containerd.endpoint) if runtime == "containerd" else ()
    node = Node(short_folder, "--kubeconfig", str(short_folder / "kubeconfig"), *flags)
    driver = Driver()
    both = [
        device("gpu-0", f"{VENDOR}/thing=gpu", requests=("gpu/small",)),
        device("nic-0", f"{VENDOR}/thing=nic", requests=("nic",)),
    ]
    driver.answer = lambda claims: answered(**{each.uid.replace("-", "_"): both for each in claims})(claims)
    with ExitStack() as stack:
        api = stack.enter_context(loopback_api(short_folder / "kubeconfig"))
        apply_claims(api)
        with node.agent() as agent:
            await eventually(lambda: api.condition(NODE_NAME)[0] == "True")
            api.apply(pod("one", "gpu"))
            await eventually(lambda: "FailedPrepareDynamicResources" in {reason for reason, _ in api.events()})
            async with driver.registered(node.state):
                await eventually(lambda: said(node, "one") == "gpu-0  opened")
                api.apply(pod("two", "nic"))
                api.apply(pod("own", "", template=True))
                await eventually(lambda: said(node, "two") == "nic-0")
                await eventually(lambda: said(node, "own") == "gpu-0 nic-0 opened")
                assert driver.asked == ["prepare shared", "prepare own-own"]
                assert in_use(node) == {"shared": ["uid-one", "uid-two"], "own-own": ["uid-own"]}
                before = node.containers()
                agent.kill()
        api.ask_to_delete("own")  # nobody is there to see it
        with node.agent("--stop-pods-on-exit") as agent:
            await eventually(lambda: node.containers().get("one") == before["one"])  # without its driver, too
            async with driver.registered(node.state):
                await eventually(lambda: "own" not in api.pods())
                api.ask_to_delete("one")
                await eventually(lambda: "one" not in api.pods())
                assert in_use(node) == {"shared": ["uid-two"]}
                assert node.containers()["two"] == before["two"]
                api.ask_to_delete("two")
                await eventually(lambda: "two" not in api.pods())
                assert in_use(node) == {}
            agent.stop()
        assert driver.asked[2:] == ["unprepare own-own", "unprepare shared"]
        node.remove_pods()
