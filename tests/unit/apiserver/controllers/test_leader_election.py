"""One of several servers does the work."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.election_rules import Seen, held, is_free, released, seen
from pykubelet.apiserver.controllers.leader_election import LeaderElection, identity

LEASE = "kube-controller-manager"
TIME = "2026-01-02T03:04:05.000000Z"
LEASES = ("coordination.k8s.io", "leases")


class Server:
    """One that wants to lead, and tells when it does."""

    def __init__(self, c: TestCluster, name: str) -> None:
        self.works = False
        self.election = LeaderElection(c, LEASE, name, self._work)

    async def _work(self) -> None:
        self.works = True
        try:
            await asyncio.Event().wait()
        finally:
            self.works = False

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[asyncio.Task[None], None]:
        task = asyncio.create_task(self.election.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def lease(c: TestCluster) -> dict[str, Any]:
    found = await c.get("leases", LEASE, "kube-system", "coordination.k8s.io")
    return dict(found["spec"])


@virtual_time
async def test_one_of_two_works_and_the_other_takes_over_when_it_stops() -> None:
    async with cluster() as c:
        one, other = Server(c, "one"), Server(c, "other")
        async with one.running() as first:
            await asyncio.sleep(1)
            async with other.running():
                for _ in range(30):
                    await asyncio.sleep(1)
                    c.clock.pass_(1)
                    assert (one.works, other.works) == (True, False)
                spec = await lease(c)
                assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("one", 15)
                assert (spec["leaseTransitions"], spec["acquireTime"][-1]) == (0, "Z")
                first.cancel()
                await asyncio.sleep(6)
                assert (one.works, other.works) == (False, True)
                spec = await lease(c)
                assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("other", 1)


@virtual_time
async def test_one_that_dies_without_a_word_is_followed_after_fifteen_seconds() -> None:
    async with cluster() as c:
        spec = held({}, "dead", TIME)
        await c.add(*LEASES, {"metadata": {"name": LEASE, "namespace": "kube-system"}, "spec": spec})
        other = Server(c, "other")
        async with other.running():
            await asyncio.sleep(14)
            assert not other.works
            await asyncio.sleep(6)
            assert other.works


@virtual_time
async def test_a_leader_that_cannot_renew_stops_before_another_may_begin() -> None:
    async with cluster() as c:
        one = Server(c, "one")
        async with one.running():
            worked = []
            for seconds, is_away in ((1, False), (9, True), (5, True), (6, False)):
                c.store.is_away = is_away
                await asyncio.sleep(seconds)
                worked.append(one.works)
            assert worked == [True, True, False, True]


@virtual_time
async def test_a_leader_whose_lease_is_taken_from_it_stops_at_once() -> None:
    async with cluster() as c:
        one = Server(c, "one")
        async with one.running():
            await asyncio.sleep(1)
            now = await c.get("leases", LEASE, "kube-system", "coordination.k8s.io")
            stolen = held(now["spec"], "thief", "2026-01-02T03:04:09.000000Z")
            await c.change(LEASES, now, lambda live: {**live, "spec": stolen})
            await asyncio.sleep(3)
            assert not one.works
            assert (await lease(c))["holderIdentity"] == "thief"


@virtual_time
async def test_of_two_that_write_at_the_same_moment_one_leads() -> None:
    async with cluster() as c:
        one, other = Server(c, "one"), Server(c, "other")
        spec = released(held({}, "before", TIME), "before", TIME)
        await c.add(*LEASES, {"metadata": {"name": LEASE, "namespace": "kube-system"}, "spec": spec})
        async with one.running():
            c.store.before_write(f"leases/kube-system/{LEASE}", other.election._try)
            await asyncio.sleep(1)
            assert not one.works
            assert (await lease(c))["holderIdentity"] == "other"


def test_a_lease_counts_from_when_its_last_change_was_seen_whatever_it_says_itself() -> None:
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": "2001-01-01T00:00:00.000000Z"}
    record = seen({"spec": spec}, None, 100.0)
    assert seen({"spec": dict(spec)}, record, 110.0) == Seen(spec, 100.0)
    assert not is_free(record, "me", 114.9)
    assert is_free(record, "me", 115.0)
    assert is_free(record, "other", 100.0)
    assert seen({"spec": {**spec, "renewTime": "2001-01-01T00:00:02.000000Z"}}, record, 110.0).since == 110.0


@pytest.mark.parametrize(
    ("spec", "transitions"),
    [
        ({}, 0),
        ({"holderIdentity": "me", "leaseTransitions": 4, "acquireTime": "before"}, 4),
        ({"holderIdentity": "other", "leaseTransitions": 4, "acquireTime": "before"}, 5),
        ({"holderIdentity": "", "leaseTransitions": 4, "acquireTime": "before"}, 5),
    ],
)
def test_who_takes_over_is_counted(spec: dict[str, Any], transitions: int) -> None:
    made = held(spec, "me", "now")
    assert made["leaseTransitions"] == transitions
    assert made["acquireTime"] == ("before" if spec.get("holderIdentity") == "me" else "now")


def test_no_two_servers_have_one_identity() -> None:
    assert identity() != identity()
