"""Clients other than kubectl, with their own ideas of content types and streams: two that Python people use."""

import gc
import importlib
import json
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightkube
import pytest
from lightkube.core.exceptions import ApiError
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace, Node, Pod, Service
from lightkube.types import PatchType

from kit.up_cluster import UpCluster, cluster_up
from kit.waiting import wait_for

with warnings.catch_warnings():  # what others do while they are imported is not ours to judge
    warnings.simplefilter("ignore")
    kubernetes: Any = importlib.import_module("kubernetes")
    stream: Any = importlib.import_module("kubernetes.stream").stream

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
SCRIPT = "echo first; echo second >&2; exec sleep 1000"


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up() as running:
        yield running


# --- the official one


@pytest.fixture
def core(cluster: UpCluster) -> Iterator[Any]:
    api = kubernetes.config.new_client_from_config(str(cluster.kubeconfig))
    try:
        yield kubernetes.client.CoreV1Api(api)
    finally:
        api.close()
        gc.collect()  # it leaves sockets open, which must not trouble whoever is tested next


def body(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox:1.36", "command": ["sh", "-c", SCRIPT]}
    metadata = {"name": name, "labels": {"app": name}}
    return {"metadata": metadata, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}


IN_CLUSTER = """
import warnings
warnings.simplefilter("ignore")
from kubernetes import client, config
config.load_incluster_config()
review = client.AuthenticationV1Api().create_self_subject_review({})
print(client.VersionApi().get_code().major, review.status.user_info.username, flush=True)
"""


def test_a_program_in_a_pod_finds_the_api_server_as_the_documentation_says(cluster: UpCluster, core: Any) -> None:
    """With a token of its own, at the address in its environment, by a certificate that it can check."""
    packages = str(Path(kubernetes.__file__).parents[1])
    shown = {path: f"v{number}" for number, path in enumerate({packages, sys.base_prefix})}
    container = {
        "name": "c",
        "image": "this-machine",
        "command": [f"{sys.base_prefix}/bin/python3", "-c", IN_CLUSTER],
        "env": [{"name": "PYTHONPATH", "value": packages}],
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for path, name in shown.items()],
    }
    volumes = [{"name": name, "hostPath": {"path": path}} for path, name in shown.items()]
    spec = {"containers": [container], "volumes": volumes, "restartPolicy": "Never"}
    core.create_namespaced_pod("default", {"metadata": {"name": "asking"}, "spec": spec})
    over = ("Succeeded", "Failed")
    wait_for(lambda: core.read_namespaced_pod("asking", "default").status.phase in over, seconds=40)
    assert core.read_namespaced_pod_log("asking", "default") == "1 system:serviceaccount:default:default\n"


def followed(core: Any, name: str, until: str) -> list[str]:
    """The phases of a pod as a watch tells them, up to the wanted one."""
    watch, phases = kubernetes.watch.Watch(), []
    selector = {"label_selector": f"app={name}", "timeout_seconds": 40}
    for event in watch.stream(core.list_namespaced_pod, "default", **selector):
        phases.append(event["type"] if event["type"] == "DELETED" else event["object"].status.phase)
        if phases[-1] == until:
            watch.stop()
    return phases


def test_the_official_client_leads_a_pod_through_its_life(core: Any) -> None:
    made = core.create_namespaced_pod("default", body("official"))
    assert made.metadata.uid
    assert made.spec.containers[0].image_pull_policy == "IfNotPresent"
    assert followed(core, "official", "Running")[-1] == "Running"
    wait_for(lambda: "second" in core.read_namespaced_pod_log("official", "default"))
    assert core.read_namespaced_pod_log("official", "default", tail_lines=1, container="c")
    lines = kubernetes.watch.Watch().stream(core.read_namespaced_pod_log, "official", "default")
    assert sorted([next(lines), next(lines)]) == ["first", "second"]
    lines.close()

    patched = core.patch_namespaced_pod("official", "default", {"metadata": {"labels": {"tier": "front"}}})
    assert patched.metadata.labels == {"app": "official", "tier": "front"}
    operations = [{"op": "remove", "path": "/metadata/labels/tier"}]
    assert core.patch_namespaced_pod("official", "default", operations).metadata.labels == {"app": "official"}
    listed = core.list_pod_for_all_namespaces(label_selector="app=official", limit=1)
    assert [each.metadata.name for each in listed.items] == ["official"]

    core.delete_namespaced_pod("official", "default", grace_period_seconds=0)
    wait_for(lambda: not core.list_namespaced_pod("default", label_selector="app=official").items)


def test_the_official_client_runs_commands_in_a_pod(core: Any) -> None:
    core.create_namespaced_pod("default", body("inside"))
    followed(core, "inside", "Running")
    connect = core.connect_get_namespaced_pod_exec
    command = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    # Without _preload_content it is a WebSocket that stays open.
    session = stream(
        connect, "inside", "default", command=command, stdout=True, stderr=True, stdin=False, _preload_content=False
    )
    session.run_forever(timeout=30)
    assert (session.read_stdout(), session.read_stderr(), session.returncode) == ("out\n", "err\n", 3)
    echo = ["sh", "-c", "read line; echo got $line"]
    session = stream(
        connect, "inside", "default", command=echo, stdin=True, stdout=True, stderr=True, _preload_content=False
    )
    session.write_stdin("hello\n")
    session.run_forever(timeout=30)
    assert (session.read_stdout(), session.returncode) == ("got hello\n", 0)
    assert stream(connect, "inside", "default", command=["echo", "whole"], stdout=True) == "whole\n"
    with pytest.raises(kubernetes.client.exceptions.ApiException) as refused:
        stream(connect, "nobody", "default", command=["true"], stdout=True)
    assert "404" in refused.value.reason
    core.delete_namespaced_pod("inside", "default", grace_period_seconds=0)
    wait_for(lambda: not core.list_namespaced_pod("default", label_selector="app=inside").items)


