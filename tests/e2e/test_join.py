"""A second node joins, with nothing but a token: two agents on one machine, each with a folder of its own."""

import base64
import json
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.agent_process import command, mentions
from kit.up_cluster import EMBEDDED, UpCluster, cluster_up, pod
from kit.waiting import wait_for


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up() as running:
        yield running


@pytest.fixture
def folder() -> Iterator[Path]:
    """For the data of another node, which is gone at the end."""
    made = Path(tempfile.mkdtemp(prefix="pykubelet-join-", dir="/tmp"))
    try:
        yield made / "data"
    finally:
        if (made / "data").exists():
            command("reset", "--data", str(made / "data"))
        shutil.rmtree(made)


def token(cluster: UpCluster, *args: str) -> Path:
    file = cluster.folder / "join.conf"
    command("token", "--data", str(cluster.data), "-o", str(file), *args)
    return file


def join(folder: Path, *args: str, code: int = 0) -> str:
    return command("join", "--data", str(folder), *args, code=code)


def test_a_node_joins_with_a_token_and_does_its_share_of_the_work(cluster: UpCluster, folder: Path) -> None:
    file = token(cluster, "--ttl", "10m")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shown = join(folder, "--bootstrap-kubeconfig", str(file), "--node-name", "second", *EMBEDDED)
    assert "node second is ready" in shown
    assert "running already" in join(folder)
    requests = cluster.json("get", "csr")["items"]
    ours = [each for each in requests if each["spec"]["username"].startswith("system:bootstrap:")]
    assert [each["type"] for each in ours[-1]["status"]["conditions"]] == ["Approved"]
    assert ours[-1]["status"]["certificate"]
    nodes = cluster.kubectl("get", "nodes", "--no-headers").split("\n")
    assert [line.split()[1] for line in nodes if line] == ["Ready", "Ready"]

    apart = {"labelSelector": {"matchLabels": {"far": "yes"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    script = "echo hello; exec sleep 1000"
    cluster.apply(*(pod(name, script, labels={"far": "yes"}, affinity=affinity) for name in ("one", "two")))
    cluster.ready("one", "two")
    pods = cluster.json("get", "pods", "-l", "far=yes")["items"]
    where = {each["spec"]["nodeName"]: each["metadata"]["name"] for each in pods}
    assert where.keys() == {cluster.node, "second"}
    for name in where.values():  # its serving certificate is asked for as well
        wait_for(lambda name=name: "hello" in cluster.try_kubectl("logs", name))  # type: ignore[misc]
        assert cluster.kubectl("exec", name, "--", "echo", "inside").strip() == "inside"

    assert f"pykubelet join --data {folder}` goes on" in command("down", "--data", str(folder))
    assert "node second is ready" in join(folder)
    cluster.ready(where["second"])
    shown = command("reset", "--data", str(folder))
    assert "kubectl delete node second" in shown
    assert not folder.exists()
    assert mentions(str(folder)) == []
    cluster.kubectl("delete", "pod", "one", "two", "--force", "--grace-period=0")
    cluster.kubectl("delete", "node", "second")


def test_a_node_that_has_joined_may_do_what_a_node_may_and_no_more(cluster: UpCluster, folder: Path) -> None:
    join(folder, "--bootstrap-kubeconfig", str(token(cluster)), "--node-name", "third", *EMBEDDED)
    cluster.apply(pod("theirs", nodeName=cluster.node))
    cluster.kubectl("create", "secret", "generic", "precious", "--from-literal=a=b")
    identity = f"--kubeconfig={folder / 'kubelet.conf'}"

    def refused(*args: str) -> None:
        assert "forbidden" in cluster.kubectl(*args, identity, code=1), args

    assert "third" in cluster.kubectl("get", "node", "third", identity)
    refused("get", "nodes")
    assert "labeled" in cluster.kubectl("label", "node", "third", "rack=4", identity)
    refused("label", "node", "third", "node-restriction.kubernetes.io/tier=1")
    refused("label", "node", cluster.node, "rack=4")
    refused("get", "secret", "precious")
    refused("get", "secrets", "-A")
    refused("delete", "pod", "theirs")
    refused("create", "configmap", "mine")
    bootstrap = f"--kubeconfig={cluster.folder / 'join.conf'}"
    assert "Forbidden" in cluster.kubectl("get", "nodes", bootstrap, code=1)
    cluster.kubectl("delete", "pod/theirs", "secret/precious")


def test_what_cannot_join_is_told_in_one_line_and_leaves_nothing(cluster: UpCluster, folder: Path) -> None:
    file = token(cluster)
    taken = join(folder, "--bootstrap-kubeconfig", str(file), *EMBEDDED, "--node-name", cluster.node, code=2)
    assert f"a node {cluster.node} is there already, and ready" in taken
    assert not folder.exists()
    config = json.loads(file.read_bytes())
    name = f"bootstrap-token-{config['users'][0]['user']['token'][:6]}"
    cluster.kubectl("-n", "kube-system", "delete", "secret", name)
    stale = join(folder, "--bootstrap-kubeconfig", str(file), *EMBEDDED, "--node-name", "late", code=2)
    assert "does not accept the token" in stale
    assert not folder.exists()
    assert "--bootstrap-kubeconfig" in join(folder, code=2)
    assert "not both" in join(folder, "--bootstrap-kubeconfig", str(file), "--kubeconfig", str(file), code=2)
    assert "must be a time such as" in command("token", "--data", str(cluster.data), "--ttl", "soon", code=2)
    assert "no API server of ours" in command("token", "--data", str(folder), code=2)
    assert "was not made by `pykubelet join`" in join(cluster.data, code=2)


def test_a_token_ends_when_it_was_said_to(cluster: UpCluster) -> None:
    config = json.loads(command("token", "--data", str(cluster.data), "--ttl", "1h", "-o", "-"))
    name = f"bootstrap-token-{config['users'][0]['user']['token'][:6]}"
    file = cluster.folder / "printed.conf"
    file.write_text(json.dumps(config))
    look = ("get", "--raw", "/api", f"--kubeconfig={file}")
    assert "APIVersions" in cluster.kubectl(*look)
    expired = base64.b64encode(b"2020-01-01T00:00:00Z").decode()
    patch = json.dumps({"data": {"expiration": expired}})
    cluster.kubectl("-n", "kube-system", "patch", "secret", name, "-p", patch)
    assert "Unauthorized" in cluster.kubectl(*look, code=1)
