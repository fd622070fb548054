"""Events that repeat are counted, many that are alike become one, and too many are left out."""

from kit.cluster import cluster
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.event_correlation import EventCorrelator, Told
from pykubelet.apiserver.controllers.event_recorder import EventRecorder

SOURCE, GROUP = ("Pod", "a"), ("Pod", "a", "Normal", "Did")


def test_the_same_again_counts_as_the_one_that_is_there() -> None:
    correlator = EventCorrelator()
    first = correlator.correlate(SOURCE, GROUP, "x", 0)
    assert first is not None
    assert first.told is None
    correlator.tell(first.key, Told("a.1", 1, ""))
    again = correlator.correlate(SOURCE, GROUP, "x", 1)
    other = correlator.correlate(SOURCE, GROUP, "y", 1)
    assert again is not None
    assert other is not None
    assert again.told == Told("a.1", 1, "")
    assert other.told is None


def test_the_tenth_that_is_alike_is_combined_with_all_that_follow() -> None:
    correlator = EventCorrelator()
    found = [correlator.correlate(SOURCE, GROUP, str(number), 0) for number in range(12)]
    messages = [each.message for each in found if each]
    assert messages[:9] == [str(number) for number in range(9)]
    assert messages[9:] == [f"(combined from similar events): {number}" for number in (9, 10, 11)]
    assert len({each.key for each in found[9:] if each}) == 1


def test_after_ten_minutes_they_are_told_apart_again() -> None:
    correlator = EventCorrelator()
    for number in range(12):
        correlator.correlate(SOURCE, GROUP, str(number), 0)
    later = correlator.correlate(SOURCE, GROUP, "12", 601)
    assert later is not None
    assert later.message == "12"


def test_of_too_many_about_one_object_some_are_left_out_and_others_are_not_concerned() -> None:
    correlator = EventCorrelator()
    told = [correlator.correlate(SOURCE, GROUP, str(number), 0) for number in range(30)]
    assert [each is not None for each in told] == [True] * 25 + [False] * 5
    assert correlator.correlate(("Pod", "b"), GROUP, "x", 0) is not None
    assert correlator.correlate(SOURCE, GROUP, "x", 299) is None
    assert correlator.correlate(SOURCE, GROUP, "x", 600) is not None


def test_what_is_known_does_not_grow_for_ever() -> None:
    correlator = EventCorrelator()
    for number in range(5000):
        found = correlator.correlate((str(number),), (str(number),), "x", 0)
        assert found is not None
        correlator.tell(found.key, Told("", 1, ""))
    assert len(correlator._told) == len(correlator._similar) == len(correlator._buckets) == 4096
    correlator.correlate(("y",), ("y",), "x", 600)
    assert len(correlator._similar) == 4096
    correlator.correlate(("z",), ("z",), "x", 601)
    assert list(correlator._similar) == [("y",), ("z",)]


@virtual_time
async def test_a_repeated_event_is_one_object_with_a_count() -> None:
    async with cluster() as c:
        recorder, pod = EventRecorder(c, "tester"), await c.pod("a")
        for _ in range(3):
            await recorder.record(pod, "Warning", "Bad", "why")
            c.clock.pass_(10)
        (event,) = await c.all(("", "events"))
        assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
            3,
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:04:25Z",
        )
        await c.remove(("", "events"), event)
        await recorder.record(pod, "Warning", "Bad", "why")
        (event,) = await c.all(("", "events"))
        assert event["count"] == 1
