"""The key sessions of kubectl where containers are real: a private containerd, with runc, networks and images."""

import base64
import json
import os
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.agent_process import command
from kit.containerd import Containerd
from kit.up_cluster import IMAGE, UpCluster, cluster_up, kill, pod, watch_writers
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def cluster(containerd: Containerd) -> Iterator[UpCluster]:
    flags = ("--container-runtime-endpoint", containerd.endpoint)
    with cluster_up(*flags, manifests={"static.yaml": json.dumps(pod("static"))}) as running:
        running.apply(pod("shell"))
        running.ready("shell")
        yield running


def test_pods_run_in_containers_with_networks_of_their_own(cluster: UpCluster, containerd: Containerd) -> None:
    cluster.appears(f"static-{cluster.node}")
    cluster.ready(f"static-{cluster.node}")
    status = cluster.json("get", "pod", "shell")["status"]
    assert status["containerStatuses"][0]["containerID"].startswith("containerd://")
    addresses = {each["status"]["podIP"] for each in cluster.json("get", "pods")["items"]}
    assert len(addresses) == 2
    assert "inet " + status["podIP"] in cluster.kubectl("exec", "shell", "--", "ip", "address")
    assert cluster.kubectl("exec", "shell", "--", "hostname") == "shell\n"
    shown = cluster.kubectl("get", "node", "-o", "wide")
    assert "containerd://" in shown
    assert 'Container image "busybox:1.36" already present' in cluster.kubectl("describe", "pod", "shell")


def test_logs_exec_attach_and_terminals(cluster: UpCluster) -> None:
    reader = {"stdin": True, "stdinOnce": True}
    script = "echo ready; while read line; do echo got $line; done"
    cluster.apply(pod("reader", script, container=reader, restartPolicy="Never"))
    cluster.ready("reader")
    assert "got this" in cluster.kubectl("attach", "-i", "reader", stdin="this\n")
    cluster.phase("reader", "Succeeded")
    assert cluster.kubectl("logs", "reader") == "ready\ngot this\n"
    assert cluster.kubectl("logs", "reader", "--tail=1") == "got this\n"
    assert cluster.kubectl("exec", "-i", "shell", "--", "cat", stdin="typed\n") == "typed\n"
    assert "bad" in cluster.kubectl("exec", "shell", "--", "sh", "-c", "echo bad >&2; exit 42", code=42)
    with cluster.at_terminal("exec", "-it", "shell", "--", "sh") as person:
        person.types("stty size; test -t 0 && echo is-$((40 + 2))\n")
        person.sees("40 100")
        person.sees("is-42")
        person.types("exit 3\n")
        assert person.leaves() == 3
    run = ("run", "typed", f"--image={IMAGE}", "--rm", "-it", "--restart=Never", "--", "sh")
    with cluster.at_terminal(*run) as person:
        person.sees("press")
        person.types("echo is-$((40 + 2))\n")
        person.sees("is-42")
        person.types("exit\n")
        assert person.leaves() == 0
        person.sees('pod "typed" deleted')


def test_logs_are_followed_across_the_end_of_a_container(cluster: UpCluster) -> None:
    script = "echo before; while [ ! -e /tmp/gate ]; do sleep 0.05; done; echo after"
    cluster.apply(pod("followed", script, restartPolicy="Never"))
    cluster.ready("followed")
    with cluster.started("logs", "-f", "followed") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "before\n"
        cluster.kubectl("exec", "followed", "--", "touch", "/tmp/gate")
        assert following.stdout.read() == "after\n"
        assert following.wait() == 0


