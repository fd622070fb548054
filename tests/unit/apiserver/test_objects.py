"""How objects are stored, sent and cleaned."""

import json
from datetime import UTC, datetime

import pytest

from pykubelet.apiserver.objects import clean, listed, loaded, moment, overlay, sent, stored
from pykubelet.apiserver.schema.kinds import Resources

POD = {"kind": "Pod", "spec": {"a": 1}, "metadata": {"name": "p", "resourceVersion": "3"}, "apiVersion": "v1"}
HEAD = Resources().of("", "pods").head


def test_what_is_stored_begins_with_its_head_and_has_no_version() -> None:
    data = stored(POD)
    assert data.startswith(HEAD)
    assert b"resourceVersion" not in data


def test_the_version_is_put_in_without_decoding() -> None:
    assert json.loads(sent(stored(POD), 7, HEAD)) == loaded(stored(POD), 7)
    item = json.loads(listed(stored(POD), 7, HEAD))
    assert item == {"metadata": {"name": "p", "resourceVersion": "7"}, "spec": {"a": 1}}


def test_objects_that_somebody_else_wrote_in_another_order_are_sent_as_well() -> None:
    foreign = json.dumps({"spec": {}, "metadata": {"name": "p"}, "kind": "Pod", "apiVersion": "v1"}).encode()
    assert json.loads(sent(foreign, 7, HEAD))["metadata"] == {"name": "p", "resourceVersion": "7"}
    assert "kind" not in json.loads(listed(foreign, 7, HEAD))


def test_unknown_fields_nulls_and_empty_lists_are_not_kept() -> None:
    schema = Resources().of("", "pods").schema
    given = {
        "bogus": 1,
        "metadata": {"name": "p", "labels": {}, "annotations": None},
        "spec": {"containers": [{"name": "c", "nonsense": 1, "securityContext": {}}], "volumes": []},
    }
    kept = clean(given, schema)
    container = {"name": "c", "securityContext": {}, "resources": {}}
    assert kept == {"metadata": {"name": "p"}, "spec": {"containers": [container]}, "status": {}}


def test_a_typed_view_is_laid_over_without_losing_what_it_does_not_know() -> None:
    raw = {"a": {"x": "1000m", "new": True}, "list": [{"b": 1, "new": 2}]}
    known = {"a": {"x": "1"}, "list": [{"b": 1, "c": 3}], "added": 0}
    expected = {"a": {"x": "1", "new": True}, "list": [{"b": 1, "new": 2, "c": 3}], "added": 0}
    assert overlay(raw, known) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_what_is_no_time_is_none(text: str | None, expected: datetime | None) -> None:
    assert moment(text) == expected
