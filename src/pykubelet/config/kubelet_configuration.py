"""The kubelet's own configuration file, read as upstream writes it, with the place of every fault."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.documents import read_document
from pykubelet.api.scheduling import Taint
from pykubelet.api.struct import Int32, Int64
from pykubelet.base.errors import Invalid
from pykubelet.config.options import OPTIONS, UNUSED, Kind

log = logging.getLogger(__name__)

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"

_KINDS: Final = {"apiVersion": Kind.TEXT, "kind": Kind.TEXT} | {each.field: each.kind for each in OPTIONS if each.field}
_FIELDS: Final = UNUSED.union(_KINDS)
_GROUPS: Final = frozenset(field.rsplit(".", depth)[0] for depth in (1, 2) for field in _FIELDS if "." in field)
_TYPES: Final[dict[Kind, Any]] = {
    Kind.TRUTH: bool,
    Kind.NUMBER: Int32,
    Kind.LONG: Int64,
    Kind.LIST: tuple[str, ...],
    Kind.ADDRESSES: tuple[str, ...],
    Kind.RESOURCES: dict[str, str],
    Kind.HEADERS: dict[str, tuple[str, ...]],
    Kind.TAINTS: tuple[Taint, ...],
}
"""How values are written in a file; those of the other kinds are text."""


def load_configuration(path: str) -> dict[str, Any]:
    """Read a configuration file, YAML or JSON. -> what it says, by the paths of the fields. Raises Invalid with the
    place of the fault."""
    try:
        document = read_document(path, Path(path).read_bytes(), KIND)
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from None
    try:
        said = dict(_said(document.value))
    except DecodeError as error:
        raise document.fault(path, error.field, error.reason) from None
    api_version, kind = said.pop("apiVersion", ""), said.pop("kind", "")
    if (api_version, kind) != (API_VERSION, KIND):
        found = f"apiVersion {api_version or '(none)'}, kind {kind or '(none)'}"
        raise document.fault(path, "", f"must be of apiVersion {API_VERSION}, kind {KIND}, but is of {found}")
    for field in _unknown_fields(document.value):
        raise document.fault(path, field, "there is no such field; is it a typing error?")
    for field in [field for field in said if field not in _KINDS]:
        log.warning("%s: %s is not used by this version and has no effect", path, field)
        del said[field]
    return said


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as a file has it, from values by the paths of their fields."""
    whole: dict[str, Any] = {}
    for field, value in values.items():
        *groups, name = field.split(".")
        place = whole
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = value
    return whole


def _said(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields that a file sets, down to where upstream's own end, with their values. A null is as if not written.
    Raises DecodeError."""
    for name, member in _checked(path.rstrip("."), dict[str, Any], value).items():
        field = f"{path}{name}"
        if field in _GROUPS and (isinstance(member, dict) or any(used.startswith(f"{field}.") for used in _KINDS)):
            yield from _said({} if member is None else member, f"{field}.")
        elif field in _KINDS and member is not None:
            yield field, _checked(field, _TYPES.get(_KINDS[field], str), member)
        elif field not in _KINDS:
            yield field, member


def _checked(field: str, kind: Any, value: object) -> Any:
    try:
        return codec.convert(kind, value)
    except DecodeError as error:
        inside = f".{error.field}" if field and error.field and error.field[0] != "[" else error.field
        raise DecodeError(error.reason, f"{field}{inside}") from None


def _unknown_fields(value: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths that upstream does not know either."""
    for name, member in value.items():
        field = f"{path}{name}"
        if field in _FIELDS:
            continue
        if field not in _GROUPS:
            yield field
        for part in member if isinstance(member, list) else [member]:
            if field in _GROUPS and isinstance(part, dict):
                yield from _unknown_fields(part, f"{field}.")
