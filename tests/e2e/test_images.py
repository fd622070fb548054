"""Images on a machine without a container runtime: what a newcomer tries with kubectl, against a real registry."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.oci import PackedLayer, busybox_layer, folder, image_of, layer_of, tar_entry, write_layout
from kit.ports import free_port
from kit.registry import PASSWORD, USER, LoopbackRegistry, loopback_registry
from kit.up_cluster import UpCluster, cluster_up
from kit.waiting import wait_for
from pykubelet.cli.main import main

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackRegistry]:
    with loopback_registry(tmp_path_factory.mktemp("e2e") / "registry", protected=True) as made:
        yield made


@pytest.fixture(scope="module")
def image(registry: LoopbackRegistry) -> str:
    base = busybox_layer()
    own = layer_of(
        folder("srv"),
        tar_entry("srv/start", b"#!/bin/sh\necho started as $(id -un) in $(pwd)\nexec sleep 1000\n", mode=0o755),
        packing="gzip",
    )
    said = {"Entrypoint": ["/srv/start"], "WorkingDir": "/srv", "User": "app", "Env": ["PATH=/bin"]}
    return registry.push(image_of("x", [PackedLayer(base, base.digest), own], said), "team/app", "1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up("--images", "auto") as running:
        yield running
        running.kubectl("delete", "pods", "--all", "--now")  # most of them would not heed a signal


def waiting(cluster: UpCluster, name: str) -> dict[str, Any]:
    statuses = cluster.json("get", "pod", name)["status"].get("containerStatuses") or [{}]
    found: dict[str, Any] = statuses[0].get("state", {}).get("waiting", {})
    return found


def waits(cluster: UpCluster, name: str, *reasons: str) -> None:
    wait_for(
        lambda: waiting(cluster, name).get("reason") in reasons,
        seconds=40,
        otherwise=lambda: cluster.kubectl("describe", "pod", name),
    )


def events(cluster: UpCluster, name: str, *, until: str) -> dict[str, str]:
    """The last message by reason, once there is one of that reason: they come a little later than what they tell of."""
    selector = f"--field-selector=involvedObject.name={name}"
    found: dict[str, str] = {}

    def are_there() -> bool:
        for each in cluster.json("get", "events", selector)["items"]:
            found[each["reason"]] = each["message"]
        return until in found

    wait_for(are_there, seconds=20, otherwise=lambda: found)
    return found


def test_an_image_is_pulled_with_a_secret_and_runs_as_it_wants_to(
    cluster: UpCluster, registry: LoopbackRegistry, image: str, tmp_path: Path
) -> None:
    cluster.kubectl("run", "refused", f"--image={image}", "--image-pull-policy=IfNotPresent")
    waits(cluster, "refused", "ErrImagePull", "ImagePullBackOff")
    assert "pull access is denied" in waiting(cluster, "refused")["message"]
    assert "Pulled" not in events(cluster, "refused", until="Failed")
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "registry"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json.dumps({"auths": {registry.address: {"auth": auth}}})},
    }
    cluster.apply(secret)
    overrides = json.dumps({"spec": {"imagePullSecrets": [{"name": "registry"}]}})
    cluster.kubectl("run", "app", f"--image={image}", f"--overrides={overrides}")
    cluster.ready("app")
    assert cluster.kubectl("logs", "app") == "started as app in /srv\n"
    status = cluster.json("get", "pod", "app")["status"]["containerStatuses"][0]
    assert status["imageID"].startswith(f"{registry.address}/team/app@sha256:")
    assert events(cluster, "app", until="Pulled")["Pulled"].startswith(f'Successfully pulled image "{image}" in ')
    # what people do next
    assert cluster.kubectl("exec", "app", "--", "sh", "-c", "ls / | tr '\\n' ' '").startswith("bin dev etc proc root s")
    (tmp_path / "file").write_text("copied")
    cluster.kubectl("cp", str(tmp_path / "file"), "app:/tmp/file")
    assert cluster.kubectl("exec", "app", "--", "cat", "/tmp/file") == "copied"
    cluster.kubectl("cp", "app:/srv/start", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes().startswith(b"#!/bin/sh\necho started")
    container = {
        "name": "c",
        "image": "host",
        "command": ["sh", "-c", "cat /model/srv/start; exec sleep 1000"],
        "volumeMounts": [{"name": "model", "mountPath": "/model"}],
    }
    volume = {"name": "model", "image": {"reference": image}}
    spec = {"imagePullSecrets": [{"name": "registry"}], "containers": [container], "volumes": [volume]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "model"}, "spec": spec})
    cluster.ready("model")
    assert cluster.kubectl("logs", "model").startswith("#!/bin/sh\necho started")


def test_a_registry_out_of_reach_is_told_and_this_machine_stands_in(cluster: UpCluster) -> None:
    away = f"127.0.0.1:{free_port()}/team/tool"
    cluster.kubectl("run", "away", f"--image={away}", "--command", "--", "sleep", "1000")
    cluster.ready("away")
    told = events(cluster, "away", until="ImageNotPulled")
    assert f'Image "{away}" was not pulled, this machine\'s programs run instead: ' in told["ImageNotPulled"]
    assert "Pulled" not in told
    cluster.kubectl("run", "without-command", f"--image={away}")
    waits(cluster, "without-command", "ErrImagePull", "ImagePullBackOff")
    cluster.kubectl("run", "never", f"--image={away}", "--image-pull-policy=Never", "--command", "--", "sleep", "9")
    waits(cluster, "never", "ErrImageNeverPull")
    cluster.kubectl("run", "here", "--image=host", "--command", "--", "sleep", "1000")
    cluster.ready("here")
    assert events(cluster, "here", until="Pulled")["Pulled"] == 'Container image "host" already present on machine'


def test_an_imported_image_needs_no_registry(cluster: UpCluster, tmp_path: Path) -> None:
    from click.testing import CliRunner

    base = busybox_layer()
    made = image_of("docker.io/library/mine:dev", [PackedLayer(base, base.digest)], {"Cmd": ["sleep", "1000"]})
    write_layout([made], tmp_path / "mine.tar")
    data = ["--data", str(cluster.data)]
    assert CliRunner().invoke(main, ["image", "import", str(tmp_path / "mine.tar"), *data]).exit_code == 0
    cluster.kubectl("run", "mine", "--image=mine:dev")
    cluster.ready("mine")
    assert events(cluster, "mine", until="Pulled")["Pulled"] == 'Container image "mine:dev" already present on machine'
    refused = CliRunner().invoke(main, ["image", "rm", "mine:dev", *data])
    assert (refused.exit_code, "is in use" in refused.output) == (2, True)
