import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.container.user_namespaces import UNIT, IdMapping, IdRanges, IdSpace, checked_space, read, written

UPSTREAM = (
    b'{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],'
    b'"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}'
)
MAPPING = IdMapping(host_id=131072, container_id=0, length=65536)


def small(pods: int) -> IdRanges:
    return IdRanges(IdSpace(length=pods * UNIT))


def test_the_first_range_begins_after_the_machines_own_users() -> None:
    ranges = IdRanges(IdSpace())
    assert ranges.allocate("a") == IdMapping(host_id=65536, container_id=0, length=65536)
    assert ranges.allocate("b").host_id == 131072
    assert ranges.of("a") == IdMapping(host_id=65536, container_id=0, length=65536)
    assert ranges.of("nobody") is None


def test_when_all_are_taken_the_next_pod_has_to_wait_for_one_to_be_given_back() -> None:
    ranges = small(2)
    ranges.allocate("a")
    ranges.allocate("b")
    with pytest.raises(Retry, match="could not find an empty slot"):
        ranges.allocate("c")
    ranges.release("a")
    ranges.release("a")
    assert ranges.allocate("c").host_id == UNIT


def test_a_range_that_was_given_back_is_the_last_to_be_given_out_again() -> None:
    ranges = small(3)
    first = ranges.allocate("a")
    ranges.release("a")
    given = [ranges.allocate(uid) for uid in ("b", "c", "d")]
    assert given[2] == first


def test_what_an_earlier_agent_gave_away_is_not_given_out() -> None:
    ranges = small(2)
    ranges.record("old", IdMapping(host_id=UNIT, container_id=0, length=UNIT))
    ranges.record("old", IdMapping(host_id=UNIT, container_id=0, length=UNIT))
    assert ranges.allocate("new").host_id == 2 * UNIT


@pytest.mark.parametrize(
    ("mapping", "why"),
    [
        (IdMapping(host_id=UNIT, container_id=1, length=UNIT), "UID 0 must be mapped"),
        (IdMapping(host_id=UNIT, container_id=0, length=5), "wrong user namespace length 5"),
        (IdMapping(host_id=0, container_id=0, length=UNIT), "id 0 is out of range"),
        (IdMapping(host_id=UNIT + 1, container_id=0, length=UNIT), "id 65537 is out of range"),
        (IdMapping(host_id=4 * UNIT, container_id=0, length=UNIT), "id 262144 is out of range"),
        (IdMapping(host_id=2 * UNIT, container_id=0, length=UNIT), "already taken by the pod other"),
        (IdMapping(host_id=3 * UNIT, container_id=0, length=UNIT), "different user namespace range"),
    ],
)
def test_a_range_that_cannot_be_the_pods_is_refused(mapping: IdMapping, why: str) -> None:
    ranges = small(3)
    ranges.record("a", IdMapping(host_id=UNIT, container_id=0, length=UNIT))
    ranges.record("other", IdMapping(host_id=2 * UNIT, container_id=0, length=UNIT))
    with pytest.raises(Invalid, match=why):
        ranges.record("new" if "taken" in why else "a", mapping)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=60))
def test_no_two_pods_ever_have_the_same_users(steps: list[tuple[str, bool]]) -> None:
    ranges, held = small(4), dict[str, IdMapping]()
    for uid, take in steps:
        if not take:
            ranges.release(uid)
            held.pop(uid, None)
        elif uid not in held and len(held) < 4:
            held[uid] = ranges.allocate(uid)
        assert len({mapping.host_id for mapping in held.values()}) == len(held)
        assert all(ranges.of(uid) == mapping for uid, mapping in held.items())


def test_the_file_is_upstreams_byte_for_byte() -> None:
    assert written(MAPPING) == UPSTREAM
    assert read(UPSTREAM) == MAPPING


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"uidMappings":null,"gidMappings":null}',
        b'{"uidMappings":[],"gidMappings":[]}',
        UPSTREAM.replace(b"131072", b"65536", 1),
        UPSTREAM.replace(b"131072", b'"131072"'),
        UPSTREAM.replace(b"131072", b"-1"),
        UPSTREAM.replace(b"131072", b"4294967296"),
        UPSTREAM.replace(b"131072", b"true"),
        b"[" * 100_000,
    ],
)
def test_a_file_that_nobody_of_us_wrote_is_refused(content: bytes) -> None:
    with pytest.raises(Invalid, match="mapping"):
        read(content)


@pytest.mark.parametrize(
    ("space", "why"),
    [
        (IdSpace(per_pod=1000), "idsPerPod: must be a multiple of 65536"),
        (IdSpace(per_pod=0), "idsPerPod"),
        (IdSpace(first=65537), "multiples of 65536"),
        (IdSpace(length=65537), "multiples of 65536"),
        (IdSpace(first=0), "must begin at 65536 or above"),
        (IdSpace(length=109 * UNIT), "not enough for 110 pods"),
        (IdSpace(first=2 * UNIT), "not enough for 110 pods"),
    ],
)
def test_a_space_that_does_not_do_is_refused_with_the_reason(space: IdSpace, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        checked_space(space, 110)


def test_the_default_space_does() -> None:
    assert checked_space(IdSpace(), 110) == IdSpace(first=65536, length=4294901760, per_pod=65536)
