"""What a request asks for besides its object: the parameters of lists, watches, writes and deletes."""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported
from pykubelet.api.struct import Int64, Struct
from pykubelet.apiserver import status

META_GROUP: Final = "meta.k8s.io"
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("", "0", "f", "F", "false", "FALSE", "False")
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]*")


def flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "")
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise status.bad_request(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


class ListOptions(msgspec.Struct, frozen=True):
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continued: str = ""
    version: str = ""
    match: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    timeout: int | None = None


def list_options(query: Mapping[str, str], verb: str) -> ListOptions:
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=max(0, number(query, "limit") or 0),
        continued=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        watch=verb == "watch",
        bookmarks=flag(query, "allowWatchBookmarks"),
        initial_events=flag(query, "sendInitialEvents") if "sendInitialEvents" in query else None,
        timeout=number(query, "timeoutSeconds"),
    )
    errors = list(_watch_faults(options) if options.watch else _list_faults(options))
    if errors:
        raise status.invalid("ListOptions", META_GROUP, "", errors)
    return options


def _list_faults(options: ListOptions) -> Sequence[FieldError]:
    errors = []
    if options.match:
        if not options.version:
            errors.append(forbidden("resourceVersionMatch", "is of no use without a resourceVersion"))
        if options.continued:
            errors.append(forbidden("resourceVersionMatch", "may not be given together with continue"))
        if options.match not in ("Exact", "NotOlderThan"):
            errors.append(not_supported("resourceVersionMatch", options.match, ("Exact", "NotOlderThan", "")))
        if options.match == "Exact" and options.version == "0":
            errors.append(forbidden("resourceVersionMatch", 'may not be "Exact" for the resourceVersion "0"'))
    if options.initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "is for watches only"))
    return errors


def _watch_faults(options: ListOptions) -> Sequence[FieldError]:
    errors = []
    if options.initial_events is not None and options.match != "NotOlderThan":
        errors.append(forbidden("resourceVersionMatch", "has to be NotOlderThan when sendInitialEvents is given"))
    if options.match:
        if options.initial_events is None:
            errors.append(forbidden("resourceVersionMatch", "is of no use in a watch without sendInitialEvents"))
        if options.match != "NotOlderThan":
            errors.append(not_supported("resourceVersionMatch", options.match, ("NotOlderThan",)))
        if options.continued:
            errors.append(forbidden("resourceVersionMatch", "may not be given together with continue"))
    return errors


def revision(text: str) -> int:
    """A resourceVersion as a number; 0 when there is none, or any will do."""
    if not text:
        return 0
    if not re.fullmatch(r"[0-9]{1,19}", text, re.ASCII):
        raise status.bad_request(f'invalid resource version: strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


class Token(msgspec.Struct, frozen=True):
    """Where the next page of a list begins."""

    v: str
    rv: int
    start: str


def continue_token(at: int, start: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(Token("meta.k8s.io/v1", at, start))).decode().rstrip("=")


def parse_token(text: str) -> Token:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Token)
    except (binascii.Error, msgspec.DecodeError, ValueError):
        raise status.bad_request("continue key is not valid: start over without it") from None
    if token.v != "meta.k8s.io/v1" or token.rv < 1 or not token.start or token.start.startswith("/"):
        raise status.bad_request("continue key is not valid: start over without it")
    return token


class WriteOptions(msgspec.Struct, frozen=True):
    manager: str
    dry_run: bool = False
    validation: str = "Warn"
    force: bool | None = None


def write_options(query: Mapping[str, Any], dry_run: Sequence[str], verb: str, user_agent: str) -> WriteOptions:
    kind = f"{verb.capitalize()}Options"
    errors = []
    if any(each != "All" for each in dry_run):
        errors.append(FieldError("FieldValueNotSupported", "dryRun", 'supported values: "All"', list(dry_run)))
    validation = query.get("fieldValidation", "")
    if validation not in ("", "Ignore", "Warn", "Strict"):
        errors.append(not_supported("fieldValidation", validation, ("Ignore", "Warn", "Strict")))
    manager = query.get("fieldManager", "")
    if len(manager) > 128:
        errors.append(FieldError("FieldValueTooLong", "fieldManager", "may not be more than 128 bytes"))
    if not _PRINTABLE.fullmatch(manager):
        errors.append(invalid("fieldManager", manager, "should only contain printable characters"))
    force = flag(query, "force") if "force" in query else None
    if errors:
        raise status.invalid(kind, META_GROUP, "", errors)
    if not manager:
        manager = user_agent.partition("/")[0][:128] or "unknown"
    return WriteOptions(manager, bool(dry_run), validation or "Warn", force)


class Preconditions(Struct, frozen=True):
    """Which object is meant: another of its name is not deleted."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct, frozen=True):
    grace_period_seconds: Int64 | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    dry_run: tuple[str, ...] = ()
