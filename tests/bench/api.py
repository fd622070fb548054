"""The embedded API server as people run it: its own process, TLS, SQLite. What it does in a second, and what it takes.

The clients are one lean loop in this process, on connections that stay, with bodies made before: on two cores they take
about half of one. The server's share of a core is its own, as the kernel counts it.
"""

import json
import select
import shutil
import ssl
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from kit.agent_process import command
from kit.apiserver_process import ApiServerProcess, plain_pod, request, rss_of
from kit.waiting import wait_for

CREATES = 6_000
PATCHES = 3_000
LISTED = 5_000
CONNECTIONS = 32
WATCHERS = 1_000
CHANGES = 100
CHANGES_PER_SECOND = 10
BEGINNERS = 200
SEEN = 2_000
PODS = 1_000
RUNNING = 50
_PODS: Final = "/api/v1/namespaces/default/pods"
_STRATEGIC: Final = b"application/strategic-merge-patch+json"
_LENGTH: Final = b"content-length: "
_tails: Final = WeakKeyDictionary[ssl.SSLSocket, bytes]()


class Row(NamedTuple):
    what: str
    ours: float
    unit: str
    goal: float | None = None
    at_least: bool = False

    def __str__(self) -> str:
        shown = f"{self.what:<56} {_spelled(self.ours):>8} {self.unit:<10}"
        if self.goal is None:
            return shown.rstrip()
        met = self.ours >= self.goal if self.at_least else self.ours <= self.goal
        return f"{shown} {self.goal:>6,g} {self.ours / self.goal:>6.2f}  {'met' if met else 'MISSED'}"


def run() -> None:
    print("api: the embedded API server as a process, with TLS and SQLite")
    print(f"\n{'step':<56} {'ours':>8} {'':<10} {'goal':>6} {'ratio':>6}")
    with served("--controllers=*,-kube-scheduler") as server:
        show(_starts(server))
        show(_creates(server))
        show(_lists(server))
        show(_patches(server))
    with served("--controllers=*,-kube-scheduler") as server:
        show(_watches(server))
    with served("--controllers=*,-kube-scheduler") as server:
        show(_beginnings(server))
    with served() as server:
        show(_scheduled(server))
    show(_together())
    print()


def show(rows: Sequence[Row]) -> None:
    for row in rows:
        print(row, flush=True)


def _spelled(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


@contextmanager
def served(*flags: str) -> Iterator[ApiServerProcess]:
    folder = Path(tempfile.mkdtemp(prefix="pykubelet-bench-"))
    server = ApiServerProcess(folder, *flags)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)


# --- clients


class Answered(NamedTuple):
    seconds: float
    waits: list[float]
    cpu: float
    """Of the server."""

    @property
    def rate(self) -> float:
        return len(self.waits) / self.seconds

    def rows(self, what: str, goal: float | None = None) -> list[Row]:
        waits = sorted(self.waits)
        return [
            Row(f"{what}, {CONNECTIONS} connections", self.rate, "/s", goal, at_least=True),
            Row("  p50", statistics.median(waits) * 1e3, "ms"),
            Row("  p99", waits[int(len(waits) * 0.99)] * 1e3, "ms"),
            Row("  CPU of the server for each", self.cpu / len(waits) * 1e6, "us"),
        ]


class Client:
    """One connection that sends a request as soon as the one before is answered."""

    def __init__(self, socket: ssl.SSLSocket) -> None:
        socket.setblocking(False)
        self.socket = socket
        self.sent = 0.0
        self._got = b""

    def send(self, what: bytes) -> None:
        self.sent = time.perf_counter()
        self._got = b""
        self.socket.sendall(what)  # small enough for any socket to take at once

    def take(self, *, any_code: bool = False) -> bool:
        """Whether the answer is there as a whole. Raises when it is no success, unless that is all the same."""
        while True:
            try:
                data = self.socket.recv(65536)
            except ssl.SSLWantReadError:
                return False
            self._got += data
            head, _, body = self._got.partition(b"\r\n\r\n")
            if not data or not (any_code or head.startswith(b"HTTP/1.1 20")):
                raise RuntimeError(f"a request failed: {self._got[:500]!r}")
            if body and len(body) >= int(head[head.lower().index(_LENGTH) + len(_LENGTH) :].partition(b"\r")[0]):
                return True


