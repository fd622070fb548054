"""The record of who owns what: read, written, and kept from growing."""

from typing import Any

import pytest

from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.field_managers import (
    APPLY,
    UPDATE,
    Manager,
    Managers,
    Owned,
    capped,
    read,
    without_empty,
    written,
)
from pykubelet.apiserver.patch.fields import NO_FIELDS, Fields

A: Fields = frozenset({("f:a",)})
B: Fields = frozenset({("f:b",)})


def entry(manager: str, operation: str, time: str = "2026-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
    fixed = {"apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
    return {"manager": manager, "operation": operation, **fixed, **more}


def updater(name: str, minute: int, fields: Fields = A, version: str = "v1") -> tuple[Manager, Owned]:
    return Manager(name, UPDATE, version), Owned(fields, version, f"2026-01-01T00:{minute:02}:00Z")


def test_a_record_is_the_same_after_it_was_read_and_written() -> None:
    entries = [
        entry("b", APPLY),
        entry("a", APPLY, "2026-01-02T00:00:00Z"),
        entry("b", UPDATE),
        entry("b", UPDATE, subresource="status"),
        entry("b", UPDATE, "2026-01-02T00:00:00Z", apiVersion="v2"),
    ]
    assert written(read(entries)) == entries
    assert written(read(entries[::-1])) == entries, "those that apply first, then by time and name"


def test_one_that_applies_is_one_whatever_its_version_and_one_that_updates_is_not() -> None:
    both = [entry("m", operation, apiVersion=version) for operation in (APPLY, UPDATE) for version in ("v1", "v2")]
    assert list(read(both)) == [Manager("m", APPLY), Manager("m", UPDATE, "v1"), Manager("m", UPDATE, "v2")]
    assert read(None) == read([]) == {}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("x", "operation must be `Apply` or `Update`"),
        ({}, "operation must be `Apply` or `Update`"),
        (entry("m", "Steal"), "operation must be `Apply` or `Update`"),
        (entry("m", APPLY, apiVersion=""), "apiVersion must not be empty"),
        (entry("m", APPLY, apiVersion=1), "apiVersion must not be empty"),
        (entry("m", APPLY, fieldsType="FieldsV2"), "invalid fieldsType 'FieldsV2' in managed fields entry 1"),
        (entry("m", APPLY, fieldsV1={"a": {}}), "must begin with"),
    ],
)
def test_one_entry_that_makes_no_sense_spoils_the_record(wrong: Any, message: str) -> None:
    with pytest.raises(PatchRefused, match=message):
        read([entry("good", APPLY), wrong])


@pytest.mark.parametrize(
    ("manager", "shown"),
    [
        (Manager("m", APPLY), '"m"'),
        (Manager("m", UPDATE, "v1"), '"m" using v1'),
        (Manager("m", UPDATE, "v1", "status"), '"m" with subresource "status" using v1'),
    ],
)
def test_a_manager_as_a_person_reads_it(manager: Manager, shown: str) -> None:
    assert manager.shown() == shown


def test_of_too_many_updaters_the_oldest_are_thrown_together_version_by_version() -> None:
    managers: Managers = dict([updater("a", 1), updater("b", 2, B), updater("c", 3), updater("d", 4, version="v2")])
    managers[Manager("x", APPLY)] = Owned(A, "v1")
    assert capped(managers, 4) == managers
    fewer = capped(managers, 3)
    ancient = Manager("ancient-changes", UPDATE, "v1")
    assert fewer[ancient] == Owned(A | B, "v1", "2026-01-01T00:02:00Z")
    assert set(fewer) == {ancient, *(each for each in managers if each.name in "cdx")}
    fewest = capped(managers, 1)
    assert {each.name for each in fewest} == {"ancient-changes", "d", "x"}, "versions are not mixed"


def test_who_owns_nothing_is_not_in_the_record() -> None:
    one, other = updater("a", 1), updater("b", 2, NO_FIELDS)
    assert without_empty([one, other]) == dict([one])
