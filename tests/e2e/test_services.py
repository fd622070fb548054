"""Services as people use them on one machine: by address, by port of the node, by name, from pods and from the host."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.agent_process import COMMAND
from kit.netns import ADDRESS, nft_tables, own_network
from kit.nobody import NOBODY, as_nobody
from kit.up_cluster import UpCluster, cluster_up, pod
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(120)

SERVE = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(f"{os.environ['HOSTNAME']} {self.client_address[0]} {self.path}".encode())
    def log_message(self, *args): pass
http.server.HTTPServer(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
"""
CLIENT = """
import socket, sys
for name in sys.argv[1:]:
    try:
        print(name, sorted({each[4][0] for each in socket.getaddrinfo(name, 80, socket.AF_INET)}))
    except OSError as error:
        print(name, error.args[0])
"""


def web(name: str, port: int, app: str = "web", **spec: Any) -> dict[str, Any]:
    made = pod(name, labels={"app": app}, **spec)
    made["spec"]["containers"][0] |= {
        "command": ["python3", "-c", SERVE, str(port)],
        "env": [{"name": "HOSTNAME", "value": name}],
        "ports": [{"name": "http", "containerPort": port}],
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
    }
    return made


def service(name: str = "web", **spec: Any) -> dict[str, Any]:
    port = {"name": "http", "port": 80, "targetPort": "http", **spec.pop("port", {})}
    whole = {"selector": {"app": name}, "ports": [port], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": whole}


@pytest.fixture(scope="module")
def cluster() -> Iterator[UpCluster]:
    with own_network(), cluster_up("--services") as running:
        running.apply(
            web("web-1", 8081), web("web-2", 8082), pod("client"), service(type="NodePort", port={"nodePort": 30080})
        )
        running.ready("web-1", "web-2", "client")
        yield running
        running.down()
        assert nft_tables() == [], "nothing is left in the packet filter"


def get(where: str) -> str:
    with urllib.request.urlopen(f"http://{where}", timeout=5) as answer:
        said: str = answer.read().decode()
        return said


def is_refused(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def address(cluster: UpCluster, name: str = "web") -> str:
    found: str = cluster.json("get", "service", name)["spec"]["clusterIP"]
    return found


def names(cluster: UpCluster, *asked: str) -> dict[str, str]:
    """What a pod makes of them."""
    said = cluster.kubectl("exec", "client", "--", "python3", "-c", CLIENT, *asked)
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in said.splitlines()}


def reached(where: str) -> set[str]:
    return {get(where).split()[0] for _ in range(20)}


def wait_for_both(cluster: UpCluster) -> None:
    wait_for(lambda: len(reached_or_none(address(cluster))) == 2, otherwise=lambda: cluster.kubectl("get", "endpoints"))


def reached_or_none(where: str) -> set[str]:
    try:
        return reached(where)
    except OSError:
        return set()


def test_from_the_host_and_from_a_pod_by_address_and_by_port_of_the_node(cluster: UpCluster) -> None:
    wait_for_both(cluster)
    for where in (address(cluster), f"{ADDRESS}:30080", "127.0.0.1:30080"):
        assert reached(where) == {"web-1", "web-2"}, where
    said = cluster.kubectl("exec", "client", "--", "curl", "-sS", "--max-time", "5", "http://web/from-a-pod")
    assert re.fullmatch(r"web-[12] \S+ /from-a-pod", said)
    assert is_refused(address(cluster), 81), "a port that the service does not have"
    told = cluster.kubectl("get", "service", "-n", "kube-system", "kube-dns")
    assert "10.96.0.10" in told


def test_names_resolve_in_pods(cluster: UpCluster) -> None:
    wait_for_both(cluster)
    ip = address(cluster)
    full = "web.default.svc.cluster.local"
    assert names(cluster, full, "web", "web.default", f"{full}.", "kubernetes.default.svc") == {
        **dict.fromkeys((full, "web", "web.default", f"{full}."), str([ip])),
        "kubernetes.default.svc": "['10.96.0.1']",
    }
    assert names(cluster, f"nope.{full}") == {f"nope.{full}": str(socket.EAI_NONAME)}
    resolv = cluster.kubectl("exec", "client", "--", "cat", "/etc/resolv.conf")
    assert resolv.startswith("search default.svc.cluster.local svc.cluster.local cluster.local")
    assert "nameserver 10.96.0.10\noptions ndots:5" in resolv
    cluster.apply(pod("outside", dnsPolicy="Default"))
    cluster.ready("outside")
    assert "10.96.0.10" not in cluster.kubectl("exec", "outside", "--", "cat", "/etc/resolv.conf")


def test_a_headless_service_gives_each_of_its_pods_a_name(cluster: UpCluster) -> None:
    cluster.apply(
        web("db-0", 8090, "db", hostname="db-0", subdomain="db"),
        service("db", clusterIP="None"),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "out"},
            "spec": {"type": "ExternalName", "externalName": "web.default.svc.cluster.local"},
        },
    )
    cluster.ready("db-0")
    wait_for(
        lambda: names(cluster, "db-0.db")["db-0.db"] == str([ADDRESS]), otherwise=lambda: str(names(cluster, "db-0.db"))
    )
    assert names(cluster, "db", "db-0.db.default.svc.cluster.local", "out") == {
        "db": str([ADDRESS]),
        "db-0.db.default.svc.cluster.local": str([ADDRESS]),
        "out": str([address(cluster)]),
    }


