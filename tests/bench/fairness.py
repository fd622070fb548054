"""One client that sends as much as it can: how long others wait beside it, and how long they wait without it."""

import json
import select
import ssl
import statistics
import threading
import time
from typing import Any, Final

from bench.api import Client, Row, served, show
from kit.apiserver_process import ApiServerProcess, plain_pod, request

FLOOD: Final = 100
"""Connections of the greedy one."""
LISTED: Final = 1_000
ASKED: Final = 200
_PODS: Final = "/api/v1/namespaces/default/pods"
_RIGHTS: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def run() -> None:
    print(f"fairness: a client with {FLOOD} connections that never rest, and others beside it")
    print(f"\n{'step':<56} {'ours':>8} {'':<10} {'goal':>6} {'ratio':>6}")
    with served("--controllers=*,-kube-scheduler") as server:
        show(_rows(server))
    print()


def _rows(server: ApiServerProcess) -> list[Row]:
    tokens = {name: _token(server, name) for name in ("greedy", "modest")}
    for number in range(LISTED):
        _ask(server, request(b"POST", _PODS, json.dumps(plain_pod(f"web-{number}")).encode()))
    _ask(server, request(b"POST", _LEASES, json.dumps({"metadata": {"name": "l"}}).encode()))
    small = request(b"GET", f"{_PODS}/web-1")
    renewal = request(b"PATCH", f"{_LEASES}/l", b'{"metadata":{"labels":{"a":"%d"}}}', b"application/merge-patch+json")
    kinds = {
        "gets of another": (small, tokens["modest"]),
        "gets of the administrator": (small, ""),
        "a lease of his": (renewal, ""),
    }
    alone = {name: _waits(server, *asked) for name, asked in kinds.items()}
    rows = [Row(f"{name}, alone, p50", statistics.median(waits) * 1e3, "ms") for name, waits in alone.items()]
    for what, flood in (("gets", small), (f"lists of {LISTED:,} pods", request(b"GET", _PODS))):
        stop = threading.Event()
        greedy = threading.Thread(target=_flood, args=(server, _by(flood, tokens["greedy"]), stop))
        greedy.start()
        time.sleep(2.0)
        for name, asked in kinds.items():
            waits = sorted(_waits(server, *asked))
            rows.append(Row(f"{name}, beside a flood of {what}, p50", statistics.median(waits) * 1e3, "ms"))
            rows.append(Row("  p99", waits[int(len(waits) * 0.99)] * 1e3, "ms"))
        stop.set()
        greedy.join()
    return rows


def _waits(server: ApiServerProcess, what: bytes, token: str) -> list[float]:
    client, waits = Client(server.connected()), list[float]()
    for number in range(ASKED):
        client.send(_by(what.replace(b"%d", b"%02d" % (number % 100)), token))
        while not client.take():
            select.select([client.socket], [], [], 30)
        waits.append(time.perf_counter() - client.sent)
    client.socket.close()
    return waits


def _flood(server: ApiServerProcess, what: bytes, stop: threading.Event) -> None:
    context, poll = _nobody(server), select.epoll()
    clients = {each.socket.fileno(): each for each in (Client(server.connected(context)) for _ in range(FLOOD))}
    for number, client in clients.items():
        poll.register(number, select.EPOLLIN)
        client.send(what)
    while not stop.is_set():
        for number, _ in poll.poll(0.1):
            if clients[number].take(any_code=True):
                clients[number].send(what)
    for client in clients.values():
        client.socket.close()


def _nobody(server: ApiServerProcess) -> ssl.SSLContext:
    """Without a certificate, so that tokens count."""
    return ssl.create_default_context(cafile=str(server.data / "pki" / "ca.crt"))


def _by(what: bytes, token: str) -> bytes:
    return what.replace(b"\r\n", f"\r\nAuthorization: Bearer {token}\r\n".encode(), 1) if token else what


def _token(server: ApiServerProcess, name: str) -> str:
    """Of a new user who may do everything."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    _ask(server, request(b"POST", accounts, json.dumps({"metadata": {"name": name}}).encode()))
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    _ask(server, request(b"POST", _RIGHTS, json.dumps(binding).encode()))
    given = _ask(server, request(b"POST", f"{accounts}/{name}/token", b'{"spec":{}}'))
    return str(given["status"]["token"])


def _ask(server: ApiServerProcess, what: bytes) -> Any:
    with server.connected() as connection:
        connection.sendall(what.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        answer = b"".join(iter(lambda: connection.recv(1 << 20), b""))
    if b" 20" not in answer[:13]:
        raise RuntimeError(f"a request failed: {answer[:500]!r}")
    return json.loads(answer.partition(b"\r\n\r\n")[2])
