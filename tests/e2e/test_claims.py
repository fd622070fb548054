"""Claims with the real kubectl: a stateful set keeps its data through everything but the deletion of its claims."""

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.csi_driver import RPC, StorageDriver
from kit.up_cluster import UpCluster, cluster_up, documents, pod
from kit.waiting import eventually, wait_for
from pykubelet.host import mount
from pykubelet.plugins._gen import csi_pb2 as csi

pytestmark = pytest.mark.timeout(180)

NAME = "disk.example.com"
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
def test_a_volume_of_a_driver_through_its_life_with_an_agent_that_is_killed(cluster: UpCluster) -> None:
    """Attached, mounted, grown, told of and given back; the agent is killed while the driver is at it."""
    before = mount.mounts_below(str(cluster.data))
    with tempfile.TemporaryDirectory(prefix="pykubelet-") as folder:
        asyncio.run(_use_driver(cluster, Path(folder)))
        assert not mount.mounts_below(folder)
    assert mount.mounts_below(str(cluster.data)) == before


async def _use_driver(cluster: UpCluster, folder: Path) -> None:
    driver = StorageDriver(folder, NAME, RPC.STAGE_UNSTAGE_VOLUME, RPC.EXPAND_VOLUME, RPC.GET_VOLUME_STATS)
    usage = csi.VolumeUsage(unit=csi.VolumeUsage.BYTES, total=100, available=60, used=40)
    driver.stats = csi.NodeGetVolumeStatsResponse(usage=[usage])
    driver.hangs = {"publish"}
    async with driver.at(cluster.data / "state" / "plugins_registry") as introduction:
        await eventually(lambda: introduction.told == [""])
        (known,) = (await asyncio.to_thread(cluster.json, "get", "csinodes"))["items"]
        assert [each["name"] for each in known["spec"]["drivers"]] == [driver.name]
        assert (
            "kubernetes.io/aws-ebs" in known["metadata"]["annotations"]["storage.alpha.kubernetes.io/migrated-plugins"]
        )
        await asyncio.to_thread(_begin, cluster)
        await eventually(lambda: driver.asked == ["stage vol-1", "publish vol-1"])
        assert await asyncio.to_thread(_in_use, cluster) == [f"kubernetes.io/csi/{NAME}^vol-1"]
        os.kill(cluster.agent_pid(), signal.SIGKILL)
        driver.hangs = set()
        await asyncio.to_thread(wait_for, lambda: "written" in said(cluster, "disk"))
        assert (folder / "volumes" / "vol-1" / "file").read_text() == "kept\n"
        assert driver.asked.count("stage vol-1") == 1
        await asyncio.to_thread(_grow, cluster)
        await eventually(lambda: driver.asked[-1] == "expand vol-1", seconds=100)
        await asyncio.to_thread(wait_for, lambda: _size(cluster) == "2Gi")
        await asyncio.to_thread(
            wait_for, lambda: _told(cluster) == {"name": "disk", "namespace": "default", "used": 40}
        )
        await asyncio.to_thread(cluster.kubectl, "delete", "pod", "disk", "--grace-period=1")
        await eventually(lambda: driver.asked[-1:] == ["unstage vol-1"])
        await asyncio.to_thread(wait_for, lambda: not _in_use(cluster))
        await asyncio.to_thread(wait_for, lambda: not cluster.json("get", "volumeattachments")["items"])
        await asyncio.to_thread(cluster.kubectl, "delete", "pvc/disk", "pv/disk")


def _begin(cluster: UpCluster) -> None:
    """With a person who attaches what has to be attached."""
    about = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": NAME}}
    sizes = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "by-hand"}}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "by-hand",
            "csi": {"driver": NAME, "volumeHandle": "vol-1", "fsType": "ext4"},
        },
    }
    using_it = using("disk", "disk", "echo kept > /data/file && echo written; exec sleep 1000")
    cluster.apply(
        {**about, "spec": {"attachRequired": True}},
        {**sizes, "provisioner": NAME, "allowVolumeExpansion": True},
        volume,
        claim("disk", storageClassName="by-hand"),
        using_it,
    )
    wait_for(lambda: cluster.json("get", "volumeattachments")["items"])
    (attachment,) = cluster.json("get", "volumeattachments")["items"]
    name = f"volumeattachment/{attachment['metadata']['name']}"
    cluster.kubectl("patch", name, "--subresource=status", "--type=merge", "-p", '{"status":{"attached":true}}')


def _grow(cluster: UpCluster) -> None:
    """As an external-resizer does it."""
    size = {"storage": "2Gi"}
    for what, change in (
        ("pvc/disk", {"spec": {"resources": {"requests": size}}}),
        ("pv/disk", {"spec": {"capacity": size}}),
    ):
        cluster.kubectl("patch", what, "--type=merge", "-p", json.dumps(change))
    told = {"allocatedResources": size, "allocatedResourceStatuses": {"storage": "NodeResizePending"}}
    change = {"status": told}
    cluster.kubectl("patch", "pvc/disk", "--subresource=status", "--type=merge", "-p", json.dumps(change))
    cluster.kubectl("annotate", "pod/disk", "look=now")


def _size(cluster: UpCluster) -> str:
    status = cluster.json("get", "pvc", "disk")["status"]
    return "" if status.get("allocatedResourceStatuses") else str(status["capacity"]["storage"])


def _in_use(cluster: UpCluster) -> list[str]:
    (node,) = cluster.json("get", "nodes")["items"]
    return list(node["status"].get("volumesInUse", []))


def _told(cluster: UpCluster) -> dict[str, Any]:
    """What the node says of the claimed volume."""
    found = json.loads(cluster.kubectl("get", "--raw", f"/api/v1/nodes/{cluster.node}/proxy/stats/summary"))
    volumes = [each for pod in found["pods"] if pod["podRef"]["name"] == "disk" for each in pod.get("volume", [])]
    return next(({**each["pvcRef"], "used": each["usedBytes"]} for each in volumes if "pvcRef" in each), {})
