"""Deployments, stateful sets and daemon sets as people handle them: the real kubectl, and pods that really run."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kit.up_cluster import IMAGE, UpCluster, cluster_up, kill, pod
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up() as running:
        yield running
        running.kubectl("delete", "deploy", "--all")
        running.kubectl("delete", "pods", "--all", "--grace-period=1", "--wait=false")


def rolled_out(cluster: UpCluster, what: str) -> None:
    assert "rolled out" in (said := cluster.kubectl("rollout", "status", what, "--timeout=40s")) or "complete" in said


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    made = pod(name)
    template = {"metadata": {"labels": {"app": name}}, "spec": made["spec"]}
    whole = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": whole}


def pods(cluster: UpCluster, app: str) -> list[dict[str, Any]]:
    """Those that are not on their way out."""
    found = cluster.json("get", "pods", "-l", f"app={app}")["items"]
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def images(cluster: UpCluster, app: str) -> set[str]:
    return {each["spec"]["containers"][0]["image"] for each in pods(cluster, app)}


def test_a_deployment_from_the_first_command_to_the_last(cluster: UpCluster) -> None:
    assert "created" in cluster.kubectl(
        "create", "deployment", "web", f"--image={IMAGE}", "--replicas=2", "--", "sleep", "1000"
    )
    rolled_out(cluster, "deploy/web")
    assert len(pods(cluster, "web")) == 2

    cluster.kubectl("scale", "deploy/web", "--replicas=3")
    rolled_out(cluster, "deploy/web")
    assert len(pods(cluster, "web")) == 3

    cluster.kubectl("set", "image", "deploy/web", "busybox=busybox:2")
    rolled_out(cluster, "deploy/web")
    assert images(cluster, "web") == {"busybox:2"}
    assert cluster.kubectl("rollout", "history", "deploy/web").split()[-4:] == ["1", "<none>", "2", "<none>"]
    assert f"Image:\t{IMAGE}" in cluster.kubectl("rollout", "history", "deploy/web", "--revision=1")

    cluster.kubectl("rollout", "undo", "deploy/web")
    rolled_out(cluster, "deploy/web")
    assert images(cluster, "web") == {IMAGE}
    assert cluster.kubectl("rollout", "history", "deploy/web").split()[-4:] == ["2", "<none>", "3", "<none>"]

    cluster.kubectl("rollout", "pause", "deploy/web")
    cluster.kubectl("set", "env", "deploy/web", "A=b")
    condition = "jsonpath={.status.conditions[?(@.type=='Progressing')].reason}"
    cluster.kubectl("wait", "deploy/web", f"--for={condition}=DeploymentPaused", "--timeout=10s")
    assert all("env" not in each["spec"]["containers"][0] for each in pods(cluster, "web"))
    cluster.kubectl("rollout", "resume", "deploy/web")
    rolled_out(cluster, "deploy/web")
    assert all(each["spec"]["containers"][0]["env"] for each in pods(cluster, "web"))

    before = {each["metadata"]["name"] for each in pods(cluster, "web")}
    cluster.kubectl("rollout", "restart", "deploy/web")
    rolled_out(cluster, "deploy/web")
    assert not before & {each["metadata"]["name"] for each in pods(cluster, "web")}

    cluster.kubectl("expose", "deploy/web", "--port=80")
    wait_for(lambda: len(cluster.json("get", "endpoints", "web").get("subsets", [{}])[0].get("addresses", ())) == 3)
    assert "autoscaled" in cluster.kubectl("autoscale", "deploy/web", "--min=1", "--max=3")
    cluster.kubectl("delete", "hpa/web", "service/web")
    described = cluster.kubectl("describe", "deploy", "web")
    assert "3 desired | 3 updated | 3 total | 3 available | 0 unavailable" in described
    assert "ScalingReplicaSet" in described


def test_what_is_orphaned_stays_and_is_adopted_again(cluster: UpCluster) -> None:
    wanted = workload("Deployment", "kept", replicas=2)
    cluster.apply(wanted)
    rolled_out(cluster, "deploy/kept")
    before = {each["metadata"]["uid"] for each in pods(cluster, "kept")}
    cluster.kubectl("delete", "deploy/kept", "--cascade=orphan")
    (replica_set,) = cluster.json("get", "rs", "-l", "app=kept")["items"]
    assert "ownerReferences" not in replica_set["metadata"]
    cluster.apply(wanted)
    rolled_out(cluster, "deploy/kept")
    assert {each["metadata"]["uid"] for each in pods(cluster, "kept")} == before
    cluster.kubectl("delete", "deploy/kept", "--cascade=foreground", "--timeout=30s")
    assert cluster.json("get", "pods,rs", "-l", "app=kept")["items"] == []


def test_a_stateful_set_and_a_daemon_set_are_renewed_and_taken_back(cluster: UpCluster) -> None:
    cluster.apply(
        workload("StatefulSet", "db", replicas=2, serviceName="db"),
        workload("DaemonSet", "agent"),
        {
            "apiVersion": "v1",
            "kind": "ReplicationController",
            "metadata": {"name": "old"},
            "spec": {"replicas": 1, "template": workload("x", "old")["spec"]["template"]},
        },
    )
    for what in ("sts/db", "ds/agent"):
        rolled_out(cluster, what)
    assert sorted(each["metadata"]["name"] for each in pods(cluster, "db")) == ["db-0", "db-1"]
    (daemon,) = pods(cluster, "agent")
    assert daemon["spec"]["nodeName"] == cluster.node
    cluster.kubectl("set", "image", "sts/db", "ds/agent", "c=busybox:2")
    for what, app in (("sts/db", "db"), ("ds/agent", "agent")):
        rolled_out(cluster, what)
        assert images(cluster, app) == {"busybox:2"}
    cluster.kubectl("rollout", "undo", "sts/db")
    cluster.kubectl("rollout", "undo", "ds/agent")
    for what, app in (("sts/db", "db"), ("ds/agent", "agent")):
        rolled_out(cluster, what)
        assert images(cluster, app) == {IMAGE}
    cluster.kubectl("wait", "rc/old", "--for=jsonpath={.status.availableReplicas}=1", "--timeout=30s")
    cluster.kubectl("delete", "sts/db", "ds/agent", "rc/old")


def test_a_rollout_goes_on_after_the_server_was_killed_in_the_middle_of_it(cluster: UpCluster) -> None:
    slow = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    cluster.apply(workload("Deployment", "hard", replicas=6, strategy=slow))
    rolled_out(cluster, "deploy/hard")
    cluster.kubectl("set", "image", "deploy/hard", "c=busybox:2")
    for _ in range(2):
        wait_for(lambda: "busybox:2" in images(cluster, "hard"))
        kill(cluster.apiserver_pid())
        wait_for(lambda: "hard" in cluster.try_kubectl("get", "deploy"))
    rolled_out(cluster, "deploy/hard")
    wait_for(lambda: images(cluster, "hard") == {"busybox:2"})
    assert len(pods(cluster, "hard")) == 6
    sets = cluster.json("get", "rs", "-l", "app=hard")["items"]
    assert sorted(each["spec"]["replicas"] for each in sets) == [0, 6]
    assert json.dumps(sets).count('"deployment.kubernetes.io/revision": "2"') == 1
