"""Claims with the real kubectl: a stateful set keeps its data through everything but the deletion of its claims."""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.csi_driver import StorageDriver
from kit.up_cluster import UpCluster, cluster_up, documents, pod
from kit.waiting import eventually, wait_for
from pykubelet.host import mount

pytestmark = pytest.mark.timeout(180)

KEEPS = 'echo "$HOSTNAME was here" >> /data/log; cat /data/log; exec sleep 1000'


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up() as running:
        yield running
        running.kubectl("delete", "statefulset,pods", "--all", "--grace-period=1")


def claim(name: str, **spec: Any) -> dict[str, Any]:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": whole}


def using(name: str, claimed: str, script: str, **more: Any) -> dict[str, Any]:
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claimed}}
    return pod(name, script, container=mount, volumes=[volume], **more)


def said(cluster: UpCluster, name: str) -> str:
    """What a pod has said; nothing while it has not begun."""
    running = cluster.json("get", "pods", "--field-selector", f"metadata.name={name},status.phase=Running")["items"]
    return cluster.kubectl("logs", name) if running else ""


def test_a_stateful_set_keeps_what_it_has_written(cluster: UpCluster) -> None:
    template = pod("db", KEEPS, container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]})["spec"]
    own = claim("data")
    stateful = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "replicas": 2,
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": template},
            "volumeClaimTemplates": [{"metadata": own["metadata"], "spec": own["spec"]}],
        },
    }
    assert "Warning" not in cluster.kubectl("apply", "-f", "-", stdin=json.dumps(stateful))
    cluster.kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    assert "host-path (default)" in cluster.kubectl("get", "storageclass")
    claims = {each["metadata"]["name"]: each for each in cluster.json("get", "pvc")["items"]}
    assert {name: each["status"]["phase"] for name, each in claims.items()} == {
        "data-db-0": "Bound",
        "data-db-1": "Bound",
    }
    cluster.kubectl("delete", "pod", "db-0", "--grace-period=1")
    wait_for(lambda: said(cluster, "db-0").count("was here") == 2)
    volumes = {each["metadata"]["name"]: each for each in cluster.json("get", "pv")["items"]}
    path = Path(volumes[claims["data-db-0"]["spec"]["volumeName"]]["spec"]["hostPath"]["path"])
    assert (path / "log").exists()
    cluster.kubectl("delete", "statefulset", "db")
    cluster.kubectl("delete", "pvc", "--all", "--timeout=40s")
    wait_for(lambda: not cluster.json("get", "pv")["items"])
    assert not path.exists()


def test_a_pod_of_an_ordinary_user_may_write_and_one_that_may_only_read_may_not(cluster: UpCluster) -> None:
    user = {"securityContext": {"runAsUser": 1234, "runAsGroup": 1234}} if os.getuid() == 0 else {}
    writes = using("writes", "shared", "echo hello > /data/file && echo written; exec sleep 1000", **user)
    cluster.kubectl("apply", "-f", "-", stdin=documents(claim("shared"), writes))
    wait_for(lambda: "written" in said(cluster, "writes"))
    reads = using("reads", "shared", "cat /data/file; echo x > /data/other || echo refused; exec sleep 1000")
    reads["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] = True
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(reads))
    wait_for(lambda: "refused" in said(cluster, "reads"))
    assert "hello" in cluster.kubectl("logs", "reads")
    more = {"spec": {"resources": {"requests": {"storage": "5Gi"}}}}
    cluster.kubectl("patch", "pvc", "shared", "-p", json.dumps(more))
    wait_for(lambda: "ExpandVolume succeeded" in cluster.kubectl("describe", "pvc", "shared"))
    assert cluster.json("get", "pvc", "shared")["status"]["capacity"] == {"storage": "5Gi"}


def test_a_volume_of_its_own_comes_and_goes_with_its_pod(cluster: UpCluster) -> None:
    volume = {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": claim("x")["spec"]}}}
    mount = {"volumeMounts": [{"name": "own", "mountPath": "/own"}]}
    made = pod("brief", "echo x > /own/x && echo written; exec sleep 1000", container=mount, volumes=[volume])
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    wait_for(lambda: "written" in said(cluster, "brief"))
    assert cluster.json("get", "pvc", "brief-own")["status"]["phase"] == "Bound"
    cluster.kubectl("delete", "pod", "brief", "--grace-period=1")
    wait_for(lambda: "brief-own" not in cluster.kubectl("get", "pvc", "-o", "name"))


def test_a_claim_that_nothing_can_fill_says_why_and_so_does_its_pod(cluster: UpCluster) -> None:
    cluster.kubectl(
        "apply", "-f", "-", stdin=documents(claim("never", storageClassName=""), using("waits", "never", "true"))
    )
    wait_for(lambda: "unbound immediate PersistentVolumeClaims" in cluster.kubectl("describe", "pod", "waits"))
    assert "no storage class is set" in cluster.kubectl("describe", "pvc", "never")
    cluster.kubectl("delete", "pod/waits", "pvc/never")


@pytest.mark.skipif(os.getuid() != 0, reason="the driver mounts")
def test_a_storage_driver_is_found_and_its_volume_used_and_given_back(cluster: UpCluster) -> None:
    asyncio.run(_use_driver(cluster))


async def _use_driver(cluster: UpCluster) -> None:
    with tempfile.TemporaryDirectory(prefix="pykubelet-") as folder:
        driver = StorageDriver(Path(folder))
        async with driver.at(cluster.data / "state" / "plugins_registry") as introduction:
            await eventually(lambda: introduction.told == [""])
            (known,) = (await asyncio.to_thread(cluster.json, "get", "csinodes"))["items"]
            assert [each["name"] for each in known["spec"]["drivers"]] == [driver.name]
            (node,) = (await asyncio.to_thread(cluster.json, "get", "nodes"))["items"]
            assert node["metadata"]["labels"]["example.com/rack"] == "r1"
            about = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": driver.name}}
            volume = {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": "disk"},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "by-hand",
                    "csi": {"driver": driver.name, "volumeHandle": "vol-1", "fsType": "ext4"},
                },
            }
            using_it = using("disk", "disk", "echo kept > /data/file && echo written; exec sleep 1000")
            given = documents(
                {**about, "spec": {"attachRequired": False}},
                volume,
                claim("disk", storageClassName="by-hand"),
                using_it,
            )
            await asyncio.to_thread(cluster.kubectl, "apply", "-f", "-", stdin=given)
            await asyncio.to_thread(wait_for, lambda: "written" in said(cluster, "disk"))
            assert Path(folder, "volumes", "vol-1", "file").read_text() == "kept\n"  # noqa: ASYNC240 - tests may block
            await asyncio.to_thread(cluster.kubectl, "delete", "pod", "disk", "--grace-period=1")
            await eventually(lambda: driver.asked[-1:] == ["unstage vol-1"])
            await asyncio.to_thread(cluster.kubectl, "delete", "pvc/disk", "pv/disk")
        assert not mount.mounts_below(folder)
