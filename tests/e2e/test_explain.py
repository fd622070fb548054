"""Broken pods on a real node: `explain` names the cause of each, on the machine, from anywhere and after the end."""

import base64
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.agent_process import command
from kit.pty_screen import pty_screen
from kit.up_cluster import EMBEDDED, UpCluster, cluster_up
from kit.waiting import wait_for
from pykubelet.host.journal_files import read_journal
from pykubelet.pod.moments import PodDeleted

pytestmark = pytest.mark.timeout(120)


def pod(name: str, *words: str, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    one = {"name": "app", "image": "host", "command": list(words or ("sleep", "1000")), **(container or {})}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [one], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


_FAILS = {"exec": {"command": ["sh", "-c", "echo sick; exit 1"]}, "periodSeconds": 1, "failureThreshold": 1}
_VOLUME = {"name": "data", "hostPath": {"path": "/nowhere/at/all", "type": "Directory"}}

_HIDDEN = {"name": "hidden", "secret": {"secretName": "hidden"}}
_KEY = {"name": "half", "key": "mode"}
_EATS = ("python3", "-c", "b = bytearray(1 << 28)")
_LISTEN = "import socket, time; s = socket.create_server(('127.0.0.1', 18097)); time.sleep(1000)"
_TWICE = [{"name": name, "image": "host", "command": ["python3", "-c", _LISTEN]} for name in ("one", "two")]
_HALF = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "half"}, "data": {"other": "x"}}
_STATIC = {
    "fine.yaml": json.dumps(pod("fine")),
    "done.yaml": json.dumps(pod("done", "true", restartPolicy="OnFailure")),
    "bad.yaml": json.dumps(pod("bad", "sh", "-c", "echo bad; exit 3")),
}