def test_files_are_copied_and_ports_forwarded(cluster: UpCluster, tmp_path: Path) -> None:
    data = os.urandom(1_000_000)
    (tmp_path / "data").write_bytes(data)
    cluster.kubectl("cp", str(tmp_path / "data"), "shell:/tmp/data")
    cluster.kubectl("cp", "shell:/tmp/data", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data
    serve = "mkdir /tmp/www; printf 'a page' > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"
    cluster.apply(pod("pages", serve, container={"ports": [{"containerPort": 8080}]}))
    cluster.ready("pages")
    with cluster.started("port-forward", "pod/pages", ":8080") as forwarding:
        assert forwarding.stdout is not None
        ours = int(forwarding.stdout.readline().split("->")[0].rpartition(":")[2])
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{ours}/", timeout=10) as answer:
                assert answer.read() == b"a page"
    assert cluster.kubectl("get", "--raw", "/api/v1/namespaces/default/pods/pages:8080/proxy/") == "a page"


def test_debug_sees_the_processes_of_the_container_it_is_for(cluster: UpCluster) -> None:
    debug = ("debug", "shell", f"--image={IMAGE}", "--profile=general")
    cluster.kubectl(*debug, "--container=look", "--target=c", "--attach=false", "--", "sh", "-c", "ps; exec sleep 99")

    def runs() -> bool:
        found = cluster.json("get", "pod", "shell")["status"].get("ephemeralContainerStatuses") or [{}]
        return "running" in found[0].get("state", {})

    wait_for(runs)
    wait_for(lambda: "sleep 1000" in cluster.kubectl("logs", "shell", "-c", "look"))
    assert cluster.kubectl("exec", "shell", "-c", "look", "--", "echo", "inside") == "inside\n"
    with cluster.at_terminal(*debug, "-it", "--", "sh") as person:
        person.types("echo is-$((40 + 2))\n")
        person.sees("is-42")
        person.types("exit\n")
        person.leaves()


def test_a_pod_that_crashes_and_one_whose_image_is_nowhere(cluster: UpCluster) -> None:
    cluster.apply(pod("crashing", "echo my last words; exit 7"), pod("imageless", container={"image": "absent:1"}))
    wait_for(lambda: "CrashLoopBackOff" in cluster.kubectl("get", "pod", "crashing"))
    assert cluster.kubectl("logs", "crashing", "--previous") == "my last words\n"
    assert (
        cluster.json("get", "pod", "crashing")["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"]
        == 7
    )
    wait_for(lambda: re.search("ErrImagePull|ImagePullBackOff", cluster.kubectl("get", "pod", "imageless")))
    wait_for(lambda: 'Failed to pull image "absent:1"' in cluster.kubectl("describe", "pod", "imageless"))
    refused = cluster.kubectl("logs", "imageless", code=1)
    assert 'container "c" in pod "imageless" is waiting to start' in refused
    cluster.kubectl("delete", "pod", "crashing", "imageless", "--now")


def test_config_maps_secrets_and_tokens_reach_the_pod(cluster: UpCluster) -> None:
    cluster.kubectl("create", "configmap", "settings", "--from-literal=COLOUR=blue")
    cluster.kubectl("create", "secret", "generic", "keys", "--from-literal=password=sesame")
    secret = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "password"}}}
    mounts = [{"name": each, "mountPath": f"/{each}"} for each in ("settings", "keys")]
    container = {"env": [secret], "envFrom": [{"configMapRef": {"name": "settings"}}], "volumeMounts": mounts}
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
    ]
    first = {"name": "i", "image": IMAGE, "command": ["sh", "-c", "cat /keys/password"], "volumeMounts": mounts}
    cluster.apply(pod("configured", container=container, volumes=volumes, initContainers=[first]))
    cluster.ready("configured")
    script = "echo $COLOUR $PASSWORD; cat /settings/COLOUR /keys/password"
    assert cluster.kubectl("exec", "configured", "-c", "c", "--", "sh", "-c", script) == "blue sesame\nbluesesame"
    assert cluster.kubectl("logs", "configured", "-c", "i") == "sesame"
    where = "/var/run/secrets/kubernetes.io/serviceaccount"
    token = cluster.kubectl("exec", "configured", "-c", "c", "--", "cat", f"{where}/token")
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["kubernetes.io"]["pod"]["name"] == "configured"


def test_top(cluster: UpCluster) -> None:
    limited = {"resources": {"limits": {"cpu": "300m", "memory": "32Mi"}}}
    cluster.apply(pod("busy", "while true; do :; done", container=limited))
    cluster.ready("busy")

    def cores() -> int:
        found = re.match(r"busy +(\d+)m +\d+Mi", cluster.try_kubectl("top", "pod", "busy", "--no-headers"))
        return int(found[1]) if found else 0

    wait_for(lambda: 50 < cores() < 450, otherwise=lambda: cluster.try_kubectl("top", "pod", "busy"))
    assert re.search(rf"{cluster.node} +\d+m +\d+% +\d+Mi +\d+%", cluster.kubectl("top", "node"))
    cluster.kubectl("delete", "pod", "busy", "--now")


