"""Services as a way in: to what is the machine's own, to what another service has, through the node's name server."""

import json
import random
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dns.exception
import dns.message
import dns.query
import pytest

from kit.netns import ADDRESS, own_network
from kit.up_cluster import UpCluster, cluster_up, pod
from kit.waiting import wait_for

pytestmark = pytest.mark.timeout(120)

DNS = "10.96.0.10"
API = "10.96.0.1"
EVIL = """
import socket, sys
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
while True:
    connection, _ = server.accept()
    connection.sendall(b"evil")
    connection.close()
"""


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    """The network of another machine, which sends whatever is a service's to this one."""
    with own_network() as name:
        subprocess.run(["ip", "-n", name, "route", "add", "10.96.0.0/16", "via", ADDRESS], check=True)
        yield name


@pytest.fixture(scope="module")
def cluster(other: str) -> Iterator[UpCluster]:
    with cluster_up("--services") as running:
        evil = pod("evil", labels={"app": "evil"})
        evil["spec"]["containers"][0]["command"] = ["python3", "-c", EVIL, "6666"]
        running.apply(evil)
        running.ready("evil")
        yield running


def service(name: str, port: int, **spec: Any) -> dict[str, Any]:
    whole = {"selector": {"app": "evil"}, "ports": [{"name": "p", "port": port, "targetPort": 6666}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": whole}


def rules() -> str:
    return subprocess.run(["nft", "list", "ruleset"], check=True, capture_output=True, text=True).stdout


def in_force(cluster: UpCluster, name: str) -> str:
    """Wait until a service is; what was claimed before it would be, too. -> its address"""
    ip: str = cluster.json("get", "service", name)["spec"]["clusterIP"]
    wait_for(lambda: f"{ip} . tcp" in rules(), otherwise=rules)
    return ip


def greeting(host: str, port: int) -> bytes:
    with socket.create_connection((host, port), timeout=5) as connection:
        connection.settimeout(2)
        try:
            return connection.recv(10)
        except TimeoutError:
            return b""


def resolved(server: str = DNS) -> str:
    query = dns.message.make_query("kubernetes.default.svc.cluster.local.", "A")
    return dns.query.udp(query, server, timeout=3).answer[0].to_text().split()[-1]


def test_a_service_gets_no_address_that_is_another_ones_by_asking(cluster: UpCluster) -> None:
    api_port = json.loads((cluster.data / ".pykubelet").read_bytes())["api_port"]
    wanted = [ADDRESS, API, DNS]
    cluster.apply(*(service(f"claim-{port}", port, externalIPs=wanted) for port in (443, 53, 10250, api_port)))
    cluster.apply(service("honest", 80, externalIPs=["203.0.113.9"]))
    ip = in_force(cluster, "honest")
    assert greeting(ip, 80) == greeting("203.0.113.9", 80) == b"evil", "that much is its right"
    for host, port in ((API, 443), (ADDRESS, 10250), ("127.0.0.1", api_port)):
        assert greeting(host, port) != b"evil"
    context = ssl.create_default_context(cadata=authority(cluster))
    with (
        socket.create_connection((API, 443), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=API) as secure,
    ):
        assert secure.version()
    assert resolved() == API
    for claimed in ("127.0.0.1", "0.0.0.0", "169.254.169.254", "224.0.0.1", "10.0.0.1; flush ruleset"):
        assert "externalIPs" in cluster.apply(service("bad", 80, externalIPs=[claimed]), code=1)
    for port in (22, 10250, 6443):
        open_ = service("bad", 80, type="NodePort")
        open_["spec"]["ports"][0]["nodePort"] = port
        assert "nodePort" in cluster.apply(open_, code=1)


def authority(cluster: UpCluster) -> str:
    return (cluster.data / "apiserver" / "pki" / "ca.crt").read_text()


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "0.0.0.0"])
def test_endpoints_that_people_write_lead_to_no_machine_of_their_own(cluster: UpCluster, address: str) -> None:
    name = f"led-{address.replace('.', '-')}"
    mine = service(name, 80)
    del mine["spec"]["selector"]
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "endpoints": [{"addresses": [address]}], "ports": [{"name": "p", "port": 6666, "protocol": "TCP"}],
    }  # fmt: skip
    cluster.apply(mine)
    told = subprocess.run(
        ["kubectl", "apply", "-f", "-"],
        input=json.dumps(slice_),
        capture_output=True,
        text=True,
        env=cluster.environment(),
        check=False,
    )
    cluster.apply(service(f"after-{name}", 80))
    in_force(cluster, f"after-{name}")
    ip = cluster.json("get", "service", name)["spec"]["clusterIP"]
    with pytest.raises(ConnectionRefusedError):
        greeting(ip, 80)
    assert f"dnat to {address}" not in rules().replace("dnat to 127.0.0.1:6443", ""), told


def test_the_name_server_answers_no_other_machine(cluster: UpCluster, other: str) -> None:
    """Not even one that leads its packets here: it would answer whoever is written on them."""
    assert resolved() == API
    script = f"""
import dns.message, dns.query, sys
query = dns.message.make_query("kubernetes.default.svc.cluster.local.", "A")
for ask, port in ((dns.query.udp, 53), (dns.query.tcp, 53)):
    try:
        print(ask(query, "{DNS}", timeout=1, port=port))
    except Exception as error:
        print(type(error).__name__)
"""
    said = subprocess.run(
        ["ip", "netns", "exec", other, sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.split()[0] == "Timeout", said.stdout
    assert said.stdout.split()[1] in ("EOFError", "ConnectionResetError", "Timeout"), said.stdout


def test_garbage_and_floods_leave_the_name_server_answering(cluster: UpCluster) -> None:
    chance = random.Random(7)
    good = dns.message.make_query("kubernetes.default.svc.cluster.local.", "A").to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(3000):
            packet = bytearray(good) if number % 2 else bytearray(chance.randbytes(chance.randrange(600)))
            for _ in range(chance.randrange(4)):
                if packet:
                    packet[chance.randrange(len(packet))] = chance.randrange(256)
            sender.sendto(bytes(packet), (DNS, 53))
        for number in range(1000):
            sender.sendto(dns.message.make_query(f"x{number}.example.", "A").to_wire(), (DNS, 53))
        connections = [socket.create_connection((DNS, 53), timeout=5) for _ in range(200)]
    assert resolved() == API
    for each in connections:
        each.close()
    assert "Traceback" not in (cluster.data / "agent.log").read_text()


def test_answers_are_not_much_longer_than_questions(cluster: UpCluster) -> None:
    for kind in ("ANY", "AXFR", "TXT", "A", "SOA", "NS"):
        query = dns.message.make_query("cluster.local.", kind)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.settimeout(5)
            sender.sendto(query.to_wire(), (DNS, 53))
            assert len(sender.recv(65535)) <= 512