def ask_all(server: ApiServerProcess, requests: Sequence[bytes], connections: int = CONNECTIONS) -> Answered:
    context, poll, waiting = server.tls(), select.epoll(), iter(requests)
    clients = {each.socket.fileno(): each for each in (Client(server.connected(context)) for _ in range(connections))}
    waits: list[float] = []
    cpu, began = server.cpu(), time.perf_counter()
    for number, client in clients.items():
        poll.register(number, select.EPOLLIN)
        client.send(next(waiting))
    while len(waits) < len(requests):
        for number, _ in poll.poll():
            client = clients[number]
            if client.take():
                waits.append(time.perf_counter() - client.sent)
                if (following := next(waiting, None)) is not None:
                    client.send(following)
    seconds, cpu = time.perf_counter() - began, server.cpu() - cpu
    for client in clients.values():
        client.socket.close()
    return Answered(seconds, waits, cpu)


def _create(name: str, **spec: Any) -> bytes:
    return request(b"POST", _PODS, json.dumps(plain_pod(name, **spec)).encode())


# --- what is measured


def _starts(server: ApiServerProcess) -> list[Row]:
    times = []
    for _ in range(3):
        server.stop()
        times.append(server.start())
    return [Row("apiserver, start until /readyz", statistics.median(times), "s", 1.5)]


def _creates(server: ApiServerProcess) -> list[Row]:
    ask_all(server, [_create(f"warm-{number}") for number in range(200)])
    done = ask_all(server, [_create(f"web-{number}") for number in range(CREATES)])
    return done.rows("pod creates", 1_500)


def _lists(server: ApiServerProcess) -> list[Row]:
    """Until the last byte, which nobody decodes."""
    head = request(b"GET", f"{_PODS}?limit={LISTED}")
    times, got = [], 0
    cpu = server.cpu()
    with server.connected() as connection:
        for _ in range(7):
            began = time.perf_counter()
            connection.sendall(head)
            size, got = 1 << 62, 0
            while got < size:
                data = connection.recv(1 << 20)
                if size == 1 << 62:
                    start, _, data = data.partition(b"\r\n\r\n")
                    size = int(start[start.lower().index(_LENGTH) + len(_LENGTH) :].partition(b"\r")[0])
                got += len(data)
            times.append(time.perf_counter() - began)
    cpu = (server.cpu() - cpu) / len(times)
    return [
        Row(f"list of {LISTED:,} pods, {got / 1e6:.1f} MB", statistics.median(times) * 1e3, "ms", 250),
        Row("  CPU of the server", cpu * 1e3, "ms"),
    ]


def _patches(server: ApiServerProcess) -> list[Row]:
    def requests(address: str) -> list[bytes]:
        body = _status_patch(address)
        return [request(b"PATCH", f"{_PODS}/web-{n}/status", body, _STRATEGIC) for n in range(PATCHES)]

    first = ask_all(server, requests("10.244.0.7"))
    second = ask_all(server, requests("10.244.0.8"))
    return [*first.rows("patches of a status, the first of a pod"), second.rows("  the second")[0]]


def _status_patch(address: str) -> bytes:
    """What an agent reports of a pod that runs."""
    now = "2026-01-01T00:00:00Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now} for kind in kinds]
    container = {
        "name": "web",
        "state": {"running": {"startedAt": now}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": "registry.example/web:1.27",
        "imageID": "registry.example/web@sha256:" + "0" * 64,
        "containerID": "containerd://" + "1" * 64,
        "started": True,
    }
    status = {
        "$setElementOrder/conditions": [{"type": kind} for kind in kinds],
        "conditions": conditions,
        "containerStatuses": [container],
        "hostIP": "10.0.0.1",
        "hostIPs": [{"ip": "10.0.0.1"}],
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"$patch": "replace"}, {"ip": address}],  # an agent whose pod has moved takes the old one away
        "startTime": now,
    }
    return json.dumps({"status": status}).encode()


# --- watchers


