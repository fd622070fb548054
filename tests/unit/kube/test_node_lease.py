import asyncio
import json
import logging
import re
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web

from kit.loopback import serving
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.kube.node_lease import LeaseKeeper

START = datetime(2026, 1, 1, 12, 0, 0, 5, tzinfo=UTC)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-1"}


def clock() -> float:
    return asyncio.get_running_loop().time()


class Leases:
    """An API server with one node and its lease. `faults` are the next answers to requests for leases, and `away` all
    those after them: a status code, or 0 for none."""

    def __init__(self) -> None:
        self.node_uid = "node-1"
        self.lease: dict[str, Any] | None = None
        self.asked: list[tuple[str, str, float]] = []
        self.written: list[dict[str, Any]] = []
        self.faults: deque[int] = deque()
        self.away = 0
        self.version = 0

    def put(self, lease: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        meta = {**lease["metadata"], "resourceVersion": str(self.version), "managedFields": [{"manager": "me"}]}
        self.lease = {**lease, "metadata": meta}
        return self.lease

    def verbs(self) -> list[str]:
        return [f"{method} {what}" for method, what, _ in self.asked]

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.text()
        what = "node" if request.path == "/api/v1/nodes/n1" else "lease"
        self.asked.append((request.method, what, clock()))
        if what == "node":
            if not self.node_uid:
                return _status(404, "NotFound")
            return web.json_response({"metadata": {"name": "n1", "uid": self.node_uid}})
        fault = self.faults.popleft() if self.faults else self.away
        return _status(fault) if fault else self._answer(request, json.loads(body) if body else {})

    def _answer(self, request: web.BaseRequest, body: dict[str, Any]) -> web.Response:
        if request.method == "POST":
            assert request.path == LEASES
            if self.lease is not None:
                return _status(409, "AlreadyExists")
            self.written.append(body)
            return web.json_response(self.put(body), status=201)
        assert request.path == f"{LEASES}/n1"
        if self.lease is None:
            return _status(404, "NotFound")
        if request.method == "PUT":
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                return _status(409, "Conflict")
            self.written.append(body)
            self.put(body)
        return web.json_response(self.lease)


def _status(code: int, reason: str = "") -> web.Response:
    body = {"kind": "Status", "status": "Failure", "message": f"code {code} for a test", "code": code, "reason": reason}
    return web.json_response(body, status=code)


@asynccontextmanager
async def keeping(leases: Leases, **options: Any) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    async with serving(leases.handle) as port:
        config = ClientConfig(Cluster(server=f"http://127.0.0.1:{port}"), User())
        async with ApiClient(Credentials(config, environ={}), qps=0) as server, asyncio.TaskGroup() as tasks:
            keeper = LeaseKeeper(server, "n1", now=lambda: START + timedelta(seconds=loop.time()), **options)
            task = tasks.create_task(keeper.run())
            try:
                yield
            finally:
                task.cancel()


@virtual_time
async def test_a_lease_is_created_for_the_node_and_belongs_to_it() -> None:
    leases = Leases()
    async with keeping(leases):
        await eventually(lambda: leases.lease)
        await asyncio.sleep(5)
    assert leases.verbs() == ["GET lease", "GET node", "POST lease"]
    created = leases.written[0]
    assert (created["kind"], created["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert created["metadata"] == {"name": "n1", "namespace": "kube-node-lease", "ownerReferences": [OWNER]}
    assert created["spec"].keys() == {"holderIdentity", "leaseDurationSeconds", "renewTime"}
    assert (created["spec"]["holderIdentity"], created["spec"]["leaseDurationSeconds"]) == ("n1", 40)
    assert re.fullmatch(r"2026-01-01T12:00:\d\d\.\d{6}Z", created["spec"]["renewTime"])


@virtual_time
async def test_a_lease_is_renewed_every_ten_seconds_without_being_read() -> None:
    leases = Leases()
    async with keeping(leases):
        await asyncio.sleep(120)
    renewals = [at for method, _, at in leases.asked if method == "PUT"]
    assert len(leases.asked) == len(renewals) + 3
    assert len(renewals) in (10, 11)
    assert all(10.0 <= later - sooner <= 10.5 for sooner, later in pairwise(renewals))
    assert len({later - sooner for sooner, later in pairwise(renewals)}) > 1
    times = [lease["spec"]["renewTime"] for lease in leases.written]
    assert times == sorted(set(times))
    assert all("managedFields" not in lease["metadata"] for lease in leases.written)


@virtual_time
async def test_a_shorter_lease_is_renewed_more_often() -> None:
    leases = Leases()
    async with keeping(leases, duration=8):
        await asyncio.sleep(21)
    assert leases.spec["leaseDurationSeconds"] == 8
    assert len(leases.written) >= 10


@virtual_time
async def test_a_lease_from_before_is_renewed_at_once_and_keeps_what_it_says() -> None:
    leases = Leases()
    spec = {"holderIdentity": "n1", "leaseDurationSeconds": 20, "renewTime": "2025-01-01T00:00:00.000000Z"}
    leases.put({"metadata": {"name": "n1", "labels": {"a": "b"}, "ownerReferences": [OWNER]}, "spec": spec})
    async with keeping(leases):
        await asyncio.sleep(5)
    assert leases.verbs() == ["GET lease", "PUT lease"]
    assert leases.lease is not None
    assert leases.lease["metadata"]["labels"] == {"a": "b"}
    assert leases.spec["leaseDurationSeconds"] == 40
    assert leases.spec["renewTime"] > "2026"


@virtual_time
async def test_a_lease_without_an_owner_gets_one_and_is_renewed_meanwhile() -> None:
    leases = Leases()
    leases.node_uid = ""
    leases.put({"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}})
    async with keeping(leases):
        await asyncio.sleep(5)
        assert "renewTime" in leases.spec
        assert "ownerReferences" not in leases.written[-1]["metadata"]
        leases.node_uid = "node-1"
        await asyncio.sleep(20)
    assert leases.written[-1]["metadata"]["ownerReferences"] == [OWNER]


@virtual_time
async def test_a_lease_waits_for_its_node_and_follows_it_soon() -> None:
    leases = Leases()
    leases.node_uid = ""
    async with keeping(leases):
        await asyncio.sleep(2)
        assert leases.lease is None
        leases.node_uid = "node-1"
        await eventually(lambda: leases.lease, seconds=7)


@virtual_time
async def test_a_lease_that_somebody_else_has_changed_is_read_again_and_renewed() -> None:
    leases = Leases()
    async with keeping(leases):
        await asyncio.sleep(5)
        assert leases.lease is not None
        leases.put({**leases.lease, "metadata": {**leases.lease["metadata"], "labels": {"a": "b"}}})
        await asyncio.sleep(10)
    assert leases.verbs()[3:] == ["PUT lease", "GET lease", "PUT lease"]
    assert leases.lease["metadata"]["labels"] == {"a": "b"}


@virtual_time
async def test_a_lease_that_is_deleted_is_made_anew_for_the_node_of_now() -> None:
    leases = Leases()
    async with keeping(leases):
        await asyncio.sleep(5)
        leases.lease, leases.node_uid = None, "node-2"
        await asyncio.sleep(10)
    assert leases.verbs()[3:] == ["PUT lease", "GET lease", "GET node", "POST lease"]
    assert leases.written[-1]["metadata"]["ownerReferences"][0]["uid"] == "node-2"


@virtual_time
async def test_a_failed_renewal_is_tried_again_at_once() -> None:
    leases = Leases()
    async with keeping(leases):
        await asyncio.sleep(5)
        leases.faults += [500, 500, 500, 500]
        await asyncio.sleep(10)
    assert leases.verbs()[3:] == ["PUT lease"] * 5
    assert len(leases.written) == 2


@virtual_time
async def test_after_five_tries_the_lease_is_looked_at_and_the_rest_waits_for_the_next_period(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leases = Leases()
    async with keeping(leases):
        await asyncio.sleep(5)
        leases.faults += [403] * 5 + [0] + [403] * 5
        await asyncio.sleep(10)
        assert leases.verbs()[3:] == ["PUT lease"] * 5 + ["GET lease"] + ["PUT lease"] * 5
        assert "the lease of node n1 could not be renewed; the next try is in a while" in caplog.messages
        await asyncio.sleep(10)
    assert len(leases.written) == 2


@virtual_time
async def test_a_server_that_is_away_is_asked_less_and_less_often_and_the_lease_is_renewed_once_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leases = Leases()
    with caplog.at_level(logging.WARNING):
        async with keeping(leases):
            await asyncio.sleep(5)
            leases.away = 503
            await asyncio.sleep(115)
            count = len(leases.asked)
            leases.away = 0
            await eventually(lambda: len(leases.written) == 2, seconds=8)
    assert 15 < count < 60
    asked = [at for method, _, at in leases.asked if method == "GET" and at > 20]
    assert max(later - sooner for sooner, later in pairwise(asked)) <= 7.2
    assert len(caplog.messages) == 1
