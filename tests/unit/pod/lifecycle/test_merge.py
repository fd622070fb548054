"""The merge of pod sources: a sentence for each rule, and properties that hold for whatever the sources say."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.container import Container
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec, PodStatus
from pykubelet.api.rules.pod_kinds import full_name, is_static, source_of
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION, SEEN_ANNOTATION, SOURCE_ANNOTATION
from pykubelet.api.struct import changed, rfc3339_nano
from pykubelet.pod.lifecycle.merge import Merge, Notify
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed, Op, PodUpdate, Restored, SourceEvent

NOW: Final = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
LATER: Final = NOW + timedelta(minutes=1)
LOCAL: Final = {SOURCE_ANNOTATION, SEEN_ANNOTATION, MIRROR_ANNOTATION}


def pod(
    uid: str,
    *,
    name: str = "",
    image: str = "app:1",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    phase: str = "",
    deleted: datetime | None = None,
    grace: int | None = None,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            uid=uid,
            name=name or f"pod-{uid}",
            namespace="default",
            labels=labels or {},
            annotations=annotations or {},
            deletion_timestamp=deleted,
            deletion_grace_period_seconds=grace,
        ),
        spec=PodSpec(containers=(Container(name="c", image=image),)),
        status=PodStatus(phase=phase),
    )


def said(updates: Iterable[PodUpdate]) -> list[tuple[str, list[str]]]:
    """Deliveries as operation and uids."""
    return [(str(update.op), [pod.metadata.uid for pod in update.pods]) for update in updates]


# --- a source's whole truth


def test_a_new_pod_is_added_with_its_source_and_the_time_it_was_seen() -> None:
    (update,) = Merge().apply("api", Listed((pod("1", annotations={"note": "x"}),)), NOW)
    assert (update.op, update.source) == (Op.ADD, "api")
    assert update.pods[0].metadata.annotations == {
        "note": "x",
        SOURCE_ANNOTATION: "api",
        SEEN_ANNOTATION: rfc3339_nano(NOW),
    }


def test_what_a_list_leaves_out_is_removed() -> None:
    merge = Merge()
    merge.apply("api", Listed((pod("1"), pod("2"))), NOW)
    assert said(merge.apply("api", Listed((pod("2"),)), NOW)) == [("REMOVE", ["1"])]
    assert list(merge.pods("api")) == ["2"]


def test_what_a_list_could_not_read_stays_as_it_was() -> None:
    merge = Merge()
    merge.apply("file", Listed((pod("1"), pod("2"), pod("3"))), NOW)
    assert said(merge.apply("file", Listed((), unread=frozenset({"1", "unknown"})), NOW)) == [("REMOVE", ["2", "3"])]
    assert list(merge.pods("file")) == ["1"]


def test_what_is_both_listed_and_unread_counts_as_listed() -> None:
    merge = Merge()
    merge.apply("file", Listed((pod("1"),)), NOW)
    event = Listed((pod("1", image="app:2"),), unread=frozenset({"1"}))
    assert said(merge.apply("file", event, NOW)) == [("UPDATE", ["1"])]


def test_the_same_truth_again_says_nothing() -> None:
    merge = Merge()
    merge.apply("api", Listed((pod("1"),)), NOW)
    assert merge.apply("api", Listed((pod("1"),)), LATER) == ()


def test_changes_are_delivered_in_one_order_whatever_the_order_of_the_list() -> None:
    merge = Merge()
    merge.apply("api", Listed(tuple(pod(uid) for uid in "12345")), NOW)
    event = Listed(
        (pod("6"), pod("4", phase="Running"), pod("3", deleted=NOW), pod("2", image="app:2"), pod("7"), pod("5"))
    )
    assert said(merge.apply("api", event, NOW)) == [
        ("REMOVE", ["1"]),
        ("ADD", ["6", "7"]),
        ("UPDATE", ["2"]),
        ("DELETE", ["3"]),
        ("RECONCILE", ["4"]),
    ]


def test_a_new_uid_under_an_old_name_is_one_pod_removed_and_one_added() -> None:
    merge = Merge()
    merge.apply("api", Listed((pod("1", name="web"),)), NOW)
    assert said(merge.apply("api", Listed((pod("2", name="web"),)), NOW)) == [("REMOVE", ["1"]), ("ADD", ["2"])]


# --- one pod at a time


def test_one_applied_pod_leaves_the_others_alone() -> None:
    merge = Merge()
    merge.apply("api", Listed((pod("1"), pod("2"))), NOW)
    assert said(merge.apply("api", Applied(pod("2", image="app:2")), NOW)) == [("UPDATE", ["2"])]
    assert said(merge.apply("api", Applied(pod("3")), NOW)) == [("ADD", ["3"])]
    assert list(merge.pods("api")) == ["1", "2", "3"]


def test_a_pod_that_is_gone_is_removed_as_it_was_last_known() -> None:
    merge = Merge()
    merge.apply("api", Applied(pod("1", image="app:2")), NOW)
    (update,) = merge.apply("api", Gone("1"), NOW)
    assert update.op is Op.REMOVE
    assert update.pods[0].spec.containers[0].image == "app:2"
    assert merge.apply("api", Gone("1"), NOW) == ()


def test_a_source_that_was_never_heard_of_has_nothing_to_remove() -> None:
    assert Merge().apply("api", Gone("1"), NOW) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"image": "app:2"},
        {"labels": {"a": "c"}},
        {"labels": {}},
        {"annotations": {"note": "y"}},
        {"annotations": {}},
        {"grace": 5},
    ],
    ids=str,
)
def test_a_change_of_what_is_asked_for_is_an_update(change: dict[str, Any]) -> None:
    merge = Merge()
    base: dict[str, Any] = {"labels": {"a": "b"}, "annotations": {"note": "x"}}
    merge.apply("api", Applied(pod("1", **base)), NOW)
    (update,) = merge.apply("api", Applied(pod("1", **base | change)), LATER)
    assert update.op is Op.UPDATE
    assert _asked(update.pods[0]) == _asked(pod("1", **base | change))
    assert merge.apply("api", Applied(pod("1", **base | change)), LATER) == ()


@pytest.mark.parametrize("change", [{"deleted": LATER}, {"grace": 1}, {"image": "app:2"}], ids=str)
def test_any_change_of_a_pod_that_is_to_stop_is_a_delete(change: dict[str, Any]) -> None:
    merge = Merge()
    base: dict[str, Any] = {"deleted": NOW, "grace": 30}
    assert said(merge.apply("api", Applied(pod("1")), NOW)) == [("ADD", ["1"])]
    assert said(merge.apply("api", Applied(pod("1", **base)), NOW)) == [("DELETE", ["1"])]
    assert said(merge.apply("api", Applied(pod("1", **base | change)), NOW)) == [("DELETE", ["1"])]


def test_an_unknown_pod_that_is_to_stop_is_added_first() -> None:
    assert said(Merge().apply("api", Applied(pod("1", deleted=NOW)), NOW)) == [("ADD", ["1"])]


def test_another_status_alone_is_to_be_reconciled() -> None:
    merge = Merge()
    merge.apply("api", Applied(pod("1")), NOW)
    (update,) = merge.apply("api", Applied(pod("1", phase="Running")), LATER)
    assert update.op is Op.RECONCILE
    assert update.pods[0].status.phase == "Running"
    assert merge.apply("api", Applied(pod("1", phase="Running")), LATER) == ()


def test_another_status_beside_another_spec_is_an_update_that_carries_both() -> None:
    merge = Merge()
    merge.apply("api", Applied(pod("1")), NOW)
    (update,) = merge.apply("api", Applied(pod("1", image="app:2", phase="Running")), LATER)
    assert update.op is Op.UPDATE
    assert (update.pods[0].spec.containers[0].image, update.pods[0].status.phase) == ("app:2", "Running")


def test_what_the_node_does_not_act_on_is_no_change() -> None:
    merge = Merge()
    merge.apply("api", Applied(pod("1")), NOW)
    same = pod("1")
    newer = changed(same, metadata=changed(same.metadata, resource_version="2", finalizers=("x",)))
    assert merge.apply("api", Applied(newer), NOW) == ()


# --- our own annotations


def test_the_time_a_pod_was_first_seen_survives_every_change() -> None:
    merge = Merge()
    merge.apply("api", Applied(pod("1")), NOW)
    for event in (pod("1", image="app:2"), pod("1", image="app:2", phase="Running"), pod("1", deleted=LATER)):
        (update,) = merge.apply("api", Applied(event), LATER)
        assert update.pods[0].metadata.annotations[SEEN_ANNOTATION] == rfc3339_nano(NOW)


def test_a_pod_that_comes_back_is_seen_anew() -> None:
    merge = Merge()
    merge.apply("api", Applied(pod("1")), NOW)
    merge.apply("api", Gone("1"), NOW)
    (update,) = merge.apply("api", Applied(pod("1")), LATER)
    assert update.pods[0].metadata.annotations[SEEN_ANNOTATION] == rfc3339_nano(LATER)


def test_a_source_cannot_pretend_to_be_another() -> None:
    merge = Merge()
    lie = {SOURCE_ANNOTATION: "file", SEEN_ANNOTATION: "long ago"}
    (added,) = merge.apply("api", Applied(pod("1", annotations=lie)), NOW)
    (updated,) = merge.apply("api", Applied(pod("1", annotations=lie, image="app:2")), NOW)
    for update in (added, updated):
        assert source_of(update.pods[0]) == "api"
        assert update.pods[0].metadata.annotations[SEEN_ANNOTATION] == rfc3339_nano(NOW)


def test_a_change_of_our_own_annotations_is_no_change() -> None:
    merge = Merge()
    merge.apply("api", Applied(pod("1")), NOW)
    for key in LOCAL:
        assert merge.apply("api", Applied(pod("1", annotations={key: "other"})), NOW) == ()


def test_the_mark_of_a_mirror_pod_is_kept_as_it_first_came() -> None:
    merge = Merge()
    merge.apply("api", Applied(pod("1", annotations={MIRROR_ANNOTATION: "hash-1"})), NOW)
    event = Applied(pod("1", annotations={MIRROR_ANNOTATION: "hash-2"}, image="app:2"))
    (update,) = merge.apply("api", event, NOW)
    assert update.pods[0].metadata.annotations[MIRROR_ANNOTATION] == "hash-1"


# --- duplicates


@pytest.mark.parametrize(
    "second", [pod("2", name="web", image="app:2"), pod("1", name="other", image="app:2")], ids=["name", "uid"]
)
def test_of_two_pods_with_one_name_or_uid_the_first_counts_and_the_second_is_told_of(second: Pod) -> None:
    dropped: list[tuple[Pod, str]] = []
    merge = Merge(on_duplicate=lambda pod, source: dropped.append((pod, source)))
    event = Listed((pod("1", name="web"), second, pod("3")))
    assert said(merge.apply("file", event, NOW)) == [("ADD", ["1", "3"])]
    assert dropped == [(second, "file")]
    assert merge.apply("file", event, NOW) == ()


def test_duplicates_are_dropped_even_when_nobody_listens() -> None:
    assert said(Merge().apply("file", Listed((pod("1", name="web"), pod("2", name="web"))), NOW)) == [("ADD", ["1"])]


def test_one_name_in_two_sources_is_two_pods() -> None:
    merge = Merge()
    merge.apply("file", Listed((pod("1", name="web"),)), NOW)
    assert said(merge.apply("api", Listed((pod("2", name="web"),)), NOW)) == [("ADD", ["2"])]


# --- sources


def test_static_pods_and_api_pods_never_mix() -> None:
    merge = Merge()
    merge.apply("file", Listed((pod("1"),)), NOW)
    assert said(merge.apply("api", Listed(()), NOW)) == [("ADD", [])]
    assert merge.apply("api", Gone("1"), NOW) == ()
    assert said(merge.apply("api", Applied(pod("1", image="app:2")), NOW)) == [("ADD", ["1"])]
    assert [is_static(one) for one in (merge.pods("file")["1"], merge.pods("api")["1"])] == [True, False]
    assert merge.pods("file")["1"].spec.containers[0].image == "app:1"


def test_a_source_that_starts_with_nothing_says_that_it_is_there_once() -> None:
    merge = Merge()
    (update,) = merge.apply("http", Listed(()), NOW)
    assert update == PodUpdate(Op.ADD, "http", ())
    assert merge.apply("http", Listed(()), NOW) == ()


def test_a_source_that_starts_with_pods_needs_no_empty_word() -> None:
    assert said(Merge().apply("http", Listed((pod("1"),)), NOW)) == [("ADD", ["1"])]


def test_the_empty_word_stands_between_what_goes_and_what_is_reconciled() -> None:
    merge = Merge()
    merge.apply("api", Restored((pod("1"), pod("2"))), NOW)
    event = Listed((pod("2", phase="Running"),))
    assert said(merge.apply("api", event, NOW)) == [("REMOVE", ["1"]), ("ADD", []), ("RECONCILE", ["2"])]


def test_a_source_is_seen_once_it_has_told_its_whole_truth() -> None:
    merge = Merge()
    merge.apply("api", Applied(pod("1")), NOW)
    merge.apply("api", Restored((pod("2"),)), NOW)
    merge.apply("api", Gone("1"), NOW)
    assert merge.seen == frozenset()
    merge.apply("api", Listed(()), NOW)
    assert merge.seen == {"api"}


def test_all_are_seen_when_each_has_spoken_and_its_word_was_handled() -> None:
    merge = Merge(sources=("api", "file"))
    merge.apply("api", Listed(()), NOW)
    assert not merge.seen_all({"api", "file"})
    merge.apply("file", Listed(()), NOW)
    assert not merge.seen_all({"api"})
    assert merge.seen_all({"api", "file"})


def test_nobody_has_to_be_seen_when_there_is_nobody() -> None:
    assert Merge().seen_all(())


# --- from a checkpoint


def test_restored_pods_are_delivered_before_their_source_has_spoken() -> None:
    merge = Merge()
    assert said(merge.apply("api", Restored((pod("1"), pod("2"))), NOW)) == [("RESTORE", ["1", "2"])]
    assert source_of(merge.pods("api")["1"]) == "api"


def test_what_the_source_says_counts_for_more_than_a_checkpoint() -> None:
    merge = Merge()
    merge.apply("api", Listed((pod("1", image="app:2"),)), NOW)
    assert said(merge.apply("api", Restored((pod("1"), pod("2"))), NOW)) == [("RESTORE", ["2"])]
    assert merge.pods("api")["1"].spec.containers[0].image == "app:2"


def test_the_first_list_corrects_what_was_restored() -> None:
    merge = Merge()
    merge.apply("api", Restored((pod("1"), pod("2"), pod("3"))), NOW)
    event = Listed((pod("1"), pod("2", image="app:2"), pod("4")))
    assert said(merge.apply("api", event, LATER)) == [("REMOVE", ["3"]), ("ADD", ["4"]), ("UPDATE", ["2"])]


# --- modes


def test_a_snapshot_tells_of_everything_whenever_what_is_asked_for_changes() -> None:
    merge = Merge(Notify.SNAPSHOT)
    assert said(merge.apply("file", Listed(()), NOW)) == [("SET", [])]
    assert said(merge.apply("api", Listed((pod("1"),)), NOW)) == [("SET", ["1"])]
    assert said(merge.apply("file", Applied(pod("2")), NOW)) == [("SET", ["2", "1"])]
    assert said(merge.apply("api", Applied(pod("1", image="app:2")), NOW)) == [("SET", ["2", "1"])]
    assert said(merge.apply("api", Applied(pod("1", image="app:2", phase="Running")), NOW)) == []
    assert said(merge.apply("api", Restored((pod("3"),)), NOW)) == [("SET", ["2", "1", "3"])]
    assert said(merge.apply("api", Gone("1"), NOW)) == [("SET", ["2", "3"])]


def test_snapshots_and_updates_tell_of_everything_when_pods_come_or_go() -> None:
    merge = Merge(Notify.SNAPSHOT_AND_UPDATES)
    assert said(merge.apply("file", Listed(()), NOW)) == [("SET", [])]
    assert said(merge.apply("api", Listed((pod("1"), pod("2"))), NOW)) == [("SET", ["1", "2"])]
    assert said(merge.apply("api", Applied(pod("1", image="app:2")), NOW)) == [("UPDATE", ["1"])]
    assert said(merge.apply("api", Applied(pod("2", phase="Running")), NOW)) == []
    event = Listed((pod("1", image="app:3"), pod("2", deleted=NOW), pod("3")))
    assert said(merge.apply("api", event, NOW)) == [("SET", ["1", "2", "3"]), ("UPDATE", ["1"]), ("DELETE", ["2"])]


# --- whatever the sources say

SOURCES: Final = ("api", "file", "http")
NAMES: Final = {"1": "one", "2": "two", "3": "three", "1b": "one"}  # two uids share a name

optional_text = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), max_size=2)
annotations = st.dictionaries(st.sampled_from(["note", *sorted(LOCAL)]), st.sampled_from(["x", "y"]), max_size=2)
pods = st.sampled_from(sorted(NAMES)).flatmap(
    lambda uid: st.builds(
        pod,
        st.just(uid),
        name=st.just(NAMES[uid]),
        image=st.sampled_from(["app:1", "app:2"]),
        labels=optional_text,
        annotations=annotations,
        phase=st.sampled_from(["", "Running"]),
        deleted=st.sampled_from([None, None, NOW, LATER]),
        grace=st.sampled_from([None, 0, 30]),
    )
)
pod_lists = st.lists(pods, max_size=4).map(tuple)
uids = st.sampled_from([*sorted(NAMES), "unknown"])
events: st.SearchStrategy[SourceEvent] = st.one_of(
    st.builds(Applied, pods),
    st.builds(Listed, pod_lists, st.frozensets(uids, max_size=2)),
    st.builds(Gone, uids),
    st.builds(Restored, pod_lists),
)
histories = st.lists(st.tuples(st.sampled_from(SOURCES), events), max_size=15)

Known = dict[tuple[str, str], Pod]


def _asked(one: Pod) -> object:
    """What a source asks of a pod: all that makes an update."""
    meta = one.metadata
    foreign = {key: value for key, value in meta.annotations.items() if key not in LOCAL}
    return full_name(one), one.spec, meta.labels, foreign, meta.deletion_timestamp, meta.deletion_grace_period_seconds


def _views(known: Known, *, status: bool = True) -> dict[tuple[str, str], object]:
    return {key: (_asked(one), one.status if status else None) for key, one in known.items()}


def _truth_after(truth: Known, source: str, event: SourceEvent) -> Known:
    """What is true once a source has spoken, told in the plainest way."""
    others = {key: one for key, one in truth.items() if key[0] != source}
    mine = {key: one for key, one in truth.items() if key[0] == source}
    match event:
        case Applied(one):
            mine[source, one.metadata.uid] = one
        case Gone(uid):
            mine.pop((source, uid), None)
        case Restored(several):
            for one in several:
                mine.setdefault((source, one.metadata.uid), one)
        case Listed(several, unread):
            before, mine = mine, {}
            for one in several:
                if full_name(one) not in {full_name(each) for each in mine.values()}:
                    mine[source, one.metadata.uid] = one
            mine = {key: one for key, one in before.items() if key[1] in unread} | mine
    return others | mine


def _read(known: Known, update: PodUpdate) -> Known:
    """A reader of the incremental stream: takes each update at its word, and complains when it cannot be true."""
    known = dict(known)
    for one in update.pods:
        key = update.source, one.metadata.uid
        assert source_of(one) == update.source
        before = known.get(key)
        match update.op:
            case Op.ADD | Op.RESTORE:
                assert before is None
                known[key] = one
            case Op.REMOVE:
                assert before is not None
                del known[key]
            case Op.UPDATE | Op.DELETE:
                assert before is not None
                assert _asked(before) != _asked(one)
                assert (one.metadata.deletion_timestamp is not None) == (update.op is Op.DELETE)
                known[key] = one
            case Op.RECONCILE:
                assert before is not None
                assert _asked(before) == _asked(one)
                assert before.status != one.status
                known[key] = one
            case _:
                raise AssertionError(f"{update.op} has no place in an incremental stream")
        if before is not None:
            seen = before.metadata.annotations[SEEN_ANNOTATION]
            assert one.metadata.annotations[SEEN_ANNOTATION] == seen
    return known


@settings(max_examples=60, deadline=timedelta(seconds=1))
@given(histories)
def test_who_follows_the_stream_knows_each_sources_truth(history: list[tuple[str, SourceEvent]]) -> None:
    merge, truth, known = Merge(), Known(), Known()
    for number, (source, event) in enumerate(history):
        updates = merge.apply(source, event, NOW + timedelta(seconds=number))
        truth = _truth_after(truth, source, event)
        for update in updates:
            assert update.source == source
            known = _read(known, update)
        assert _views(known) == _views(truth)
        assert {(name, uid): one for name in SOURCES for uid, one in merge.pods(name).items()} == known
        assert all(is_static(one) == (name != "api") for (name, _), one in known.items())


@settings(max_examples=40, deadline=timedelta(seconds=1))
@given(st.sampled_from(list(Notify)), histories)
def test_nothing_is_delivered_twice(notify: Notify, history: list[tuple[str, SourceEvent]]) -> None:
    merge = Merge(notify)
    for source, event in history:
        merge.apply(source, event, NOW)
        assert merge.apply(source, event, LATER) == ()


@settings(max_examples=40, deadline=timedelta(seconds=1))
@given(histories)
def test_deliveries_of_one_event_keep_their_order_and_never_name_a_pod_twice(
    history: list[tuple[str, SourceEvent]],
) -> None:
    order = [Op.REMOVE, Op.RESTORE, Op.ADD, Op.UPDATE, Op.DELETE, Op.RECONCILE]
    merge = Merge()
    for source, event in history:
        first = isinstance(event, Listed) and source not in merge.seen
        updates = merge.apply(source, event, NOW)
        positions = [order.index(update.op) for update in updates]
        assert positions == sorted(set(positions))
        named = [one.metadata.uid for update in updates for one in update.pods]
        assert len(named) == len(set(named))
        assert all(update.pods or (first and update.op is Op.ADD) for update in updates)
        assert not first or any(update.op in (Op.ADD, Op.UPDATE, Op.DELETE) for update in updates)


@settings(max_examples=40, deadline=timedelta(seconds=1))
@given(st.sampled_from([Notify.SNAPSHOT, Notify.SNAPSHOT_AND_UPDATES]), histories)
def test_who_follows_snapshots_knows_all_that_is_asked_for(
    notify: Notify, history: list[tuple[str, SourceEvent]]
) -> None:
    merge, truth, known = Merge(notify), Known(), Known()
    for source, event in history:
        truth = _truth_after(truth, source, event)
        for update in merge.apply(source, event, NOW):
            assert update.op in (Op.SET, Op.UPDATE, Op.DELETE)
            told = {(source_of(one), one.metadata.uid): one for one in update.pods}
            known = told if update.op is Op.SET else known | told
        assert _views(known, status=False) == _views(truth, status=False)