def test_killed_parts_come_back_and_touch_nothing(cluster: UpCluster) -> None:
    before = identities(cluster)
    agent, server = cluster.agent_pid(), cluster.apiserver_pid()
    kill(agent)
    kill(server)
    wait_for(lambda: cluster.apiserver_pid() not in (0, server) and cluster.agent_pid() not in (0, agent))
    wait_for(lambda: cluster.try_kubectl("get", "--raw", "/readyz") == "ok")
    cluster.apply(pod("after-all"))
    cluster.ready("after-all")
    cluster.kubectl("delete", "pod", "after-all", "--now")
    assert identities(cluster) == before


def identities(cluster: UpCluster) -> dict[str, list[tuple[str, int]]]:
    return {
        each["metadata"]["name"]: [
            (one["containerID"], one["restartCount"]) for one in each["status"]["containerStatuses"]
        ]
        for each in cluster.json("get", "pods", "--field-selector=status.phase=Running")["items"]
    }


def test_pods_that_write_more_than_they_may_are_evicted(cluster: UpCluster) -> None:
    watch_writers(cluster, "/var")


def test_explain_says_that_the_runtime_is_down_and_that_it_is_back(cluster: UpCluster, containerd: Containerd) -> None:
    def told(*name: str) -> Any:
        return json.loads(command("explain", *name, "-o", "json", "--data", str(cluster.data)))

    cluster.ready("shell")
    assert told("shell")["isWell"]
    containerd.stop()
    try:
        wait_for(lambda: (told("shell")["cause"] or {}).get("code") == "RuntimeDown", seconds=40)
        line = told("shell")["sentence"]
        assert line.startswith("shell is on a node whose container runtime does not answer")
        assert line.endswith("; the agent tries again all the time, and what runs goes on.")
        assert told("shell")["state"] == "Running"
        whole = command("explain", "--data", str(cluster.data)).splitlines()
        assert whole[0].startswith(f"node {cluster.node}: its container runtime does not answer: ")
        assert any(each.startswith("default/shell is on a node whose container runtime") for each in whole)
    finally:
        containerd.start()
    wait_for(lambda: told("shell")["isWell"], seconds=40)


def test_drain_down_up_and_reset(cluster: UpCluster, containerd: Containerd) -> None:
    flags = ("--force", "--ignore-daemonsets", "--delete-emptydir-data", "--grace-period=1", "--timeout=40s")
    assert "pod/shell evicted" in cluster.kubectl("drain", cluster.node, *flags)
    cluster.kubectl("uncordon", cluster.node)
    cluster.apply(pod("lasting"))
    cluster.ready("lasting")
    before = identities(cluster)
    assert set(before) == {"lasting", f"static-{cluster.node}"}
    cluster.down()
    assert containerd.ctr("tasks", "ls", "-q") == ""
    cluster.up()

    def are_back() -> bool:
        now = identities_if_any(cluster)
        return set(now) == set(before) and all(now[name][0][0] not in ("", before[name][0][0]) for name in now)

    wait_for(are_back, otherwise=lambda: cluster.try_kubectl("get", "pods", "-o", "wide"))
    cluster.ready(*before)
    assert {count for ((_, count),) in identities_if_any(cluster).values()} == {1}
    cluster.down()
    assert containerd.ctr("containers", "ls", "-q") != ""
    cluster.reset()
    assert containerd.ctr("containers", "ls", "-q") == ""


def identities_if_any(cluster: UpCluster) -> dict[str, list[tuple[str, int]]]:
    return {
        each["metadata"]["name"]: [
            (one.get("containerID", ""), one["restartCount"]) for one in each["status"].get("containerStatuses", ())
        ]
        for each in cluster.json("get", "pods", "--field-selector=status.phase=Running")["items"]
    }
