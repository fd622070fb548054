"""The kubelet's own configuration: a file as upstream writes it, and a folder of further ones that are merged into it,
with the place of every fault."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypedDict

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.documents import Document, read_document
from pykubelet.api.durations import parse_duration
from pykubelet.api.scheduling import Taint
from pykubelet.api.struct import Int32, Int64
from pykubelet.base.errors import Invalid
from pykubelet.config.option import Kind, Option
from pykubelet.config.options import EVICTION_HARD, OPTIONS

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"

_FIELDS: Final = {option.field: option for option in OPTIONS if option.field}
_HEAD: Final = {"apiVersion": str, "kind": str}
_GROUPS: Final = frozenset(field.rsplit(".", depth)[0] for depth in (1, 2, 3) for field in _FIELDS if "." in field)


class _Module(TypedDict):
    filePattern: str
    verbosity: int


class _GracePeriod(TypedDict, total=False):
    priority: Int32
    shutdownGracePeriodSeconds: Int64


class _MemoryReservation(TypedDict, total=False):
    numaNode: Int32
    limits: dict[str, str]


_TYPES: Final[dict[Kind, Any]] = {
    Kind.TRUTH: bool,
    Kind.SWITCH: bool,
    Kind.NUMBER: Int32,
    Kind.COUNT: Int64,
    Kind.LONG: Int64,
    Kind.FLOAT: float,
    Kind.FLUSH_PERIOD: str | int,
    Kind.QUANTITY: str | int,
    Kind.LIST: tuple[str, ...],
    Kind.ADDRESSES: tuple[str, ...],
    Kind.PAIRS: dict[str, str],
    Kind.THRESHOLDS: dict[str, str],
    Kind.RESOURCES: dict[str, str],
    Kind.GATES: dict[str, bool],
    Kind.HEADERS: dict[str, tuple[str, ...]],
    Kind.TAINTS: tuple[Taint, ...],
    Kind.VMODULE: tuple[_Module, ...],
    Kind.GRACE_PERIODS: tuple[_GracePeriod, ...],
    Kind.MEMORY: tuple[_MemoryReservation, ...],
}
"""How values are written in a file; those of the other kinds are text."""
_MEMBERS: Final = {
    Kind.VMODULE: _Module.__annotations__,
    Kind.GRACE_PERIODS: _GracePeriod.__annotations__,
    Kind.MEMORY: _MemoryReservation.__annotations__,
    Kind.TAINTS: {"key": str, "value": str, "effect": str, "timeAdded": str},
}

_PATHS: Final = (
    "staticPodPath",
    "authentication.x509.clientCAFile",
    "tlsCertFile",
    "tlsPrivateKeyFile",
    "resolvConf",
    "volumePluginDir",
)
"""Those that are not absolute begin where the file is, as upstream reads them; in what is dropped in, they do not."""


def load_configuration(
    path: str, folder: str = "", *, eviction_hard: Mapping[str, str] = EVICTION_HARD
) -> dict[str, Any]:
    """What the file says and the `*.conf` files below the folder, by the paths of the fields; either may be left out.
    `eviction_hard` is what may be added to, the default. Raises Invalid with the place of the fault."""
    whole = _read(path) if path else {}
    anchored = {field: value for field, value in _said(whole) if field in _PATHS and value}
    # What pods are evicted at is added to, not replaced, by what comes after the file.
    if whole.get("evictionHard") is None:
        whole.pop("evictionHard", None)
        hard: Mapping[str, str] = eviction_hard if folder else {}
    else:
        hard = eviction_hard if whole.get("mergeDefaultEvictionSettings") else {}
    if hard:
        whole["evictionHard"] = {**hard, **whole.get("evictionHard", {})}
    for drop_in in _drop_ins(folder) if folder else ():
        whole = _merged(whole, _read(drop_in))
    said = {field: value for field, value in _said(whole) if field not in _HEAD}
    for field, value in anchored.items():
        if said.get(field) == value:
            said[field] = os.path.join(os.path.dirname(os.path.abspath(path)), value)
    if "nodeStatusUpdateFrequency" in said:
        said.setdefault("nodeStatusReportFrequency", said["nodeStatusUpdateFrequency"])
    return said


def _drop_ins(folder: str) -> Iterator[str]:
    """In the order of their names, and those of folders among them."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise Invalid(f"{folder}: cannot be read: {error.strerror}") from None
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _drop_ins(entry.path)
        elif entry.name.endswith(".conf"):
            yield entry.path


def _merged(whole: Any, patch: Any) -> Any:
    """A JSON merge patch: objects are merged, all else is replaced, and null takes away."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(whole) if isinstance(whole, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _read(path: str) -> dict[str, Any]:
    """One file, checked."""
    try:
        document = read_document(path, Path(path).read_bytes(), KIND)
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from None
    try:
        said = dict(_said(document.value))
    except DecodeError as error:
        raise document.fault(path, error.field, error.reason) from None
    api_version, kind = said.get("apiVersion", ""), said.get("kind", "")
    if (api_version, kind) != (API_VERSION, KIND):
        found = f"apiVersion {api_version or '(none)'}, kind {kind or '(none)'}"
        raise document.fault(path, "", f"must be of apiVersion {API_VERSION}, kind {KIND}, but is of {found}")
    _refuse_unknown(path, document)
    return dict(document.value)


def _refuse_unknown(path: str, document: Document) -> None:
    for field in _unknown_fields(document.value):
        raise document.fault(path, field, "there is no such field; is it a typing error?")


def _said(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields that a file sets, with their values. A null is as if not written. Raises DecodeError."""
    for name, member in _checked(path.rstrip("."), dict[str, Any], value).items():
        field = f"{path}{name}"
        if field in _HEAD:
            yield field, _checked(field, str, "" if member is None else member)
        elif field in _GROUPS and member is not None:
            yield from _said(member, f"{field}.")
        elif field in _FIELDS and member is not None:
            option = _FIELDS[field]
            checked = _checked(field, _TYPES.get(option.kind, str), member)
            if not _is_unset(option, checked):
                yield field, checked


def _is_unset(option: Option, value: Any) -> bool:
    """Upstream takes nothing and zero for the default, where it cannot tell them from what was not written."""
    match option.kind:
        case Kind.PERIOD | Kind.DURATION | Kind.SIGNED_DURATION:
            try:
                return parse_duration(value) == 0
            except ValueError:
                return False  # told as what it is, with all other values
        case Kind.TEXT | Kind.ADDRESS | Kind.SIZE | Kind.COUNT:
            return not value
    return False


def _checked(field: str, kind: Any, value: object) -> Any:
    try:
        return codec.convert(kind, value)
    except DecodeError as error:
        inside = f".{error.field}" if field and error.field and error.field[0] != "[" else error.field
        raise DecodeError(error.reason, f"{field}{inside}") from None


def _unknown_fields(value: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The paths that upstream does not know either."""
    for name, member in value.items():
        field = f"{path}{name}"
        if field in _GROUPS:
            yield from _unknown_fields(member or {}, f"{field}.")
        elif field in _FIELDS:
            members = _MEMBERS.get(_FIELDS[field].kind)
            for number, part in enumerate(member or ()) if members else ():
                yield from (f"{field}[{number}].{inner}" for inner in part if members and inner not in members)
        elif field not in _HEAD:
            yield field
