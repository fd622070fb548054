"""Small sentences that many rules are made of: what is required, one of a few, well spelled, within a range."""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from pykubelet.api.field_errors import invalid, not_supported, required
from pykubelet.api.validation import names
from pykubelet.api.validation.options import Errors

T = TypeVar("T")


def spelled(field: str, value: object, faults: names.Faults) -> Errors:
    for fault in faults:
        yield invalid(field, value, fault)


def filled(field: str, value: object) -> Errors:
    if not value:
        yield required(field)


def needed(field: str, value: T, rule: Callable[[T], names.Faults]) -> Errors:
    """Must be there, and as the rule wants it."""
    if value:
        yield from spelled(field, value, rule(value))
    else:
        yield required(field)


def one_of(field: str, value: str, choices: Sequence[str]) -> Errors:
    if value not in choices:
        yield not_supported(field, value, tuple(choices))


def needed_one_of(field: str, value: str, choices: Sequence[str]) -> Errors:
    if value:
        yield from one_of(field, value, choices)
    else:
        yield required(field, f"is required: one of {', '.join(choices)}")


def not_negative(field: str, value: int | None) -> Errors:
    if value is not None and value < 0:
        yield invalid(field, value, "must be at least 0")


def positive(field: str, value: int) -> Errors:
    if value <= 0:
        yield invalid(field, value, "must be greater than 0")


def file_mode(field: str, mode: int | None) -> Errors:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(field, mode, "must be between 0 and 0777 octal, which is 511 decimal")


def relative_path(field: str, path: str) -> Errors:
    if path.startswith("/"):
        yield invalid(field, path, "must be a relative path, without a '/' at its start")
    yield from no_backsteps(field, path)


def no_backsteps(field: str, path: str) -> Errors:
    if ".." in path.split("/"):
        yield invalid(field, path, "must not contain '..' as a part of the path")


def projected_path(field: str, path: str) -> Errors:
    """A relative path that does not collide with the node's own files, whose names start with two dots."""
    yield from relative_path(field, path)
    if path.startswith("..") and not path.startswith("../"):
        yield invalid(field, path, "must not start with '..'")


def unique(field: str, path: str, taken: set[str]) -> Errors:
    """Each file of one volume has a path of its own."""
    if path in taken:
        yield invalid(field, path, "has two files at the same path: give each a path of its own")
    taken.add(path)


def shown(values: Collection[str]) -> str:
    return ", ".join(sorted(values)) or "none"
