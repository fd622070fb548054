"""Whose turn it is."""

import asyncio
from collections.abc import Iterable

import pytest

from pykubelet.apiserver.requests.fair_turns import HEARTBEATS, OTHERS, SYSTEM, FairTurns, level_of
from pykubelet.apiserver.requests.request_info import RequestInfo, request_info
from pykubelet.apiserver.requests.users import MASTERS, NODES, User, authenticated, service_account_user

NODE = authenticated("system:node:n1", (NODES,))
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"


def asked(method: str, path: str) -> RequestInfo:
    return request_info(method, path, {})


async def order(turns: FairTurns, requests: Iterable[tuple[User, RequestInfo]]) -> list[str]:
    """In which they have their turn, who all come at once."""
    found: list[str] = []

    async def one(user: User, info: RequestInfo) -> None:
        await turns.turn(user, info)
        found.append(user.name)

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        for each in requests:
            group.create_task(one(*each))
    return found


async def test_each_user_has_his_turn_however_much_one_has_asked_for() -> None:
    names = ["greedy"] * 6 + ["a", "b", "a"]
    found = await order(FairTurns(1), [(authenticated(name), asked("GET", "/api/v1/pods")) for name in names])
    assert found == ["greedy", "greedy", "a", "b", "greedy", "a", "greedy", "greedy", "greedy"]


async def test_what_keeps_nodes_alive_comes_first_and_the_others_come_all_the_same() -> None:
    others = [(authenticated(f"other-{number}"), asked("GET", "/api/v1/pods")) for number in range(3)]
    nodes = [(authenticated(f"system:node:{number}", (NODES,)), asked("PUT", LEASE)) for number in range(9)]
    found = await order(FairTurns(1), [*others, *nodes])
    assert found[:6] == ["other-0", *(f"system:node:{number}" for number in range(4)), "other-1"]
    assert len(found) == 12


async def test_a_few_need_not_wait() -> None:
    turns = FairTurns(4)
    for _ in range(4):
        waiting = turns.turn(NODE, asked("PUT", LEASE))
        with pytest.raises(StopIteration):
            waiting.send(None)
    fifth = turns.turn(NODE, asked("PUT", LEASE))
    assert fifth.send(None) is not None  # it waits
    fifth.close()


@pytest.mark.parametrize("before", range(8))
async def test_no_more_than_those_few_begin_in_a_round_whatever_came_before(before: int) -> None:
    """A crowd alone asks for the next round: what is counted from before it makes a round smaller, never larger."""
    turns, now, rounds = FairTurns(8), 0, list[int]()
    for _ in range(before):
        await turns.turn(NODE, asked("PUT", LEASE))
        await asyncio.sleep(0)

    async def one() -> None:
        await turns.turn(NODE, asked("PUT", LEASE))
        rounds.append(now)

    crowd = [asyncio.create_task(one()) for _ in range(50)]
    async with asyncio.timeout(10):
        while len(rounds) < len(crowd):
            now += 1
            await asyncio.sleep(0)
    each = [rounds.count(number) for number in range(1, now + 1)]
    assert max(each) == 8, each
    assert now <= 12, each


async def test_who_goes_away_while_he_waits_is_passed_over() -> None:
    turns, info = FairTurns(1), asked("GET", "/api/v1/pods")
    await turns.turn(authenticated("first"), info)
    gone = [asyncio.create_task(turns.turn(authenticated("gone"), info)) for _ in range(5)]
    last = asyncio.create_task(turns.turn(authenticated("last"), info))
    await asyncio.sleep(0)
    for each in gone[1:]:
        each.cancel()
    async with asyncio.timeout(10):
        await last
        await gone[0]
        await asyncio.gather(*gone, return_exceptions=True)
        await turns.turn(authenticated("next"), info)
    assert await order(turns, [(NODE, info)]) == [NODE.name]


@pytest.mark.parametrize(
    ("user", "method", "path", "level"),
    [
        (NODE, "PUT", LEASE, HEARTBEATS),
        (NODE, "PATCH", "/api/v1/nodes/n1/status", HEARTBEATS),
        (NODE, "GET", "/api/v1/namespaces/default/secrets/x", SYSTEM),
        (authenticated("bob"), "PUT", LEASE, OTHERS),
        (authenticated("admin", (MASTERS,)), "GET", "/api/v1/pods", SYSTEM),
        (authenticated("system:kube-scheduler"), "GET", "/api/v1/pods", SYSTEM),
        (service_account_user("kube-system", "x", "", {}), "GET", "/api/v1/pods", SYSTEM),
        (service_account_user("default", "kube-system", "", {}), "GET", "/api/v1/pods", OTHERS),
    ],
)
def test_who_comes_first(user: User, method: str, path: str, level: int) -> None:
    assert level_of(user, asked(method, path)) == level