BROKEN = {
    "config": (
        pod("config", container={"envFrom": [{"configMapRef": {"name": "app-config"}}]}),
        "ObjectNotFound",
        "config waits for ConfigMap default/app-config, which does not exist; it starts by itself when it appears.",
    ),
    "crash": (
        pod("crash", "python3", "-c", "raise KeyError('DATABASE_URL')"),
        "Crashed",
        "last words: `KeyError: 'DATABASE_URL'`; next start in ",
    ),
    "init": (
        pod("init", initContainers=[{"name": "prepare", "image": "host", "command": ["sh", "-c", "echo no; exit 2"]}]),
        "Crashed",
        " with code 2; last words: `no`",
    ),
    "liveness": (
        pod("liveness", container={"livenessProbe": _FAILS}),
        "ProbeFailed",
        "liveness keeps being restarted: the liveness probe of app fails: sick",
    ),
    "readiness": (
        pod("readiness", container={"readinessProbe": _FAILS}),
        "ProbeFailed",
        "readiness runs, but gets no traffic: the readiness probe of app fails: sick; ",
    ),
    "volume": (
        pod("volume", volumes=[_VOLUME], container={"volumeMounts": [{"name": "data", "mountPath": "/data"}]}),
        "VolumeFailed",
        "volume waits for volume data, which cannot be mounted: hostPath type check failed: /nowhere/at/all ",
    ),
    "command": (pod("command", "/bin/nope"), "CommandNotFound", "command cannot run /bin/nope in container app: "),
    "user": (
        pod("user", container={"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}),
        "WrongUser",
        "user cannot start container app as the user it should be: ",
    ),
    "key": (
        pod("key", container={"env": [{"name": "MODE", "valueFrom": {"configMapKeyRef": _KEY}}]}),
        "KeyNotFound",
        "key waits for key mode of ConfigMap default/half, which the ConfigMap does not have; it starts by itself ",
    ),
    "startup": (
        pod("startup", container={"startupProbe": _FAILS}),
        "ProbeFailed",
        "startup keeps being restarted: app has not started within the 1 s that its startup probe gives it",
    ),
    "read-only": (
        pod("read-only", "sh", "-c", "echo x > /x", container={"securityContext": {"readOnlyRootFilesystem": True}}),
        "ReadOnlyFileSystem",
        "app writes to a read-only file system and exited ",
    ),
    "hungry": (
        pod("hungry", *_EATS, container={"resources": {"limits": {"memory": "32Mi"}}}),
        "OutOfMemory",
        " with code 137 (OOMKilled: limit 32Mi, peak 32Mi)",
    ),
    "port": (
        pod("port", containers=_TWICE),
        "PortTaken",
        " finds its port taken; next start in ",
    ),
    "secret": (
        pod("secret", volumes=[_HIDDEN], container={"volumeMounts": [{"name": "hidden", "mountPath": "/hidden"}]}),
        "ObjectNotFound",
        "secret waits for Secret default/hidden, which does not exist; it starts by itself when it appears.",
    ),
    "selector": (
        pod("selector", nodeSelector={"disk": "none"}),
        "NotScheduled",
        "selector has no node: ",
    ),
    "room": (
        pod("room", container={"resources": {"requests": {"cpu": "1000"}}}),
        "NoRoom",
        "room has no node: none has enough cpu; it starts when there is room on a node.",
    ),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up(*EMBEDDED, manifests=_STATIC) as running:
        running.apply(_HALF, *(each[0] for each in BROKEN.values()), pod("well"))
        running.ready("well")
        yield running


def explain(cluster: UpCluster, *words: str) -> Any:
    return json.loads(command("explain", *words, "-o", "json", "--data", str(cluster.data)))


def test_the_first_line_of_each_names_its_cause(cluster: UpCluster) -> None:
    told: dict[str, Any] = {}
    seen: set[str] = set()

    def all_are_told() -> bool:
        """At one time or another: while a container is being ended there is something else to say."""
        told.clear()
        told.update({each["name"]: each for each in explain(cluster)["items"]})
        seen.update(
            name
            for name, (_, code, words) in BROKEN.items()
            if name in told and told[name]["cause"]["code"] == code and words in told[name]["sentence"]
        )
        return seen == set(BROKEN)

    wait_for(all_are_told, seconds=40, otherwise=lambda: {name: each["sentence"] for name, each in told.items()})
    assert "well" not in told


def test_from_anywhere_through_the_api_server_and_as_a_plug_in_of_kubectl(cluster: UpCluster) -> None:
    here = explain(cluster, "crash")
    there = json.loads(command("explain", "crash", "-o", "json", "--kubeconfig", str(cluster.kubeconfig)))
    assert there["uid"] == here["uid"]
    assert there["criticalPath"] == here["criticalPath"] != []
    folder = cluster.folder / "bin"
    folder.mkdir()
    plug_in = folder / "kubectl-explainpod"
    plug_in.write_text(f"#!{sys.executable}\nfrom pykubelet.cli.explain import plugin\nplugin()\n")
    plug_in.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    assert "has no node: none has enough cpu" in cluster.kubectl("explainpod", "room", env={"PATH": path})


def test_top_shows_them_live_and_leads_to_logs_and_a_shell(cluster: UpCluster) -> None:
    with pty_screen("top", "--data", str(cluster.data), columns=120, lines=40) as screen:
        screen.sees("CrashLoopBackOff")
        screen.types("/well\r")
        screen.sees("well runs for")
        screen.types("\x1b/bad-\r")
        screen.sees("last words: `bad`")
        screen.types("\r")
        screen.sees("What to try:")
        screen.types("l")
        screen.sees(": log of app")
        screen.types("q\x1b/well\r")
        screen.sees("well runs for")
        screen.types("s")
        screen.sees("root@well")
        screen.types("echo is-$((40 + 2)); stty size\r")
        screen.sees("is-42")
        screen.sees("40 120")
        screen.types("exit\r")
        screen.sees("is-42", gone=True)
        screen.sees("well runs for")
        screen.types("q")
        assert screen.leaves() == 0
    there = command("top", "--kubeconfig", str(cluster.kubeconfig), "--sort", "status")
    here = command("top", "--data", str(cluster.data), "-o", "json")
    listed = [line.split()[1] for line in there.splitlines()[1:]]
    assert set(listed) == {each["name"] for each in json.loads(here)["items"][0]["pods"]}
    assert listed.index("well") > listed.index("crash"), "who is not well comes first"


def test_who_may_not_use_the_node_s_proxy_is_told_the_status_alone(cluster: UpCluster) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "looker", "namespace": "default"}}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    whom = [{"kind": "ServiceAccount", "name": "looker", "namespace": "default"}]
    what = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "looker"}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "looker"}}
    cluster.apply(
        account,
        {**role, "kind": "Role", "rules": rules},
        {**role, "kind": "RoleBinding", "subjects": whom, "roleRef": what},
    )
    token = cluster.kubectl("create", "token", "looker").strip()
    config = json.loads(cluster.kubeconfig.read_bytes())
    config["users"] = [{"name": config["contexts"][0]["context"]["user"], "user": {"token": token}}]
    own = cluster.folder / "looker"
    own.write_text(json.dumps(config))
    told = json.loads(command("explain", "crash", "-o", "json", "--kubeconfig", str(own)))
    assert told["cause"]["code"] == "Crashed"
    assert told["lastWords"] == {}
    assert "told from its status alone" in told["note"]


