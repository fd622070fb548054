"""How much may be under way, and whose."""

from contextlib import ExitStack

import pytest

from pykubelet.apiserver.requests.in_flight import READING, ROOMS, WRITING, InFlight
from pykubelet.apiserver.requests.users import MASTERS, NODES, authenticated
from pykubelet.apiserver.status import ApiError

ADMIN = authenticated("admin", (MASTERS,))
NODE = authenticated("system:node:n1", (NODES,))
MIB = 1 << 20


def test_one_user_has_no_more_than_half_and_the_others_find_room() -> None:
    room = InFlight()
    with ExitStack() as stack:
        for _ in range(ROOMS[WRITING].of_user):
            stack.enter_context(room.enter(authenticated("greedy"), WRITING))
        with pytest.raises(ApiError) as refused, room.enter(authenticated("greedy"), WRITING):
            pass
        assert (refused.value.code, refused.value.headers) == (429, {"Retry-After": "1"})
        with room.enter(authenticated("other"), WRITING), room.enter(authenticated("greedy"), READING):
            pass
    with room.enter(authenticated("greedy"), WRITING):
        pass


def test_the_owner_and_the_nodes_find_room_when_all_others_have_filled_theirs() -> None:
    room = InFlight()
    with ExitStack() as stack:
        taken = 0
        for number in range(1000):
            try:
                stack.enter_context(room.enter(authenticated(f"user-{number}"), READING))
            except ApiError:
                break
            taken += 1
        assert taken == ROOMS[READING].most * 3 // 4
        for user in (ADMIN, NODE) * 50:
            stack.enter_context(room.enter(user, READING))
        with pytest.raises(ApiError), room.enter(ADMIN, READING):
            pass


def test_bodies_are_counted_by_their_bytes() -> None:
    room = InFlight()
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(room.enter(authenticated("greedy"), WRITING, 3 * MIB))
        with pytest.raises(ApiError), room.enter(authenticated("greedy"), WRITING, 3 * MIB):
            pass
        with room.enter(authenticated("greedy"), WRITING, 1000), room.enter(ADMIN, WRITING, 3 * MIB):
            pass
    assert not room._of_user
    assert set(room._all.values()) == set(room._others.values()) == {0}


def test_one_node_does_not_keep_the_others_out() -> None:
    room = InFlight()
    with ExitStack() as stack:
        for _ in range(ROOMS[WRITING].most // 4):
            stack.enter_context(room.enter(NODE, WRITING))
        with pytest.raises(ApiError) as refused, room.enter(NODE, WRITING):
            pass
        assert refused.value.code == 429
        with room.enter(authenticated("system:node:n2", (NODES,)), WRITING), room.enter(NODE, READING):
            pass
