"""One request freezes the server: bodies of every shape, sent by somebody who may, and what all others notice of it."""

import http.client
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from kit.api_fuzz import Ask
from kit.heavy_bodies import LARGEST, selectors, shapes
from kit.held_server import HeldServer, held_server
from kit.loop_hold import slowness
from kit.waiting import wait_for

_LONGEST_HOLD: Final = 0.05
_MOST_WORK: Final = 1.5
"""Seconds for a body of `_SIZE`: what takes time with the square of the size is far beyond it."""
_SIZE: Final = 150_000
_WORST: Final = ("keys, each twice", "exponents", "pod, environment", "apply, finalizers", "YAML, keys", "YAML, flow")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldServer]:
    with held_server(tmp_path_factory.mktemp("pki")) as held:
        held.ask(Ask("POST", "/api/v1/namespaces/default/pods?dryRun=All", b"{}"))  # what is loaded once is loaded
        yield held


@pytest.mark.timeout(240)
@pytest.mark.parametrize("part", ["pod", "YAML", "protobuf", "patch", "apply", "operations", ""])
def test_no_shape_of_a_body_holds_the_loop(server: HeldServer, part: str) -> None:
    names = [name for name in shapes(100) if (part in name if part else not _has_other(name))]
    assert names
    bodies, slow = shapes(_SIZE), slowness()
    held = {}
    for name in names:
        cost = server.cost(bodies[name])
        assert cost.code, name
        if cost.step > _LONGEST_HOLD * slow or cost.cpu > _MOST_WORK * slow:
            held[name] = cost
    assert not held


def _has_other(name: str) -> bool:
    return any(part in name for part in ("pod", "YAML", "protobuf", "patch", "apply", "operations"))


@pytest.mark.timeout(120)
def test_long_queries_hold_nobody(server: HeldServer) -> None:
    held, slow = {}, slowness()
    for name, query in selectors(60_000).items():
        for path in ("/api/v1/namespaces/default/configmaps", "/api/v1/pods"):
            cost = server.cost(Ask("GET", f"{path}?{query}"))
            if cost.step > _LONGEST_HOLD * slow:
                held[name] = cost
    assert not held


@pytest.mark.timeout(240)
def test_everybody_else_is_answered_while_the_largest_are_read(server: HeldServer) -> None:
    every = shapes(700_000)
    over = threading.Event()
    server.hold.forget()

    def attack(name: str) -> int:
        return server.ask(every[name])[0]

    slowest = 0.0
    with ThreadPoolExecutor(len(_WORST)) as attackers:
        attacks = [attackers.submit(attack, name) for name in _WORST]
        while not all(each.done() for each in attacks):
            began = time.monotonic()
            assert server.ask(Ask("GET", "/healthz"))[0] == 200
            slowest = max(slowest, time.monotonic() - began)
            over.wait(0.02)
        assert all(each.result() for each in attacks)
    assert slowest < 1.0 * slowness()
    assert server.hold.step < _LONGEST_HOLD * slowness(), server.hold.where


@pytest.mark.timeout(60)
def test_nobody_makes_the_server_read_a_body_without_saying_who_he_is(server: HeldServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.putrequest("POST", "/api/v1/namespaces/default/configmaps")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(LARGEST))
    connection.endheaders()
    answer = connection.getresponse()  # although not a byte of it was sent
    assert answer.status == 403
    connection.close()


@pytest.mark.timeout(60)
def test_a_large_list_as_a_table_holds_nobody(tmp_path: Path) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {f"k{n}": "v" * 50 for n in range(40)}}
    with held_server(tmp_path) as server:
        server.add(
            "", "configmaps", *({**body, "metadata": {"name": f"m{n}", "labels": {"a": str(n)}}} for n in range(1500))
        )
        path, table = "/api/v1/namespaces/default/configmaps", "application/json;as=Table;g=meta.k8s.io;v=v1"
        wait_for(lambda: server.ask(Ask("GET", f"{path}/m1499?resourceVersion=0"))[0] == 200, seconds=10)
        slow = slowness()
        for query, accept in (("", table), ("?labelSelector=a=1", "application/json"), ("", "application/json")):
            cost = server.cost(Ask("GET", path + query), Accept=accept)
            assert cost.code == 200
            assert cost.step < _LONGEST_HOLD * slow, (query, accept, cost)
