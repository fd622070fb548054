"""kubectl and what goes on inside of pods: logs, sessions, copies, ports, files and variables; crashes and ends.

The containers are processes of this machine, as they are where there is no container runtime.
"""

import base64
import json
import os
import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kit.kubectl import SPDY, WEB_SOCKET
from kit.ports import free_port
from kit.up_cluster import IMAGE, UpCluster, cluster_up, pod, watch_writers
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with cluster_up() as running:
        running.apply(pod("shell"))
        running.ready("shell")
        yield running


# --- logs


def test_logs_in_every_form(cluster: UpCluster) -> None:
    script = "for i in 1 2 3; do echo line $i; done; exec sleep 1000"
    talker = pod("talker", script)
    second = {"name": "second", "image": IMAGE, "command": ["sh", "-c", "echo from second; exec sleep 1000"]}
    first = {"name": "first", "image": IMAGE, "command": ["echo", "from init"]}
    talker["spec"] |= {"containers": [*talker["spec"]["containers"], second], "initContainers": [first]}
    cluster.apply(talker)
    cluster.ready("talker")
    logs = ("logs", "talker")
    assert cluster.kubectl(*logs, "-c", "c") == "line 1\nline 2\nline 3\n"
    assert 'Defaulted container "c" out of: c, second, first (init)' in cluster.kubectl(*logs)
    assert cluster.kubectl(*logs, "-c", "c", "--tail=1") == "line 3\n"
    assert cluster.kubectl(*logs, "-c", "c", "--limit-bytes=6") == "line 1"
    assert cluster.kubectl(*logs, "-c", "first") == "from init\n"
    everything = cluster.kubectl(*logs, "--all-containers", "--prefix")
    assert "[pod/talker/second] from second\n" in everything
    assert "[pod/talker/first] from init\n" in everything
    stamped = cluster.kubectl(*logs, "-c", "c", "--timestamps").splitlines()[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z line 1", stamped)
    assert cluster.kubectl(*logs, "-c", "c", "--since=1h").count("line") == 3
    assert cluster.kubectl(*logs, "-c", "c", "--since-time=2999-01-01T00:00:00Z") == ""
    assert cluster.kubectl("logs", "-l", "app=talker", "-c", "second") == "from second\n"
    assert "container absent is not valid for pod talker" in cluster.kubectl(*logs, "-c", "absent", code=1)


def test_logs_are_followed_to_the_end(cluster: UpCluster) -> None:
    script = "echo before; while [ ! -e /tmp/gate ]; do sleep 0.05; done; echo after"
    cluster.apply(pod("followed", script, restartPolicy="Never"))
    cluster.ready("followed")
    with cluster.started("logs", "-f", "followed") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "before\n"
        cluster.kubectl("exec", "followed", "--", "touch", "/tmp/gate")
        assert following.stdout.read() == "after\n"
        assert following.wait() == 0
    cluster.phase("followed", "Succeeded")


def test_a_pod_that_crashes_is_restarted_and_its_last_words_are_kept(cluster: UpCluster) -> None:
    cluster.apply(pod("crashing", "echo my last words; exit 7"))
    wait_for(lambda: "CrashLoopBackOff" in cluster.kubectl("get", "pod", "crashing"))
    status = cluster.json("get", "pod", "crashing")["status"]["containerStatuses"][0]
    assert status["lastState"]["terminated"]["exitCode"] == 7
    assert cluster.kubectl("logs", "crashing", "--previous") == "my last words\n"
    wait_for(lambda: "Back-off restarting failed container" in cluster.kubectl("describe", "pod", "crashing"))
    cluster.kubectl("delete", "pod", "crashing", "--now")
    refused = cluster.kubectl("logs", "shell", "--previous", code=1)
    assert 'previous terminated container "c" in pod "shell" not found' in refused


def test_the_log_of_a_container_that_waits_says_what_it_waits_for(cluster: UpCluster) -> None:
    cluster.apply(pod("waiting", container={"command": ["no-such-program"]}))
    wait_for(lambda: "no-such-program" in json.dumps(cluster.json("get", "pod", "waiting")["status"]))
    held = pod("held", initContainers=[{"name": "i", "image": IMAGE, "command": ["sleep", "1000"]}])
    cluster.apply(held)
    wait_for(lambda: "Init:0/1" in cluster.kubectl("get", "pod", "held"))
    refused = cluster.kubectl("logs", "held", "-c", "c", code=1)
    assert 'container "c" in pod "held" is waiting to start: PodInitializing' in refused
    cluster.kubectl("delete", "pod", "waiting", "held", "--now")


def test_init_containers_run_one_after_the_other_before_the_rest(cluster: UpCluster) -> None:
    mounts = {"volumeMounts": [{"name": "notes", "mountPath": "/tmp/notes"}]}
    commands = [["sh", "-c", f"echo {i} >> /tmp/notes/all"] for i in (1, 2)]
    steps = [{"name": f"step{i}", "image": IMAGE, "command": line, **mounts} for i, line in enumerate(commands)]
    spec = {"restartPolicy": "Never", "initContainers": steps, "volumes": [{"name": "notes", "emptyDir": {}}]}
    cluster.apply(pod("staged", "cat /tmp/notes/all", container=mounts, **spec))
    cluster.phase("staged", "Succeeded")
    assert cluster.kubectl("logs", "staged", "-c", "c") == "1\n2\n"
    assert "Completed" in cluster.kubectl("get", "pod", "staged")
    failing = [{"name": "fails", "image": IMAGE, "command": ["sh", "-c", "exit 1"]}]
    cluster.apply(pod("unstaged", restartPolicy="Never", initContainers=failing))
    cluster.phase("unstaged", "Failed")
    assert "Init:Error" in cluster.kubectl("get", "pod", "unstaged")


# --- sessions


def test_exec_passes_input_output_and_the_code(cluster: UpCluster) -> None:
    assert cluster.kubectl("exec", "shell", "--", "echo", "hello", "you") == "hello you\n"
    assert cluster.kubectl("exec", "-i", "shell", "--", "cat", stdin="typed\n") == "typed\n"
    shown = cluster.kubectl("exec", "shell", "--", "sh", "-c", "echo bad >&2; exit 42", code=42)
    assert shown == "bad\ncommand terminated with exit code 42\n"
    assert "no-such-program" in cluster.kubectl("exec", "shell", "--", "no-such-program", code=1)
    assert "container absent is not valid" in cluster.kubectl("exec", "shell", "-c", "absent", "--", "true", code=1)
    assert cluster.kubectl("exec", "-i", "shell", "--", "cat", stdin="typed\n", env=SPDY) == "typed\n"
    cluster.kubectl("exec", "shell", "--", "sh", "-c", "exit 42", env=SPDY, code=42)
    big = cluster.kubectl("exec", "shell", "--", "sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x")
    assert len(big) == 300000


def test_calls_that_no_pod_needs_are_refused_unless_a_pod_says_otherwise(cluster: UpCluster) -> None:
    attempt = ("unshare", "--user", "--map-root-user", "true")
    assert "Operation not permitted" in cluster.kubectl("exec", "shell", "--", *attempt, code=1)
    free = pod("unfiltered")
    free["spec"]["securityContext"] = {"seccompProfile": {"type": "Unconfined"}}
    cluster.apply(free)
    cluster.ready("unfiltered")
    cluster.kubectl("exec", "unfiltered", "--", *attempt)


def test_what_does_not_run_cannot_be_entered_and_says_why(cluster: UpCluster) -> None:
    cluster.kubectl("run", "bare", "--image=nginx")
    cluster.apply(pod("over", "exit 3", restartPolicy="Never"))
    cluster.phase("over", "Failed")
    reason = ".status.containerStatuses[0].state.waiting.reason"
    wait_for(lambda: "Create" in cluster.kubectl("get", "pod", "bare", "-o", f"jsonpath={{{reason}}}"))
    for env in (WEB_SOCKET, SPDY):
        told = cluster.kubectl("exec", "bare", "--", "id", env=env, code=1)
        assert 'unable to upgrade connection: container not found ("bare"), it is waiting to start (Create' in told
        told = cluster.kubectl("exec", "over", "--", "id", env=env, code=1)
        assert "cannot exec into a container in a completed pod" in told  # by kubectl itself
    told = cluster.kubectl("logs", "bare", code=1)
    assert 'Error from server (BadRequest): container "bare" in pod "bare" is waiting to start: Create' in told
    cluster.kubectl("delete", "pod", "bare", "over", "--now")


def test_exec_with_a_terminal(cluster: UpCluster) -> None:
    with cluster.at_terminal("exec", "-it", "shell", "--", "sh") as person:
        person.types("stty size; test -t 0 && echo is-$((40 + 2))\n")
        person.sees("40 100")
        person.sees("is-42")
        person.types("exit 3\n")
        assert person.leaves() == 3


def test_attach_to_what_runs(cluster: UpCluster) -> None:
    reader = {"stdin": True, "stdinOnce": True}
    cluster.apply(pod("reader", "while read line; do echo got $line; done", container=reader, restartPolicy="Never"))
    cluster.ready("reader")
    assert "got this" in cluster.kubectl("attach", "-i", "reader", stdin="this\n")
    cluster.phase("reader", "Succeeded")


def test_run_starts_a_pod_and_can_wait_for_its_end(cluster: UpCluster) -> None:
    assert cluster.kubectl("run", "plain", f"--image={IMAGE}", "--command", "--", "sleep", "1000") == (
        "pod/plain created\n"
    )
    cluster.ready("plain")
    once = ("run", "once", f"--image={IMAGE}", "--rm", "-i", "--restart=Never", "--quiet", "--command", "--")
    assert "hello 1" in cluster.kubectl(*once, "sh", "-c", "read x; echo hello $x", stdin="1\n")
    assert "not found" in cluster.kubectl("get", "pod", "once", code=1)
    failing = ("run", "failing", f"--image={IMAGE}", "--rm", "-i", "--restart=Never", "--command", "--")
    cluster.kubectl(*failing, "sh", "-c", "exit 5", stdin="", code=5)
    cluster.kubectl("delete", "pod", "plain", "--now")


def test_run_with_a_terminal_leaves_nothing(cluster: UpCluster) -> None:
    run = ("run", "typed", f"--image={IMAGE}", "--rm", "-it", "--restart=Never", "--command", "--", "sh")
    with cluster.at_terminal(*run) as person:
        person.sees("press")  # "If you don't see a command prompt, try pressing enter."
        person.types("echo is-$((40 + 2))\n")
        person.sees("is-42")
        person.types("exit\n")
        assert person.leaves() == 0
        person.sees('pod "typed" deleted')


def test_files_are_copied_both_ways(cluster: UpCluster, tmp_path: Path) -> None:
    back, folder = tmp_path / "back", tmp_path / "folder"
    folder.mkdir()
    data = bytes(range(256)) * 4000
    (folder / "data").write_bytes(data)
    (folder / "empty").touch()
    cluster.kubectl("cp", str(folder), "shell:/tmp/there")
    assert cluster.kubectl("exec", "shell", "--", "ls", "/tmp/there") == "data\nempty\n"
    cluster.kubectl("cp", "shell:/tmp/there", str(back))
    assert (back / "data").read_bytes() == data
    assert (back / "empty").exists()
    cluster.try_kubectl("cp", "shell:/no/such/file", str(tmp_path / "none"))  # what it says is for itself to know
    assert not (tmp_path / "none").exists()


def test_ports_are_forwarded(cluster: UpCluster) -> None:
    port = free_port()
    serve = f"exec python3 -m http.server {port} --bind 127.0.0.1 --directory /tmp/www"
    serve = f"mkdir /tmp/www; printf 'a page' > /tmp/www/index.html; {serve}"
    # kubectl gives up at the first connection that is refused, so the server has to be there.
    listens = {"tcpSocket": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1}
    cluster.apply(pod("pages", serve, container={"readinessProbe": listens}))
    cluster.ready("pages")
    with cluster.started("port-forward", "pod/pages", f":{port}") as forwarding:
        assert forwarding.stdout is not None
        ours = int(forwarding.stdout.readline().split("->")[0].rpartition(":")[2])
        wait_for(lambda: page(ours) == "a page")
        for _ in range(5):
            assert page(ours) == "a page"
    cluster.kubectl("delete", "pod", "pages", "--now")


def test_the_proxy_reaches_what_a_pod_declares_and_not_what_else_is_on_the_machine(cluster: UpCluster) -> None:
    """A pod in the machine's own network has the address of the API server and of the node's agent."""
    port = free_port()
    serve = f"mkdir /tmp/www; printf 'a page' > /tmp/www/index.html; exec python3 -m http.server {port} -d /tmp/www"
    cluster.apply(pod("shown", serve, container={"ports": [{"containerPort": port}]}))
    cluster.ready("shown")

    def proxied(port: int, scheme: str = "http") -> str:
        return cluster.try_kubectl("get", "--raw", f"/api/v1/namespaces/default/pods/{scheme}:shown:{port}/proxy/")

    wait_for(lambda: proxied(port) == "a page", otherwise=lambda: proxied(port))
    plan = json.loads((cluster.data / ".pykubelet").read_bytes())
    assert "the API server itself" in proxied(plan["api_port"], "https")
    assert "a kubelet" in proxied(plan["kubelet_port"], "https")
    assert "does not declare" in proxied(free_port())
    cluster.kubectl("delete", "pod", "shown", "--now")


def page(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_debug_puts_a_container_beside_the_others(cluster: UpCluster) -> None:
    debug = ("debug", "shell", f"--image={IMAGE}", "--container=look", "--attach=false", "--profile=general")
    cluster.kubectl(*debug, "--target=c", "--", "sh", "-c", "cat /proc/1/comm; echo looking; exec sleep 1000")

    def runs() -> bool:
        found = cluster.json("get", "pod", "shell")["status"].get("ephemeralContainerStatuses") or [{}]
        return "running" in found[0].get("state", {})

    wait_for(runs)
    first = cluster.kubectl("exec", "shell", "-c", "c", "--", "cat", "/proc/1/comm")
    assert cluster.kubectl("logs", "shell", "-c", "look") == f"{first}looking\n"
    assert cluster.kubectl("exec", "shell", "-c", "look", "--", "echo", "inside") == "inside\n"
    with cluster.at_terminal(*debug[:3], "--profile=general", "-it", "--", "sh") as person:
        person.types("echo is-$((40 + 2))\n")
        person.sees("is-42")
        person.types("exit\n")
        person.leaves()
    assert cluster.json("get", "pod", "shell")["status"]["containerStatuses"][0]["restartCount"] == 0


# --- configuration


def test_config_maps_and_secrets_reach_the_pod(cluster: UpCluster, tmp_path: Path) -> None:
    cluster.kubectl("create", "configmap", "settings", "--from-literal=COLOUR=blue", "--from-literal=size=9")
    cluster.kubectl("create", "secret", "generic", "keys", "--from-literal=password=sesame")
    env = [
        {"name": "SIZE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "size"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "password"}}},
        {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    mounts = [{"name": each, "mountPath": str(tmp_path / each)} for each in ("settings", "keys", "both")]
    both = [{"configMap": {"name": "settings"}}, {"secret": {"name": "keys"}}]
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "both", "projected": {"sources": both}},
    ]
    from_ = [{"configMapRef": {"name": "settings"}}]
    container = {"env": env, "envFrom": from_, "volumeMounts": mounts}
    cluster.apply(pod("configured", container=container, volumes=volumes))
    cluster.ready("configured")
    script = (
        f"echo $COLOUR $SIZE $PASSWORD $ME; cat {tmp_path}/settings/COLOUR {tmp_path}/keys/password; ls {tmp_path}/both"
    )
    shown = cluster.kubectl("exec", "configured", "--", "sh", "-c", script)
    assert shown == "blue 9 sesame configured\nbluesesameCOLOUR\npassword\nsize\n"


def test_a_changed_config_map_is_in_the_files_at_once_and_never_in_parts(cluster: UpCluster, tmp_path: Path) -> None:
    def settings(version: int) -> dict[str, Any]:
        data = {f"key-{number}": f"{version}\n" * 1000 for number in range(20)}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "changing"}, "data": data}

    cluster.apply(settings(0))
    mounts = [{"name": "v", "mountPath": str(tmp_path / "v")}]
    container, volumes = {"volumeMounts": mounts}, [{"name": "v", "configMap": {"name": "changing"}}]
    cluster.apply(pod("follower", container=container, volumes=volumes))
    cluster.ready("follower")
    uid = cluster.json("get", "pod", "follower")["metadata"]["uid"]
    with read_again_and_again(cluster.data / "state/pods" / uid / "volumes/kubernetes.io~configmap/v") as seen:
        for version in range(1, 6):
            cluster.apply(settings(version))
            wait_for(partial(seen.__contains__, {str(version)}), seconds=2)
    assert {len(each) for each in seen} == {1}
    shown = cluster.kubectl("exec", "follower", "--", "head", "-n1", f"{tmp_path}/v/key-0", f"{tmp_path}/v/key-19")
    assert shown.split().count("5") == 2
    cluster.kubectl("delete", "pod", "follower", "--now")


@contextmanager
def read_again_and_again(volume: Path) -> Iterator[list[set[str]]]:
    """All that was found in the files of a volume each time that somebody looked."""
    seen: list[set[str]] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            current = os.readlink(volume / "..data")
            with suppress(FileNotFoundError):  # it has been replaced meanwhile
                texts = [path.read_text() for path in (volume / current).iterdir()]
                if os.readlink(volume / "..data") == current:
                    seen.append({word for text in texts for word in text.split()} if len(texts) == 20 else set())

    reader = threading.Thread(target=look)
    reader.start()
    try:
        yield seen
    finally:
        is_over.set()
        reader.join()


def test_a_pod_waits_for_a_config_map_that_is_not_there_yet(cluster: UpCluster) -> None:
    container = {"envFrom": [{"configMapRef": {"name": "late"}}]}
    cluster.apply(pod("patient", "echo $WORD; exec sleep 1000", container=container))
    wait_for(lambda: "CreateContainerConfigError" in cluster.kubectl("get", "pod", "patient"))
    assert 'configmap "late" not found' in cluster.kubectl("describe", "pod", "patient")
    cluster.kubectl("create", "configmap", "late", "--from-literal=WORD=arrived")
    cluster.ready("patient", seconds=2)
    assert cluster.kubectl("logs", "patient") == "arrived\n"


def test_a_pod_may_speak_to_the_api_as_its_service_account(cluster: UpCluster) -> None:
    cluster.apply(pod("speaker"))
    cluster.ready("speaker")
    where = "/var/run/secrets/kubernetes.io/serviceaccount"
    token = cluster.kubectl("exec", "speaker", "--", "cat", f"{where}/token")
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == "system:serviceaccount:default:default"
    assert claims["kubernetes.io"]["pod"]["name"] == "speaker"
    assert cluster.kubectl("exec", "speaker", "--", "cat", f"{where}/namespace") == "default"
    assert "BEGIN CERTIFICATE" in cluster.kubectl("exec", "speaker", "--", "cat", f"{where}/ca.crt")


def test_a_pod_that_wants_to_be_spread_over_zones_waits_for_one(cluster: UpCluster) -> None:
    rule = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    rule |= {"labelSelector": {"matchLabels": {"app": "spread"}}}
    cluster.apply(pod("spread", topologySpreadConstraints=[rule]))
    words = "1 node(s) didn't match pod topology spread constraints (missing required label)"
    wait_for(lambda: f"0/1 nodes are available: {words}." in cluster.kubectl("describe", "pod", "spread"))
    assert "Pending" in cluster.kubectl("get", "pod", "spread")
    cluster.kubectl("label", "node", "--all", "zone=here")
    cluster.ready("spread")
    cluster.kubectl("delete", "pod", "spread", "--now")


def test_pods_that_write_more_than_they_may_are_evicted(cluster: UpCluster) -> None:
    watch_writers(cluster, "/var")