def test_the_official_client_replaces_and_hears_why_not(core: Any) -> None:
    exception = kubernetes.client.exceptions.ApiException
    core.create_namespaced_config_map("default", {"metadata": {"name": "settings"}, "data": {"a": "1"}})
    read = core.read_namespaced_config_map("settings", "default")
    read.data = {"a": "2"}
    replaced = core.replace_namespaced_config_map("settings", "default", read)
    assert replaced.data == {"a": "2"}
    with pytest.raises(exception) as stale:  # `read` still has the version from before
        core.replace_namespaced_config_map("settings", "default", read)
    assert (stale.value.status, json.loads(stale.value.body)["reason"]) == (409, "Conflict")
    with pytest.raises(exception) as invalid:
        core.create_namespaced_config_map("default", {"metadata": {"name": "No_Good"}})
    assert json.loads(invalid.value.body)["details"]["causes"][0]["field"] == "metadata.name"
    core.delete_namespaced_config_map("settings", "default")
    with pytest.raises(exception) as gone:
        core.read_namespaced_config_map("settings", "default")
    assert gone.value.status == 404


def test_the_official_client_reads_all_that_a_cluster_has(core: Any) -> None:
    assert [each.status.node_info.kubelet_version for each in core.list_node().items]
    assert {"default", "kube-system"} <= {each.metadata.name for each in core.list_namespace().items}
    assert core.list_service_for_all_namespaces().items[0].spec.cluster_ip
    versions = kubernetes.client.VersionApi(core.api_client).get_code()
    assert versions.major == "1"
    groups = kubernetes.client.ApisApi(core.api_client).get_api_versions()
    assert "coordination.k8s.io" in {each.name for each in groups.groups}
    dynamic = kubernetes.dynamic.DynamicClient(core.api_client)
    leases = dynamic.resources.get(api_version="coordination.k8s.io/v1", kind="Lease")
    assert leases.get(namespace="kube-node-lease").items
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    wish = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
    made = maps.server_side_apply(namespace="default", body=wish, field_manager="tests")
    assert made.metadata.managedFields[0].operation == "Apply"
    maps.delete(name="applied", namespace="default")


# --- lightkube


@pytest.fixture
def light(cluster: UpCluster) -> Iterator[lightkube.Client]:
    config = lightkube.KubeConfig.from_file(cluster.kubeconfig)
    with lightkube.Client(config=config, field_manager="tests") as client:
        yield client


def test_lightkube_leads_a_pod_through_its_life(light: lightkube.Client) -> None:
    container = Container(name="c", image="busybox:1.36", command=["sh", "-c", SCRIPT])
    spec = PodSpec(containers=[container], terminationGracePeriodSeconds=1)
    wish = Pod(metadata=ObjectMeta(name="light", namespace="default", labels={"app": "light"}), spec=spec)
    made = light.create(wish)
    assert made.metadata
    assert made.metadata.uid
    light.wait(Pod, "light", for_conditions=["Ready"])
    wait_for(lambda: "second\n" in list(light.log("light")))
    lines = iter(light.log("light", follow=True))
    assert sorted([next(lines), next(lines)]) == ["first\n", "second\n"]
    strategic = light.patch(Pod, "light", {"metadata": {"labels": {"tier": "front"}}})
    assert strategic.metadata
    assert strategic.metadata.labels == {"app": "light", "tier": "front"}
    merged = light.patch(Pod, "light", {"metadata": {"labels": {"tier": None}}}, patch_type=PatchType.MERGE)
    assert merged.metadata
    assert merged.metadata.labels == {"app": "light"}
    light.delete(Pod, "light", grace_period=0)
    wait_for(lambda: not list(light.list(Pod, labels={"app": "light"})))


def test_lightkube_watches_what_another_does(light: lightkube.Client) -> None:
    seen: list[tuple[str, Any]] = []

    def watch() -> None:
        for kind, each in light.watch(ConfigMap, labels={"watched": "yes"}, server_timeout=30):
            seen.append((kind, each.data))
            if kind == "DELETED":
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    metadata = ObjectMeta(name="seen", namespace="default", labels={"watched": "yes"})
    light.create(ConfigMap(metadata=metadata, data={"a": "1"}))
    current = light.get(ConfigMap, "seen")
    current.data = {"a": "2"}
    light.replace(current)
    applied = light.apply(ConfigMap(metadata=ObjectMeta(name="seen", namespace="default"), data={"b": "3"}))
    assert applied.data == {"a": "2", "b": "3"}
    light.delete(ConfigMap, "seen")
    watcher.join(40)
    assert not watcher.is_alive()
    kinds = [kind for kind, _ in seen]
    assert (kinds[0], kinds[-1]) == ("ADDED", "DELETED")
    with pytest.raises(ApiError) as gone:
        light.get(ConfigMap, "seen")
    assert gone.value.status.code == 404


def test_lightkube_reads_all_that_a_cluster_has(light: lightkube.Client) -> None:
    assert list(light.list(Node))
    assert {"default", "kube-system"} <= {each.metadata.name for each in light.list(Namespace) if each.metadata}
    assert list(light.list(Service, namespace="*"))
    assert len(list(light.list(Namespace, chunk_size=1))) == len(list(light.list(Namespace)))
