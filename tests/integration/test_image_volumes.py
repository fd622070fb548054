"""Images as volumes: the real agent on the embedded runtime, and a real containerd, which has to be new enough."""

import json
from pathlib import Path
from typing import Any

import pytest

from contract.runtime import ended
from kit.agent_process import Node, command
from kit.containerd import containerd_version
from kit.cri_node import UID, CriNode
from kit.oci import folder, image_of, layer_of, tar_entry, write_layout
from kit.waiting import wait_for
from pykubelet.base.errors import Invalid
from pykubelet.pod.ports.runtime import Mount

MODEL = "example.com/model:1"
SCRIPT = "cat /m/weights /part/weights; touch /m/x || echo fixed; exec sleep 1000"


def model() -> Any:
    return image_of(MODEL, [layer_of(folder("w"), tar_entry("w/weights", b"2"), tar_entry("weights", b"1"))])


def manifest(name: str, reference: str) -> str:
    mounts = [{"name": "m", "mountPath": "/m"}, {"name": "m", "mountPath": "/part", "subPath": "w"}]
    container = {"name": "c", "image": "host", "command": ["sh", "-c", SCRIPT], "volumeMounts": mounts}
    volumes = [{"name": "m", "image": {"reference": reference, "pullPolicy": "Never"}}]
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": volumes}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


@pytest.mark.timeout(90)
def test_a_pod_reads_what_is_in_an_image_and_waits_for_one_that_is_missing(tmp_path: Path) -> None:
    node = Node(tmp_path, "--container-runtime-endpoint=process", "--images=registry")
    write_layout([model()], tmp_path / "model.tar")
    command("image", "import", str(tmp_path / "model.tar"), "--root-dir", str(node.state))
    (node.manifests / "here.yaml").write_text(manifest("here", MODEL))
    (node.manifests / "missing.yaml").write_text(manifest("missing", "example.com/other:1"))

    def logged() -> str:
        return "".join(path.read_text() for path in node.state.glob("logs/default_here-n1_*/c/0.log"))

    def reason() -> str:
        statuses = node.pods().get("missing", {}).get("status", {}).get("containerStatuses", [{}])
        return str(statuses[0].get("state", {}).get("waiting", {}).get("reason"))

    with node.agent("--feature-gates=ImageVolume=true") as agent:
        wait_for(lambda: "fixed" in logged(), seconds=40, otherwise=node.told)
        assert "stdout P 12" in logged() or "stdout F 12" in logged()
        wait_for(lambda: reason() == "ErrImageNeverPull", seconds=40, otherwise=node.told)
        agent.stop()
    node.remove_pods()


async def test_a_containerd_that_is_too_old_says_so_and_others_mount_it(node: CriNode) -> None:
    node.containerd.load(model())
    image = await node.runtime.image(MODEL)
    assert image is not None
    mounts = tuple(
        Mount(image=MODEL, image_id=image.id, sub_path=part, container_path=path, read_only=True)
        for part, path in (("", "/m"), ("w", "/part"))
    )
    if containerd_version() < (2, 1):
        with pytest.raises(Invalid, match=r"^ImageVolumeMountFailed: containerd .* does from 2\.1 on$"):
            await node.start(mounts=mounts)
        return
    container_id = await node.start("cat /m/weights /part/weights; touch /m/x 2>/dev/null || echo fixed", mounts=mounts)
    container = await ended(node.runtime, UID, container_id)
    assert "".join(line.split(" ", 3)[3] for line in node.log()) == "12fixed"
    assert set(container.volume_images) == {image.id}
