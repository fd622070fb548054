"""A cluster whose parts die, are stopped and come back, and the doors that are shut to those who may not."""

import base64
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.agent_process import is_alive, mentions, pids_of
from kit.up_cluster import UpCluster, cluster_up, kill, pod
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(120)

MARKER = f"{os.getpid()}55"


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up(manifests={"static.yaml": json.dumps(pod("static"))}) as running:
        running.apply(pod("web", f"exec sleep {MARKER}"), pod("once", "exit 0", restartPolicy="Never"))
        running.ready("web")
        running.phase("once", "Succeeded")
        yield running


def containers(cluster: UpCluster) -> dict[str, Any]:
    """All that should be the same before and after."""
    items = cluster.json("get", "pods")["items"]
    return {
        each["metadata"]["name"]: (
            each["metadata"]["uid"],
            each["status"]["phase"],
            [(one.get("containerID"), one["restartCount"]) for one in each["status"]["containerStatuses"]],
        )
        for each in items
    }


# --- who may


def test_who_shows_nothing_sees_nothing(cluster: UpCluster) -> None:
    config = json.loads(cluster.kubeconfig.read_bytes())
    config["users"] = [{"name": each["name"], "user": {"token": "made-up"}} for each in config["users"]]
    path = cluster.folder / "stranger"
    path.write_text(json.dumps(config))
    nobody = {"KUBECONFIG": str(path)}
    for what in ("/api/v1/pods", "/api/v1/secrets", "/apis/metrics.k8s.io/v1beta1/nodes", "/openapi/v2"):
        assert "Unauthorized" in cluster.kubectl("get", "--raw", what, code=1, env=nobody)
    assert "must be logged in" in cluster.kubectl("get", "pods", code=1, env=nobody)
    server = config["clusters"][0]["cluster"]
    trusted = ssl.create_default_context(cadata=base64.b64decode(server["certificate-authority-data"]).decode())
    assert _asked(f"{server['server']}/readyz", trusted) == 200
    assert _asked(f"{server['server']}/api/v1/namespaces/default/secrets", trusted) == 403


def _asked(url: str, trusted: ssl.SSLContext) -> int:
    try:
        with urllib.request.urlopen(url, context=trusted, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)


def test_a_node_sees_the_secrets_of_its_own_pods_alone(cluster: UpCluster) -> None:
    cluster.kubectl("create", "secret", "generic", "used", "--from-literal=a=b")
    cluster.kubectl("create", "secret", "generic", "unused", "--from-literal=a=b")
    container = {"envFrom": [{"secretRef": {"name": "used"}}]}
    cluster.apply(pod("user", container=container))
    cluster.ready("user")
    node = {"KUBECONFIG": str(cluster.data / "kubelet.conf")}
    assert "used" in cluster.kubectl("get", "secret", "used", env=node)
    refused = cluster.kubectl("get", "secret", "unused", code=1, env=node)
    assert f'User "system:node:{cluster.node}" cannot get resource "secrets"' in refused
    assert "Forbidden" in cluster.kubectl("get", "secrets", code=1, env=node)
    assert "Forbidden" in cluster.kubectl("get", "secrets", "--watch", code=1, env=node)
    assert "orbidden" in cluster.kubectl("get", "secret", "unused", "--watch", code=1, env=node)
    other = ("label", "node", "other-node", "a=b")
    assert "Error" in cluster.kubectl(*other, code=1, env=node)
    assert "is forbidden" in cluster.kubectl("delete", "cm", "kube-root-ca.crt", code=1, env=node)
    cluster.kubectl("delete", "pod", "user", "--now")


def test_what_holds_keys_is_readable_by_its_owner_alone(cluster: UpCluster) -> None:
    assert cluster.data.stat().st_mode & 0o777 == 0o700
    for path in (
        cluster.kubeconfig,
        cluster.data / "kubelet.conf",
        *(cluster.data / "apiserver" / "pki").glob("*.key"),
    ):
        assert path.stat().st_mode & 0o077 == 0, path


# --- who dies