def _watches(server: ApiServerProcess) -> list[Row]:
    ask_all(server, [_create("watched")], 1)
    before = server.rss()
    watchers = _watchers(server)
    time.sleep(1.0)  # so that what the handshakes left to do is done
    idle = server.rss()
    cpu = server.cpu()
    delays, seconds = _delivered(server, watchers)
    cpu = server.cpu() - cpu
    for each in watchers.values():
        each.close()
    delays.sort()
    return [
        Row(f"memory of an idle watcher, of {WATCHERS:,}", (idle - before) * 1024 / WATCHERS, "KiB", 30),
        Row(f"{WATCHERS:,} watchers, {CHANGES_PER_SECOND} changes/s", len(delays) / seconds, "told/s"),
        Row("  CPU of the server, % of a core", cpu / seconds * 100, "%", 40),
        Row("  from the patch sent to the change read, p50", delays[len(delays) // 2] * 1e3, "ms"),
        Row("  p99", delays[int(len(delays) * 0.99)] * 1e3, "ms", 100),
        Row("  memory of the server afterwards", server.rss(), "MiB"),
    ]


def _beginnings(server: ApiServerProcess) -> list[Row]:
    """All ask before the first of them reads: what they are told first must not be kept for each of them."""
    ask_all(server, [_create(f"seen-{number}") for number in range(SEEN)])
    before, cpu, began = server.rss(), server.cpu(), time.perf_counter()
    context, poll, counts = server.tls(), select.epoll(), dict[int, int]()
    watchers = {}
    for _ in range(BEGINNERS):
        connection = server.connected(context)
        connection.sendall(request(b"GET", f"{_PODS}?watch=1&resourceVersion=0&timeoutSeconds=3600"))
        connection.setblocking(False)
        watchers[connection.fileno()] = connection
        poll.register(connection.fileno(), select.EPOLLIN)
    while sum(counts.values()) < BEGINNERS * SEEN:
        for number, _ in poll.poll():
            counts[number] = counts.get(number, 0) + _occurrences(watchers[number], b'"type":"ADDED"')
    seconds, cpu, peak = time.perf_counter() - began, server.cpu() - cpu, server.peak()
    for each in watchers.values():
        each.close()
    gone, least = time.perf_counter(), server.rss()
    while time.perf_counter() - gone < 70:  # in which what is free goes back to the machine
        time.sleep(5.0)
        least = min(least, server.rss())
    return [
        Row(f"{BEGINNERS} watchers that begin with {SEEN:,} pods", seconds, "s"),
        Row("  CPU of the server", cpu, "s"),
        Row("  memory of the server before", before, "MiB"),
        Row("  at most", peak, "MiB", 150),
        Row("  a minute after they have gone", least, "MiB", before + 20),
    ]


def _watchers(server: ApiServerProcess) -> dict[int, ssl.SSLSocket]:
    context, watchers = server.tls(), {}
    for _ in range(WATCHERS):
        connection = server.connected(context)
        connection.sendall(request(b"GET", f"{_PODS}?watch=1&resourceVersion=0&timeoutSeconds=3600"))
        watchers[connection.fileno()] = connection
    for connection in watchers.values():
        while b"watched" not in connection.recv(65536):
            pass
        connection.setblocking(False)
    return watchers


def _delivered(server: ApiServerProcess, watchers: dict[int, ssl.SSLSocket]) -> tuple[list[float], float]:
    """How long each watcher waited for each change, and how long it took in all."""
    poll = select.epoll()
    for number in watchers:
        poll.register(number, select.EPOLLIN)
    author = Client(server.connected())
    poll.register(author.socket.fileno(), select.EPOLLIN)
    told, sent = dict.fromkeys(watchers, 0), list[float]()
    delays: list[float] = []
    began = time.perf_counter()
    while len(delays) < CHANGES * WATCHERS:
        now = time.perf_counter()
        if now - began > 120:
            raise RuntimeError(f"only {len(delays):,} of {CHANGES * WATCHERS:,} changes were told")
        due = began + len(sent) / CHANGES_PER_SECOND
        if len(sent) < CHANGES and now >= due:
            body = json.dumps({"metadata": {"annotations": {"change": str(len(sent))}}}).encode()
            sent.append(now)
            author.send(request(b"PATCH", f"{_PODS}/watched", body, _STRATEGIC))
        for number, _ in poll.poll(max(0.0, due - now) if len(sent) < CHANGES else 1.0, 64):
            if number not in watchers:
                author.take()
                continue
            for _ in range(_lines(watchers[number])):
                delays.append(time.perf_counter() - sent[told[number]])
                told[number] += 1
    seconds = time.perf_counter() - began
    author.socket.close()
    return delays, seconds


def _lines(connection: ssl.SSLSocket) -> int:
    """Each is a chunk of its own."""
    return _occurrences(connection, b"}\n\r\n")


def _occurrences(connection: ssl.SSLSocket, mark: bytes) -> int:
    """Of a mark, in what can be read now. One that is cut in two by the reading is counted, too."""
    found, tail = 0, _tails.pop(connection, b"")
    while True:
        try:
            data = connection.recv(65536)
        except ssl.SSLWantReadError:
            _tails[connection] = tail
            return found
        if not data:
            raise RuntimeError("a watch has ended")
        data = tail + data
        found += data.count(mark)
        tail = data[-len(mark) + 1 :]


# --- with the rest of the cluster


def _scheduled(server: ApiServerProcess) -> list[Row]:
    """Pods that no node takes: each is looked at, and told so, besides."""
    done = ask_all(server, [_create(f"web-{number}") for number in range(PODS)])
    return [Row("pod creates with the scheduler, no node", done.rate, "/s")]


def _together() -> list[Row]:
    """A cluster as `up` starts it: how soon its node is ready, and what it takes when there are pods."""
    folder = Path(tempfile.mkdtemp(prefix="pykubelet-bench-"))
    data = folder / "data"
    try:
        times = []
        for _ in range(3):
            if data.exists():
                command("down", "--data", str(data))
            began = time.perf_counter()
            command("up", "--data", str(data))
            times.append(time.perf_counter() - began)
        server = _Up(folder)
        return [
            Row("up, until the node is ready, the first time", times[0], "s", 1.5),
            Row("  once its keys are there", min(times[1:]), "s", 1.5),
            *_memory(server),
        ]
    finally:
        if data.exists():
            command("reset", "--data", str(data))
        shutil.rmtree(folder)


class _Up(ApiServerProcess):
    """The server of a cluster that is up already."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        config = (self.data / "kubeconfig").read_text()
        supervisor = int((self.data / "up.lock").read_text())
        self.port = int(config.partition("https://127.0.0.1:")[2].partition('"')[0])
        self.data /= "apiserver"
        self.processes = {"supervisor": supervisor}
        for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
            line = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            self.processes["API server" if b"apiserver" in line else "agent"] = int(child)

    @property
    def pid(self) -> int:
        return self.processes["API server"]


def _memory(server: _Up) -> list[Row]:
    """Most pods wait for a node that they may run on, some run."""
    before = {name: rss_of(pid) for name, pid in server.processes.items()}
    sleeper = {"name": "c", "image": "this-machine", "command": ["sleep", "10000"]}
    running = {"containers": [sleeper], "terminationGracePeriodSeconds": 0}
    ask_all(server, [_create(f"runs-{number}", **running) for number in range(RUNNING)])
    ask_all(server, [_create(f"waits-{number}", nodeSelector={"is": "nowhere"}) for number in range(PODS - RUNNING)])
    wait_for(lambda: _count(server, "status.phase%3DRunning") == RUNNING, seconds=120)
    wait_for(lambda: _is_quiet(server), seconds=120)  # the scheduler has told each that there is no place
    after = {name: rss_of(pid) for name, pid in server.processes.items()}
    rows = [Row(f"  memory of the {name}, without pods", each, "MiB") for name, each in before.items()]
    rows += [Row(f"  with {PODS:,} pods, {RUNNING} of them running", each, "MiB") for each in after.values()]
    return [*rows, Row("memory of API server and agent", after["API server"] + after["agent"], "MiB", 150)]


def _is_quiet(server: ApiServerProcess) -> bool:
    before = server.cpu()
    time.sleep(2.0)
    return server.cpu() - before < 0.2


def _count(server: ApiServerProcess, selector: str) -> int:
    with server.connected() as connection:
        connection.sendall(request(b"GET", f"{_PODS}?fieldSelector={selector}").replace(b"HTTP/1.1", b"HTTP/1.0"))
        return b"".join(iter(lambda: connection.recv(1 << 20), b"")).count(b'"creationTimestamp"')