def test_without_endpoints_connections_are_refused_at_once(cluster: UpCluster) -> None:
    cluster.apply(web("short", 8099, "short"), service("short", type="NodePort", port={"nodePort": 30099}))
    cluster.ready("short")
    ip = address(cluster, "short")
    wait_for(lambda: bool(reached_or_none(ip)), otherwise=lambda: cluster.kubectl("get", "endpoints"))
    assert not is_refused(ADDRESS, 30099)
    cluster.kubectl("delete", "pod", "short", "--now")
    wait_for(lambda: is_refused(ip, 80), otherwise=lambda: cluster.kubectl("get", "endpointslices"))
    assert is_refused(ADDRESS, 30099)
    assert is_refused("127.0.0.1", 30099)
    cluster.kubectl("delete", "service", "short")


def test_a_client_stays_with_its_endpoint(cluster: UpCluster) -> None:
    sticky = service("sticky", selector={"app": "web"}, sessionAffinity="ClientIP")
    sticky["spec"]["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": 3600}}
    cluster.apply(sticky)
    ip = address(cluster, "sticky")
    wait_for(lambda: bool(reached_or_none(ip)), otherwise=lambda: cluster.kubectl("get", "endpoints"))
    first = reached(ip)
    assert len(first) == 1
    cluster.apply(service("noise", selector={"app": "web"}))  # the rules are made anew
    wait_for(lambda: bool(reached_or_none(address(cluster, "noise"))), otherwise=lambda: "no noise")
    assert reached(ip) == first


def test_services_and_pods_are_reached_through_the_api_server(cluster: UpCluster) -> None:
    wait_for_both(cluster)
    proxy = "/api/v1/namespaces/default"
    for port in ("http", "80"):
        assert re.match(r"web-[12] ", cluster.kubectl("get", "--raw", f"{proxy}/services/web:{port}/proxy/a?b=c"))
    assert cluster.kubectl("get", "--raw", f"{proxy}/services/http:web:http/proxy/a?b=c").endswith(" /a?b=c")
    for name in ("web-1", "web-1:8081", "http:web-1:http"):
        assert cluster.kubectl("get", "--raw", f"{proxy}/pods/{name}/proxy/").startswith("web-1 ")
    assert "no endpoints available" in cluster.kubectl(
        "get", "--raw", f"{proxy}/services/kubernetes:443/proxy/", code=1
    )
    with cluster.started("port-forward", "service/web", "18080:http") as forwarding:
        assert forwarding.stdout is not None
        assert "Forwarding from 127.0.0.1:18080" in forwarding.stdout.readline()
        assert re.match(r"web-[12] ", get("127.0.0.1:18080"))


def test_the_api_servers_address_answers(cluster: UpCluster) -> None:
    said = cluster.kubectl(
        "exec", "client", "--", "curl", "-sS", "--cacert", "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
        "https://kubernetes.default.svc/version",
    )  # fmt: skip
    assert json.loads(said)["major"] == "1"


def test_rules_that_somebody_clears_away_come_back_and_services_outlive_the_agent(cluster: UpCluster) -> None:
    wait_for_both(cluster)
    before = cluster.agent_pid()
    (table,) = nft_tables()
    subprocess.run(["kill", "-9", str(before)], check=True)
    assert reached(address(cluster)) == {"web-1", "web-2"}, "while nobody is there"
    wait_for(lambda: cluster.agent_pid() not in (0, before), otherwise=lambda: "no agent came back")
    subprocess.run(["nft", "delete", "table", *table.split()], check=True)
    cluster.apply(service("again", selector={"app": "web"}))
    wait_for(lambda: nft_tables() == [table], seconds=45, otherwise=lambda: str(nft_tables()))
    wait_for_both(cluster)


def test_a_second_cluster_stays_out_of_the_way(cluster: UpCluster) -> None:
    tables = nft_tables()
    with cluster_up("--services", "--port", "7443") as second:
        second.down()
        assert "another pykubelet does that here" in second.up()
        assert second.json("get", "services", "-A")["items"][1:] == [], "no name server is promised"
        assert nft_tables() == tables
    assert nft_tables() == tables


@pytest.mark.skipif(os.getuid() != 0, reason="it takes root to become somebody else")
def test_an_ordinary_user_is_told_and_forwards_ports() -> None:
    """Events, the name server that stays the machine's, and the way that is left."""
    folder = Path(tempfile.mkdtemp(prefix="pykubelet-nobody-", dir="/tmp"))
    os.chown(folder, NOBODY, NOBODY)
    theirs = UpCluster(folder)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*args: str) -> str:
        command = [*as_nobody(), *COMMAND, *args, "--data", str(theirs.data)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    try:
        told = run("up", "--container-runtime-endpoint", "process", "--services")
        assert "`kubectl port-forward service/NAME` does: only root may change the packet filter." in told
        theirs.apply(web("web-1", 18081), service())
        theirs.ready("web-1")
        wait_for(lambda: "ServiceNotProxied" in theirs.kubectl("describe", "service", "web"), seconds=20)
        assert "10.96.0.10" not in theirs.kubectl("exec", "web-1", "--", "cat", "/etc/resolv.conf")
        assert "kube-dns" not in theirs.kubectl("get", "services", "-A")
        with theirs.started("port-forward", "service/web", "18082:80") as forwarding:
            assert forwarding.stdout is not None
            assert "Forwarding from 127.0.0.1:18082" in forwarding.stdout.readline()
            assert get("127.0.0.1:18082").startswith("web-1 ")
    finally:
        run("reset")
        shutil.rmtree(folder)