def test_an_api_server_that_is_killed_comes_back_with_all_it_knew(cluster: UpCluster) -> None:
    cluster.kubectl("create", "cm", "kept", "--from-literal=a=b")
    before, pid = containers(cluster), cluster.apiserver_pid()
    revision = int(cluster.json("get", "cm", "kept")["metadata"]["resourceVersion"])
    kill(pid)
    wait_for(lambda: cluster.apiserver_pid() not in (0, pid))
    wait_for(lambda: cluster.try_kubectl("get", "--raw", "/readyz") == "ok")
    assert containers(cluster) == before
    assert cluster.json("get", "cm", "kept")["data"] == {"a": "b"}
    cluster.kubectl("create", "cm", "later")
    assert int(cluster.json("get", "cm", "later")["metadata"]["resourceVersion"]) > revision
    # All of it works again, down to the node and back.
    cluster.apply(pod("after-the-server"))
    cluster.ready("after-the-server")
    assert cluster.kubectl("exec", "after-the-server", "--", "echo", "hi") == "hi\n"
    cluster.kubectl("delete", "pod", "after-the-server", "--now")


def test_an_agent_that_is_killed_comes_back_and_touches_nothing(cluster: UpCluster) -> None:
    before, pid = containers(cluster), cluster.agent_pid()
    programs = pids_of(f"sleep {MARKER}")
    assert programs
    kill(pid)
    wait_for(lambda: cluster.agent_pid() not in (0, pid) and is_alive(cluster.agent_pid()))
    cluster.apply(pod("after-the-agent"))
    cluster.ready("after-the-agent")
    cluster.kubectl("delete", "pod", "after-the-agent", "--now")
    assert containers(cluster) == before
    assert pids_of(f"sleep {MARKER}") == programs


def test_after_down_and_up_everything_is_there_again(cluster: UpCluster) -> None:
    # One that does not end when asked, some that end well when they are stopped, and one that ends badly.
    cluster.apply(
        pod("stubborn", "trap '' TERM; while true; do sleep 0.2; done"),
        pod("polite", "trap 'exit 0' TERM; while true; do sleep 0.1; done", restartPolicy="OnFailure"),
        pod("grumpy", "trap 'exit 3' TERM; while true; do sleep 0.1; done"),
        pod("not-twice", "trap 'exit 0' TERM; while true; do sleep 0.1; done", restartPolicy="Never"),
    )
    names = ("web", "stubborn", "polite", "grumpy", f"static-{cluster.node}")
    cluster.ready(*names, "not-twice")
    before = containers(cluster)
    assert "All is stopped" in cluster.down()
    assert not pids_of(f"sleep {MARKER}")
    wait_for(lambda: mentions(str(cluster.data)) == [])
    cluster.up()

    def are_back() -> bool:
        now = containers(cluster)
        return all(
            now[name][1] == "Running" and now[name][2][0][0] not in (None, before[name][2][0][0]) for name in names
        )

    wait_for(are_back, otherwise=lambda: cluster.try_kubectl("get", "pods", "-o", "wide"))
    cluster.ready(*names)
    assert pids_of(f"sleep {MARKER}")
    after = containers(cluster)
    assert {name: uid for name, (uid, *_) in after.items() if name in before} == {
        name: uid for name, (uid, *_) in before.items()
    }
    assert after["once"] == before["once"]
    cluster.phase("not-twice", "Failed")  # it has begun, did not end by itself, and never starts again
    assert cluster.json("get", "cm", "kept")["data"] == {"a": "b"}


def test_what_pods_have_left_is_kept_over_down_and_up(cluster: UpCluster) -> None:
    cluster.apply(
        pod("done", "echo all is done", restartPolicy="Never"),
        pod("counted", "cat /proc/sys/kernel/random/uuid; exec sleep 1000"),
    )
    cluster.phase("done", "Succeeded")
    cluster.ready("counted")
    said = cluster.kubectl("logs", "counted")
    cluster.down()
    assert str(cluster.data) not in Path("/proc/mounts").read_text()
    cluster.up()
    wait_for(lambda: _restarts(cluster, "counted") == 1, otherwise=lambda: cluster.try_kubectl("get", "pods"))
    cluster.ready("counted")
    assert cluster.kubectl("logs", "--previous", "counted") == said
    assert cluster.kubectl("logs", "counted") != said
    assert "Completed" in cluster.kubectl("get", "pod", "done")
    assert cluster.kubectl("logs", "done") == "all is done\n"
    cluster.kubectl("delete", "pod", "done", "counted")
    wait_for(lambda: not list((cluster.data / "state" / "logs").glob("default_counted_*")))


def _restarts(cluster: UpCluster, name: str) -> int:
    return sum(each["restartCount"] for each in cluster.json("get", "pod", name)["status"]["containerStatuses"])


def test_reset_leaves_nothing(cluster: UpCluster) -> None:
    assert "cleared away" in cluster.reset()
    assert not cluster.data.exists()
    assert not pids_of(f"sleep {MARKER}")
    wait_for(lambda: mentions(str(cluster.data)) == [])
    assert "nothing to remove" in cluster.reset()