def test_a_report_has_what_helps_and_no_secret(cluster: UpCluster) -> None:
    value, registry, plain = "h1dden-in-a-secret", "registry-passw0rd", "plain-value-of-a-variable"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}, "stringData": {"password": value}}
    auths = json.dumps({"auths": {"127.0.0.1:1": {"username": "me", "password": registry}}})
    pull = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pull"},
        "stringData": {".dockerconfigjson": auths},
    }
    env = [
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "password"}}},
        {"name": "PLAIN", "value": plain},
    ]
    words = ("sh", "-c", f"echo {value}; echo my $PASSWORD >&2; exit 3")
    user = pod("user-of-secret", *words, container={"env": env}, imagePullSecrets=[{"name": "pull"}])
    cluster.apply(secret, {**pull, "type": "kubernetes.io/dockerconfigjson"}, user)
    wait_for(lambda: (explain(cluster, "user-of-secret").get("cause") or {}).get("code") == "Crashed", seconds=20)
    assert value in explain(cluster, "user-of-secret")["sentence"], "the person at the machine sees it"
    file = cluster.folder / "report.tar.gz"
    assert "user-of-secret" in command("report", str(file), "--data", str(cluster.data))
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        members = {each.name: archive.extractfile(each) for each in archive.getmembers()}
        content = {name: part.read().decode() for name, part in members.items() if part is not None}
    assert next(iter(content)) == "pykubelet-report/SUMMARY.txt"
    assert " with code 3" in content["pykubelet-report/SUMMARY.txt"]
    assert "user-of-secret" in content["pykubelet-report/journal/00000001.jsonl"]
    assert '"nodeStatusUpdateFrequency"' in content["pykubelet-report/configuration.json"]
    assert "kubelet" in "".join(name for name in content if "/logs/" in name)
    everything = "\n".join(content.values())
    config = json.loads(cluster.kubeconfig.read_bytes())
    keys = [value for user in config["users"] for value in user["user"].values() if isinstance(value, str)]
    tokens = [path.read_text().strip() for path in cluster.data.rglob("token") if path.is_file()]
    for each in (value, registry, plain, *keys, *tokens):
        assert each not in everything
        assert base64.b64encode(each.encode()).decode().rstrip("=") not in everything
    assert "PRIVATE KEY" not in everything


def test_a_pod_that_is_gone_and_an_agent_that_was_killed_leave_their_stories(cluster: UpCluster) -> None:
    cluster.kubectl("delete", "pod", "crash", "--now")
    wait_for(lambda: explain(cluster, "crash")["state"] == "Gone", seconds=20)
    assert explain(cluster, "crash")["cause"]["code"] == "Crashed"
    journal = cluster.data / "state" / "journal"
    wait_for(
        lambda: any(isinstance(each.moment, PodDeleted) for each in read_journal(journal, name="crash")), seconds=10
    )
    for lock in ("up.lock", "state/agent.lock"):
        os.kill(int((cluster.data / lock).read_text()), signal.SIGKILL)
    apiserver_goes(cluster.data)
    told = explain(cluster, "init")
    assert told["cause"]["code"] == "Crashed"
    assert told["sentence"].endswith("nothing is started or tried until the node's agent runs again.")
    assert explain(cluster, "crash")["state"] == "Gone"
    told = static(cluster)
    assert {name: each["cause"]["code"] for name, each in told.items()} == {"fine": "AgentDown", "bad": "Crashed"}


def test_what_was_stopped_with_the_node_has_not_failed() -> None:
    with cluster_up(manifests=_STATIC) as cluster:
        cluster.apply(pod("well"))
        cluster.ready("well")
        cluster.down()
        told = static(cluster)
        assert {name: each["cause"]["code"] for name, each in told.items()} == {"fine": "AgentDown", "bad": "Crashed"}
        assert told["fine"]["state"] == "Stopped"
        assert told["fine"]["sentence"].startswith(f"fine-{cluster.node} was stopped, and is on a node whose agent ")
        assert explain(cluster, "well")["state"] == "Stopped"


def static(cluster: UpCluster) -> dict[str, Any]:
    """Those of the static pods that are not well: each once."""
    end = f"-{cluster.node}"
    found = [each for each in explain(cluster)["items"] if each["name"].endswith(end)]
    told = {each["name"].removesuffix(end): each for each in found}
    assert len(told) == len(found)
    return told


def apiserver_goes(data: Path) -> None:
    """Whoever the supervisor has started ends with it."""
    wait_for(lambda: not subprocess.run(["pgrep", "-f", f"apiserver.*{data}"], capture_output=True).stdout, seconds=20)
