"""kubectl against a cluster that `pykubelet up` has made: objects, and all that can be asked of them.

The containers are processes of this machine, as they are where there is no container runtime.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.up_cluster import IMAGE, UpCluster, cluster_up, pod
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    manifest = json.dumps(pod("static"))
    with cluster_up(manifests={"static.yaml": manifest}) as running:
        yield running


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


# --- writing


def test_apply_creates_then_changes_nothing_then_changes_what_differs(cluster: UpCluster) -> None:
    web = pod("applied")
    assert cluster.apply(web) == "pod/applied created\n"
    assert cluster.apply(web) == "pod/applied unchanged\n"
    web["metadata"]["labels"]["tier"] = "front"
    assert cluster.apply(web) == "pod/applied configured\n"
    del web["metadata"]["labels"]["tier"]
    cluster.apply(web)
    assert "tier" not in cluster.json("get", "pod", "applied")["metadata"]["labels"]
    web["spec"]["containers"][0]["command"] = ["true"]
    text = cluster.apply(web, code=1)
    assert "spec: Forbidden: pod updates may not change fields other than" in text


def test_server_side_apply_knows_who_owns_a_field(cluster: UpCluster) -> None:
    ours = json.dumps(config_map("owned", a="1", b="2"))
    assert "serverside-applied" in cluster.kubectl("apply", "--server-side", "-f", "-", stdin=ours)
    theirs = json.dumps(config_map("owned", a="other"))
    manager = ("apply", "--server-side", "--field-manager=them", "-f", "-")
    refused = cluster.kubectl(*manager, stdin=theirs, code=1)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.a' in refused
    cluster.kubectl(*manager, "--force-conflicts", stdin=theirs)
    assert cluster.json("get", "cm", "owned")["data"] == {"a": "other", "b": "2"}
    shown = cluster.kubectl("get", "cm", "owned", "-o", "yaml", "--show-managed-fields")
    assert "manager: them" in shown
    assert "f:a: {}" in shown


def test_apply_prunes_what_is_no_longer_there(cluster: UpCluster) -> None:
    labels = {"set": "pruned"}
    prune = ("--prune", "-l", "set=pruned", "--prune-allowlist=core/v1/ConfigMap")
    cluster.apply(config_map("one", labels), config_map("two", labels), flags=prune)
    assert "configmap/two pruned" in cluster.apply(config_map("one", labels), flags=prune)
    assert cluster.kubectl("get", "cm", "-l", "set=pruned", "-o", "name") == "configmap/one\n"


def test_diff_and_replace(cluster: UpCluster) -> None:
    cluster.apply(config_map("differs", a="1"))
    changed = config_map("differs", a="2")
    shown = cluster.kubectl("diff", "-f", "-", stdin=json.dumps(changed), code=1)
    assert '-  a: "1"' in shown
    assert '+  a: "2"' in shown
    assert cluster.json("get", "cm", "differs")["data"] == {"a": "1"}
    assert "replaced" in cluster.kubectl("replace", "-f", "-", stdin=json.dumps(changed))
    assert cluster.json("get", "cm", "differs")["data"] == {"a": "2"}
    stale = cluster.json("get", "cm", "differs")
    stale["metadata"]["resourceVersion"] = "1"
    assert "the object has been modified" in cluster.kubectl("replace", "-f", "-", stdin=json.dumps(stale), code=1)
    forced = cluster.kubectl("replace", "--force", "-f", "-", stdin=json.dumps(changed))
    assert 'configmap "differs" deleted' in forced


def test_label_annotate_patch_and_edit(cluster: UpCluster, tmp_path: Path) -> None:
    cluster.apply(config_map("edited", a="1"))
    assert "labeled" in cluster.kubectl("label", "cm/edited", "x=y")
    assert "--overwrite is false" in cluster.kubectl("label", "cm/edited", "x=z", code=1)
    cluster.kubectl("annotate", "cm/edited", "note=here")
    assert "unlabeled" in cluster.kubectl("label", "cm/edited", "x-")
    cluster.kubectl("patch", "cm/edited", "--type=merge", "-p", '{"data": {"a": null, "b": "2"}}')
    cluster.kubectl("patch", "cm/edited", "--type=json", "-p", '[{"op": "add", "path": "/data/c", "value": "3"}]')
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/b: .*/b: edited/' \"$1\"\n")
    editor.chmod(0o755)
    assert "edited" in cluster.kubectl("edit", "cm/edited", env={"EDITOR": str(editor)})
    found = cluster.json("get", "cm", "edited")
    assert found["data"] == {"b": "edited", "c": "3"}
    assert found["metadata"]["annotations"]["note"] == "here"
    assert "labels" not in found["metadata"]


def test_a_strategic_patch_merges_containers_by_name(cluster: UpCluster) -> None:
    cluster.apply(pod("patched"))
    change = {"spec": {"containers": [{"name": "c", "image": "busybox:1.37"}], "activeDeadlineSeconds": 1000}}
    cluster.kubectl("patch", "pod", "patched", "-p", json.dumps(change))
    [container] = cluster.json("get", "pod", "patched")["spec"]["containers"]
    assert (container["image"], container["command"][0]) == ("busybox:1.37", "sh")
    bad = [{"op": "test", "path": "/spec/nodeName", "value": "elsewhere"}]
    refused = cluster.kubectl("patch", "pod", "patched", "--type=json", "-p", json.dumps(bad), code=1)
    assert "the server rejected our request due to an error in our request" in refused


def test_an_object_with_faults_is_refused_with_all_of_them(cluster: UpCluster) -> None:
    bad = pod("Bad", restartPolicy="Sometimes")
    text = cluster.apply(bad, code=1)
    assert 'The Pod "Bad" is invalid' in text
    assert "metadata.name: Invalid value" in text
    assert 'spec.restartPolicy: Unsupported value: "Sometimes"' in text
    unknown = pod("unknown", colour="blue")
    assert 'unknown field "spec.colour"' in cluster.apply(unknown, code=1)
    assert "not found" in cluster.kubectl("get", "pod", "unknown", code=1)


def test_create_generators(cluster: UpCluster, tmp_path: Path) -> None:
    file = tmp_path / "settings.ini"
    file.write_text("[a]\nb=c\n")
    cluster.kubectl("create", "configmap", "made", f"--from-file={file}", "--from-literal=k=v")
    assert cluster.json("get", "cm", "made")["data"] == {"settings.ini": "[a]\nb=c\n", "k": "v"}
    cluster.kubectl("create", "secret", "generic", "made", "--from-literal=password=open sesame")
    assert cluster.json("get", "secret", "made")["data"] == {"password": "b3BlbiBzZXNhbWU="}
    shown = cluster.kubectl("describe", "secret", "made")
    assert "password:  11 bytes" in shown
    cluster.kubectl("create", "serviceaccount", "robot")
    token = cluster.kubectl("create", "token", "robot", "--duration=20m").strip()
    who = cluster.kubectl(
        "auth", "whoami", f"--token={token}", "-o", "json", env={"KUBECONFIG": str(anonymous(cluster))}
    )
    assert json.loads(who)["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"


def anonymous(cluster: UpCluster) -> Path:
    """The way to the cluster, without anything to show at its door."""
    config = json.loads(cluster.kubeconfig.read_bytes())
    config["users"] = [{"name": each["name"], "user": {}} for each in config["users"]]
    path = cluster.folder / "anonymous"
    path.write_text(json.dumps(config))
    return path


# --- reading


def test_get_in_every_form(cluster: UpCluster) -> None:
    cluster.apply(pod("shown"))
    cluster.ready("shown")
    get = ("get", "pod", "shown")
    assert re.fullmatch(r"NAME +READY +STATUS +RESTARTS +AGE\nshown +1/1 +Running +0 +\d+s\n", cluster.kubectl(*get))
    wide = cluster.kubectl(*get, "-o", "wide").splitlines()
    assert wide[0].split()[5:] == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    assert wide[1].split()[6:] == [cluster.node, "<none>", "<none>"]
    assert cluster.kubectl(*get, "-o", "name") == "pod/shown\n"
    assert "kind: Pod" in cluster.kubectl(*get, "-o", "yaml")
    assert cluster.json(*get)["status"]["phase"] == "Running"
    assert cluster.kubectl(*get, "-o", "jsonpath={.spec.containers[*].image}") == IMAGE
    columns = cluster.kubectl(*get, "-o", "custom-columns=N:.metadata.name,P:.status.phase").splitlines()
    assert [line.split() for line in columns] == [["N", "P"], ["shown", "Running"]]
    assert cluster.kubectl(*get, "-o", "go-template={{.metadata.name}}") == "shown"
    assert "APP" in cluster.kubectl(*get, "-L", "app")
    assert "app=shown" in cluster.kubectl(*get, "--show-labels")
    assert "shown" in cluster.kubectl(
        "get", "pods", "--field-selector=status.phase=Running", "--sort-by=.metadata.name"
    )
    assert "shown" not in cluster.kubectl("get", "pods", "--field-selector=status.phase=Failed")
    assert "shown" in cluster.kubectl("get", "pods", "-l", "app in (shown)", "--chunk-size=1")
    assert 'pods "absent" not found' in cluster.kubectl("get", "pod", "absent", code=1)
    for kind in ("nodes", "namespaces", "services", "endpoints", "events", "leases", "csr", "serviceaccounts", "all"):
        cluster.kubectl("get", kind, "-A", "-o", "wide")


def test_a_watch_tells_of_every_change_until_the_end(cluster: UpCluster) -> None:
    with cluster.started("get", "pods", "-l", "app=watched", "-w", "--output-watch-events") as watching:
        assert watching.stdout is not None
        cluster.apply(pod("watched"))
        seen = [watching.stdout.readline()]
        while "Running" not in seen[-1]:
            seen.append(watching.stdout.readline())
        cluster.kubectl("delete", "pod", "watched")
        while "DELETED" not in seen[-1]:
            seen.append(watching.stdout.readline())
    assert [line.split()[0] for line in seen[:2]] == ["EVENT", "ADDED"]
    assert {"MODIFIED", "DELETED"} <= {line.split()[0] for line in seen}


def test_describe_shows_events_and_so_do_the_commands_for_them(cluster: UpCluster) -> None:
    cluster.apply(pod("described"))
    cluster.ready("described")
    wait_for(lambda: "Started container c" in cluster.kubectl("describe", "pod", "described"))
    shown = cluster.kubectl("describe", "pod", "described")
    assert f"Successfully assigned default/described to {cluster.node}" in shown
    assert "QoS Class:                   BestEffort" in shown
    assert "Created container: c" in cluster.kubectl("events", "--for", "pod/described")
    events = cluster.kubectl("get", "events", "--field-selector", "involvedObject.name=described", "-o", "name")
    assert len(events.splitlines()) >= 4
    node = cluster.kubectl("describe", "node", cluster.node)
    assert "KubeletReady" in node
    assert "default                     described" in node
    assert "NodeHasSufficientMemory" in node


def test_what_there_is_to_know_about_the_api(cluster: UpCluster) -> None:
    assert cluster.kubectl("get", "--raw", "/readyz") == "ok"
    assert json.loads(cluster.kubectl("get", "--raw", "/version"))["gitVersion"] == "v1.34.11"
    assert {"v1", "metrics.k8s.io/v1beta1", "coordination.k8s.io/v1"} <= set(cluster.kubectl("api-versions").split())
    resources = cluster.kubectl("api-resources", "--no-headers", "--verbs=list", "--namespaced=true", "-o", "name")
    assert {"pods", "configmaps", "leases.coordination.k8s.io"} <= set(resources.split())
    assert "restartPolicy" in cluster.kubectl("explain", "pod.spec")
    assert "FIELD: hostPath" in cluster.kubectl("explain", "pod.spec.volumes.hostPath")
    assert "mountPath" in cluster.kubectl("explain", "pod", "--recursive")
    assert "does not exist" in cluster.kubectl("explain", "pod.spec.colour", code=1)
    assert "is running at" in cluster.kubectl("cluster-info")
    assert cluster.kubectl("get", "--raw", f"/api/v1/nodes/{cluster.node}/proxy/healthz") == "ok"
    eviction = next(
        each
        for each in json.loads(cluster.kubectl("get", "--raw", "/api/v1"))["resources"]
        if each["name"] == "pods/eviction"
    )
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")


def test_who_may_do_what(cluster: UpCluster) -> None:
    assert cluster.kubectl("auth", "can-i", "delete", "pods") == "yes\n"
    assert "kubernetes-admin" in cluster.kubectl("auth", "whoami")
    robot = "--as=system:serviceaccount:default:default"
    assert cluster.kubectl("auth", "can-i", "get", "secrets", robot, code=1).startswith("no")
    refused = cluster.kubectl("get", "secrets", robot, code=1)
    assert 'User "system:serviceaccount:default:default" cannot list resource "secrets" in API group ""' in refused
    assert "selfsubjectaccessreviews" in cluster.kubectl("auth", "can-i", "--list", robot)


# --- namespaces, services, deleting


def test_a_namespace_is_emptied_when_it_is_deleted(cluster: UpCluster) -> None:
    cluster.kubectl("create", "namespace", "brief")
    wait_for(lambda: "default" in cluster.kubectl("-n", "brief", "get", "sa", "-o", "name"))
    cluster.apply(pod("inside", namespace="brief"))
    cluster.kubectl("-n", "brief", "create", "cm", "inside")
    cluster.kubectl("-n", "brief", "wait", "--for=condition=Ready", "pod/inside", "--timeout=30s")
    cluster.kubectl("delete", "namespace", "brief", "--timeout=30s")
    assert 'namespaces "brief" not found' in cluster.kubectl("-n", "brief", "create", "cm", "late", code=1)
    assert "inside" not in cluster.kubectl("get", "pods,cm", "-A")


def test_a_service_finds_the_pods_it_is_for(cluster: UpCluster) -> None:
    cluster.apply(pod("served", container={"ports": [{"containerPort": 8080, "name": "http"}]}))
    cluster.ready("served")
    cluster.kubectl("expose", "pod", "served", "--port=80", "--target-port=8080")
    service = cluster.json("get", "service", "served")
    assert service["spec"]["clusterIP"].startswith("10.96.")
    address = cluster.json("get", "pod", "served")["status"]["podIP"]
    wait_for(lambda: f"{address}:8080" in cluster.kubectl("get", "endpoints", "served"))
    assert f"{address}:8080" in cluster.kubectl("describe", "service", "served")
    cluster.kubectl("delete", "service", "served")
    wait_for(lambda: "served" not in cluster.kubectl("get", "endpoints,endpointslices", "-o", "name"))


def test_delete_in_every_way(cluster: UpCluster) -> None:
    cluster.kubectl("create", "namespace", "deleting")
    stubborn = "trap '' TERM; while true; do sleep 0.2; done"
    names = ("by-name", "forced", "labelled", "others", "slow")
    pods = [pod(name, stubborn, namespace="deleting", labels={"kind": name}) for name in names]
    pods[-1]["spec"]["terminationGracePeriodSeconds"] = 600
    cluster.apply(*pods)
    here = ("-n", "deleting")
    cluster.kubectl(*here, "wait", "--for=condition=Ready", "pods", "--all", "--timeout=30s")
    assert 'pod "by-name" deleted' in cluster.kubectl(*here, "delete", "pod", "by-name", "--grace-period=1")
    assert "force deleted" in cluster.kubectl(*here, "delete", "pod", "forced", "--grace-period=0", "--force")
    assert "deleted" in cluster.kubectl(*here, "delete", "pod", "slow", "--wait=false")
    going = cluster.json(*here, "get", "pod", "slow")["metadata"]
    assert going["deletionGracePeriodSeconds"] == 600
    assert "Terminating" in cluster.kubectl(*here, "get", "pod", "slow")
    assert 'pod "labelled" deleted' in cluster.kubectl(*here, "delete", "pods", "-l", "kind=labelled")
    left = cluster.kubectl(*here, "get", "pods", "-o", "name").split()
    assert left == ["pod/others", "pod/slow"]
    cluster.kubectl(*here, "delete", "pods", "--all", "--grace-period=1")
    assert cluster.kubectl(*here, "get", "pods", "-o", "name") == ""
    assert "not found" in cluster.kubectl(*here, "delete", "pod", "others", code=1)


# --- the node


def test_a_pod_that_fits_nowhere_says_why(cluster: UpCluster) -> None:
    greedy = pod("greedy", container={"resources": {"requests": {"cpu": "1000"}}})
    picky = pod("picky", nodeSelector={"disk": "ssd"})
    cluster.apply(greedy, picky)
    wait_for(lambda: "Insufficient cpu" in cluster.kubectl("events", "--for", "pod/greedy"))
    assert "0/1 nodes are available: 1 Insufficient cpu" in cluster.kubectl("describe", "pod", "greedy")
    wait_for(lambda: "FailedScheduling" in cluster.kubectl("describe", "pod", "picky"))
    assert "didn't match Pod's node affinity/selector" in cluster.kubectl("describe", "pod", "picky")
    assert "Pending" in cluster.kubectl("get", "pod", "greedy", "picky")
    cluster.kubectl("label", "node", cluster.node, "disk=ssd")
    cluster.ready("picky")
    cluster.kubectl("label", "node", cluster.node, "disk-")


def test_taints_keep_pods_away_unless_they_tolerate_them(cluster: UpCluster) -> None:
    cluster.kubectl("taint", "node", cluster.node, "only=some:NoSchedule")
    try:
        tolerant = pod("tolerant", tolerations=[{"key": "only", "operator": "Exists"}])
        cluster.apply(pod("kept-away"), tolerant)
        cluster.ready("tolerant")
        wait_for(lambda: "1 node(s) had untolerated taint(s)" in cluster.kubectl("describe", "pod", "kept-away"))
    finally:
        cluster.kubectl("taint", "node", cluster.node, "only-")
    cluster.ready("kept-away")


def test_static_pods_are_shown_and_deleting_what_shows_them_does_not_stop_them(cluster: UpCluster) -> None:
    name = f"static-{cluster.node}"
    cluster.appears(name)
    cluster.ready(name)
    before = cluster.json("get", "pod", name)
    assert before["metadata"]["annotations"]["kubernetes.io/config.source"] == "file"
    assert before["metadata"]["ownerReferences"][0]["kind"] == "Node"
    cluster.kubectl("delete", "pod", name, "--wait=false")

    def is_back() -> bool:
        found = json.loads(cluster.kubectl("get", "pod", "-l", "app=static", "-o", "json"))["items"]
        return bool(found) and found[0]["metadata"]["uid"] != before["metadata"]["uid"]

    wait_for(is_back)
    cluster.ready(name)
    after = cluster.json("get", "pod", name)["status"]["containerStatuses"][0]
    assert after["containerID"] == before["status"]["containerStatuses"][0]["containerID"]


def test_cordon_drain_and_uncordon(cluster: UpCluster) -> None:
    cluster.apply(pod("evicted"))
    cluster.ready("evicted")
    cluster.kubectl("cordon", cluster.node)
    try:
        assert "Ready,SchedulingDisabled" in cluster.kubectl("get", "node")
        cluster.apply(pod("not-now"))
        wait_for(lambda: "1 node(s) were unschedulable" in cluster.kubectl("describe", "pod", "not-now"))
        refused = cluster.kubectl("drain", cluster.node, "--ignore-daemonsets", code=1)
        assert "cannot delete" in refused
        flags = ("--force", "--ignore-daemonsets", "--delete-emptydir-data", "--grace-period=1", "--timeout=30s")
        drained = cluster.kubectl("drain", cluster.node, *flags)
        assert "pod/evicted evicted" in drained
        assert f"node/{cluster.node} drained" in drained
        running = cluster.kubectl("get", "pods", "--field-selector", f"spec.nodeName={cluster.node}", "-o", "name")
        assert running == f"pod/static-{cluster.node}\n"
    finally:
        cluster.kubectl("uncordon", cluster.node)
    cluster.ready("not-now")


def test_top(cluster: UpCluster) -> None:
    cluster.apply(pod("busy", "while true; do :; done", container={"resources": {"limits": {"cpu": "500m"}}}))
    cluster.ready("busy")

    def cores() -> int:
        code_and_text = cluster.try_kubectl("top", "pod", "busy", "--no-headers")
        found = re.match(r"busy +(\d+)m +\d+Mi", code_and_text)
        return int(found[1]) if found else 0

    wait_for(lambda: cores() > 50)
    assert re.search(rf"{cluster.node} +\d+m +\d+% +\d+Mi +\d+%", cluster.kubectl("top", "node"))
    assert re.search(r"busy +c +\d+m +\d+Mi", cluster.kubectl("top", "pod", "--containers", "-l", "app=busy"))
    assert "not found" in cluster.kubectl("top", "pod", "absent", code=1)
    cluster.kubectl("delete", "pod", "busy", "--now")
