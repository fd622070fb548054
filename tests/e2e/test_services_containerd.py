"""Services where pods have networks of their own: a private containerd with a bridge, in a network of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.containerd import containerd_for_tests
from kit.netns import ADDRESS, nft_tables, own_network
from kit.up_cluster import UpCluster, cluster_up, pod
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(180)

IN_CLUSTER = """
from kubernetes import client, config
config.load_incluster_config()
print(client.VersionApi().get_code().git_version, client.Configuration.get_default_copy().host)
"""


FETCH = """
import sys, urllib.request
for _ in range(12):
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=3).read().decode().strip())
    except OSError as error:
        print(error)
"""


def with_python(made: dict[str, Any]) -> dict[str, Any]:
    """A pod with this machine's Python: the image has nothing that resolves names as programs do."""
    places = {"/usr": "/usr", "/lib": "/usr/lib", "/lib64": "/usr/lib64"}
    places |= {path: path for path in (sys.prefix, sys.base_prefix, "/etc/ssl")}
    made["spec"]["volumes"] = [{"name": f"v{n}", "hostPath": {"path": path}} for n, path in enumerate(places.values())]
    mounts = [{"name": f"v{n}", "mountPath": path, "readOnly": True} for n, path in enumerate(places)]
    made["spec"]["containers"][0]["volumeMounts"] = mounts
    return made


def web(name: str) -> dict[str, Any]:
    script = "mkdir /w; hostname >/w/index.html; exec httpd -f -p 8080 -h /w"
    ports = [{"name": "http", "containerPort": 8080}]
    return with_python(pod(name, script, labels={"app": "web"}, container={"ports": ports}))


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {
        "type": "NodePort",
        "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80, "targetPort": "http", "nodePort": 30080}],
    },
}


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    """The network of another machine."""
    with own_network() as name:
        yield name


@pytest.fixture(scope="module")
def cluster(other: str) -> Iterator[UpCluster]:
    with containerd_for_tests() as containerd:
        flags = ("--services", "--container-runtime-endpoint", containerd.endpoint)
        with cluster_up(*flags) as running:
            running.apply(web("web-1"), web("web-2"), with_python(pod("client")), SERVICE)
            running.ready("web-1", "web-2", "client")
            yield running
            running.down()
            assert not [each for each in nft_tables() if "pykubelet" in each]


def reached(cluster: UpCluster, pod_name: str, url: str) -> set[str]:
    """What is said there to a pod that asks again and again."""
    return set(cluster.try_kubectl("exec", pod_name, "--", sys.executable, "-c", FETCH, url).splitlines())


@pytest.mark.parametrize("filtered", [1, 0])
def test_pods_reach_services_each_other_and_themselves(cluster: UpCluster, filtered: int) -> None:
    """Whether or not the packet filter sees what pods on one bridge send to each other."""
    setting = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if not setting.exists() and filtered:
        pytest.skip("the packet filter of this kernel does not see bridges")
    if setting.exists():
        subprocess.run(["sh", "-c", f"echo {filtered} > {setting}"], check=True)
    cluster.kubectl("create", "service", "clusterip", f"news-{filtered}", "--tcp=80:80")
    both = {"web-1", "web-2"}
    for asking in ("client", "web-1"):
        wait_for(
            lambda asking=asking: reached(cluster, asking, "http://web") == both,  # type: ignore[misc]
            otherwise=lambda asking=asking: reached(cluster, asking, "http://web"),  # type: ignore[misc]
        )
    ip = cluster.json("get", "service", "web")["spec"]["clusterIP"]
    assert reached(cluster, "client", f"http://{ADDRESS}:30080") == both
    (refused,) = reached(cluster, "client", f"http://{ip}:81")
    assert "refused" in refused


def test_other_machines_and_the_host_reach_node_ports(cluster: UpCluster, other: str) -> None:
    ip = cluster.json("get", "service", "web")["spec"]["clusterIP"]
    for command in (
        ("curl", ip),
        ("curl", f"{ADDRESS}:30080"),
        ("ip", "netns", "exec", other, "curl", f"{ADDRESS}:30080"),
    ):
        said = subprocess.run([*command, "-sS", "-m", "5"], capture_output=True, text=True, check=False)
        assert said.stdout.strip() in ("web-1", "web-2"), f"{command}: {said.stderr}"


def test_names_resolve_from_the_first_moment_of_a_pod(cluster: UpCluster) -> None:
    script = "nslookup web.default.svc.cluster.local >/dev/null && echo found $(($(date +%s) - $START))"
    cluster.apply(pod("early", f"START=$(date +%s); {script}", restartPolicy="Never"))
    cluster.phase("early", "Succeeded")
    assert cluster.kubectl("logs", "early") in ("found 0\n", "found 1\n"), "no question was lost"


def test_programs_in_pods_find_the_api_server(cluster: UpCluster) -> None:
    made = with_python(pod("inside", restartPolicy="Never"))
    made["spec"]["containers"][0]["command"] = [sys.executable, "-c", IN_CLUSTER]
    cluster.apply(made)
    wait_for(
        lambda: cluster.json("get", "pod", "inside")["status"]["phase"] in ("Succeeded", "Failed"),
        otherwise=lambda: cluster.try_kubectl("describe", "pod", "inside"),
    )
    assert cluster.kubectl("logs", "inside") == "v1.34.11 https://10.96.0.1:443\n"


def test_what_serves_pods_serves_nobody_else(cluster: UpCluster, other: str) -> None:
    """The doors of the agent are at an address that other machines reach."""
    rules = subprocess.run(["nft", "-j", "list", "ruleset"], capture_output=True, check=True).stdout
    ports = {
        each["dnat"]["port"]
        for one in json.loads(rules)["nftables"]
        for each in one.get("rule", {}).get("expr", ())
        if "dnat" in each and each["dnat"]["addr"] == ADDRESS
    }
    assert len(ports) == 2, "the name server and the door of the API server"
    for port in ports:
        assert stays_open(port)
        assert not stays_open(port, "ip", "netns", "exec", other)


def stays_open(port: int, *there: str) -> bool:
    script = f"""
import socket
with socket.create_connection(("{ADDRESS}", {port}), 3) as connection:
    connection.settimeout(1)
    try:
        print(connection.recv(1) != b"")
    except TimeoutError:
        print(True)
    except ConnectionError:
        print(False)
"""
    done = subprocess.run([*there, "python3", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"
