"""Server-side apply, and the record of who owns which field after any other change.

Whoever applies says all that it cares about. What it no longer says goes away, unless somebody else owns it too; what
somebody else set to another value is a conflict, unless it forces. Whoever creates, updates or patches takes what it
changes. All functions are pure: a dry run calls them and forgets the answer.
"""

import json
from datetime import datetime
from typing import Any, Final, NamedTuple

from pykubelet.apiserver.objects import timestamp
from pykubelet.apiserver.patch import field_managers, fields, typed
from pykubelet.apiserver.patch.apply_conflicts import ApplyConflict, apply_conflicts, without_last_applied
from pykubelet.apiserver.patch.created import created_fields
from pykubelet.apiserver.patch.errors import INTERNAL, PatchRefused
from pykubelet.apiserver.patch.field_managers import APPLY, UPDATE, Manager, Managers, Owned
from pykubelet.apiserver.patch.fields import NO_FIELDS, Fields
from pykubelet.apiserver.patch.reset import Reach, reach
from pykubelet.apiserver.schema.schema import ANYTHING, Json, Record, Schema, copied, empty, is_too_deep, same

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_KUBECTL: Final = "kubectl"
_STRIPPED: Final = frozenset(
    tuple(map(fields.field, path.split(".")))
    for path in (
        "apiVersion",
        "kind",
        "metadata",
        "metadata.clusterName",
        "metadata.creationTimestamp",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.name",
        "metadata.namespace",
        "metadata.resourceVersion",
        "metadata.selfLink",
        "metadata.uid",
    )
)


class _Situation(NamedTuple):
    """What stays the same throughout one request."""

    schema: Schema
    api_version: str
    reach: Reach
    now: str


def apply(
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    *,
    manager: str,
    force: bool,
    kind: str,
    api_version: str,
    schema: Schema,
    subresource: str = "",
    now: datetime,
) -> dict[str, Any]:
    """-> the object as it is to be stored, before defaulting. Raises ApplyConflict or PatchRefused."""
    _check(applied, kind, api_version)
    here = _situation(kind, api_version, schema, subresource, now)
    _check_type(applied, kind, api_version, here.schema)
    target = _bare(live) if live is not None else _empty(here.schema)
    try:
        owners = field_managers.read(_metadata(live or {}).get("managedFields"))
    except PatchRefused as error:
        raise PatchRefused(f"failed to decode managed fields: {error}", INTERNAL) from None
    if not owners and live is not None:
        first = Manager(_BEFORE_FIRST_APPLY, UPDATE, api_version, subresource)
        owners = _updated(_empty(here.schema), target, owners, first, here)
    who = Manager(manager or "unknown", APPLY, "", subresource)
    try:
        result, owners = _applied(target, applied, owners, who, force, here)
    except ApplyConflict as conflict:
        last = _annotations(target).get(_LAST_APPLIED) if manager == _KUBECTL else None
        causes = without_last_applied(conflict.causes, last or "", target, here.schema, api_version)
        if causes:
            raise ApplyConflict(causes) from None
        result, owners = _applied(target, applied, owners, who, True, here)
    if manager == _KUBECTL and _annotations(result).get(_LAST_APPLIED):
        result["metadata"]["annotations"][_LAST_APPLIED] = _last_applied(applied)
    return _with_managers(_without_new_nulls(result, live), owners)


def track_update(
    before: dict[str, Any] | None,
    after: dict[str, Any],
    *,
    manager: str,
    kind: str,
    api_version: str,
    schema: Schema,
    subresource: str = "",
    now: datetime,
) -> dict[str, Any]:
    """-> `after` with its managedFields brought up to date, as on create (`before` is None), update or patch."""
    here = _situation(kind, api_version, schema, subresource, now)
    new = _bare(after)
    owners = _current(before, after, subresource)
    if not owners and before is not None and _metadata(before).get("uid"):
        return _with_managers(new, owners)  # nobody keeps track of this object
    old = _without_record(before) if before is not None else _empty(here.schema)
    who = Manager(manager or "unknown", UPDATE, api_version, subresource)
    try:
        if before is None and not owners and not here.reach.included:
            return _with_first(old, new, who, here)
        owners = field_managers.capped(_updated(old, new, owners, who, here))
    except PatchRefused:
        return new  # an object that does not fit its type is stored without owners rather than not at all
    result = _with_managers(new, owners)
    if before is not None and _is_only_time(before, result):
        result["metadata"]["managedFields"] = copied(_metadata(before)["managedFields"])
    return result


# --- applying


def _applied(
    live: dict[str, Any], applied: dict[str, Any], owners: Managers, who: Manager, force: bool, here: _Situation
) -> tuple[dict[str, Any], Managers]:
    merged = typed.merged(live, applied, here.schema)
    last = owners.get(who)
    mine = here.reach(typed.field_set(applied, here.schema))
    owners = {**owners, who: Owned(mine, here.api_version, last.time if last else "")}
    pruned = _pruned(merged, owners, last.fields if last else NO_FIELDS, here.schema)
    owners, _ = _taken(live, pruned, owners, who, force, here)
    if who in owners:
        owned = owners[who]
        time = owned.time if same(live, pruned) and owned.time else here.now
        owners[who] = Owned(owned.fields - _STRIPPED, here.api_version, time)
    return pruned, field_managers.without_empty(owners.items())


def _pruned(merged: Json, owners: Managers, last: Fields, schema: Schema) -> Json:
    """Without what the one that applies has given up and nobody else owns."""
    if not last:
        return merged
    everything = typed.with_named_fields(typed.field_set(merged, schema), schema)
    given_up = typed.with_named_fields(last, schema)
    rest = typed.removed(merged, given_up, schema)
    kept = typed.with_named_fields(typed.field_set(rest, schema), schema)
    owned = frozenset().union(*(each.fields for each in owners.values()))
    rest = typed.removed(merged, everything - (kept | typed.with_named_fields(owned, schema)), schema)
    kept = typed.with_named_fields(typed.field_set(rest, schema), schema)
    return typed.removed(merged, (everything - kept) & given_up, schema)


def _taken(
    old: Json, new: Json, owners: Managers, who: Manager, force: bool, here: _Situation
) -> tuple[Managers, typed.Comparison]:
    """Whoever changes a field takes it from all others; by force, or not at all."""
    change = typed.compared(_with_parts(old, here.schema), _with_parts(new, here.schema), here.schema)
    change = typed.Comparison(*(here.reach(each) for each in change))
    changed = change.modified | change.added
    if not force and (causes := apply_conflicts(owners, who, changed)):
        raise ApplyConflict(causes)
    remaining = {
        other: owned if other == who else owned._replace(fields=owned.fields - changed - change.removed)
        for other, owned in owners.items()
    }
    return field_managers.without_empty(remaining.items()), change


def _updated(old: Json, new: Json, owners: Managers, who: Manager, here: _Situation) -> Managers:
    # The change is looked at as if somebody new had made it: one that owned a field before and sets it anew has changed
    # it, too, and the time of its entry with it.
    stranger = Manager("", UPDATE)
    owners, change = _taken(old, new, owners, stranger, True, here)
    mine = (change.modified | change.added) - _STRIPPED
    if not mine:
        return owners
    previous = owners.get(who)
    result = dict(owners)
    result[who] = Owned(mine | (previous.fields if previous else NO_FIELDS), here.api_version, here.now)
    return result


def _last_applied(applied: dict[str, Any]) -> str:
    last = copied(applied)
    _annotations(last).pop(_LAST_APPLIED, None)
    return json.dumps(last, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"


# --- objects


def _situation(kind: str, api_version: str, schema: Schema, subresource: str, now: datetime) -> _Situation:
    return _Situation(schema, api_version, reach(kind, schema, subresource), timestamp(now))


def _check(applied: Json, kind: str, api_version: str) -> None:
    if not isinstance(applied, dict):
        raise PatchRefused("what is applied must be an object")
    if is_too_deep(applied):
        raise PatchRefused("what is applied is nested too deeply")
    if applied.get("apiVersion") != api_version:
        raise PatchRefused(
            "Incorrect version specified in apply patch. "
            f"Specified patch version: {applied.get('apiVersion', '')}, expected: {api_version}"
        )
    if applied.get("kind") != kind:
        raise PatchRefused(f"the kind of what is applied is {applied.get('kind', '')!r}, but must be {kind!r}")
    if _metadata(applied).get("managedFields") is not None:
        raise PatchRefused("metadata.managedFields must be nil")


def _check_type(applied: dict[str, Any], kind: str, api_version: str, schema: Schema) -> None:
    try:
        typed.check(applied, schema)
    except PatchRefused as error:
        metadata = _metadata(applied)
        which = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {api_version}, Kind={kind}"
        raise PatchRefused(f"failed to create typed patch object ({which}): {error}", error.code) from None


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    metadata = value.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _annotations(value: dict[str, Any]) -> dict[str, Any]:
    annotations = _metadata(value).get("annotations")
    return annotations if isinstance(annotations, dict) else {}


def _empty(schema: Schema) -> dict[str, Any]:
    return {} if schema is ANYTHING else dict(empty(schema))


def _bare(value: dict[str, Any]) -> dict[str, Any]:
    """Without the record itself, which nobody owns."""
    return dict(copied(_without_record(value)))


def _without_record(value: dict[str, Any]) -> dict[str, Any]:
    """The same without a copy."""
    metadata = _metadata(value)
    if "managedFields" not in metadata:
        return value
    return {**value, "metadata": {name: inner for name, inner in metadata.items() if name != "managedFields"}}


def _with_parts(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """With a spec and a status even where they are empty: nobody comes to own them as a whole by filling them in."""
    if not isinstance(schema, Record):
        return value
    return {**{name: {} for name in schema.parts}, **value}


def _without_new_nulls(result: dict[str, Any], live: dict[str, Any] | None) -> dict[str, Any]:
    """A new object starts from an empty one; the lists that this leaves unset are left out."""
    if live is not None:
        return result
    return {
        name: {key: inner for key, inner in value.items() if inner is not None} if isinstance(value, dict) else value
        for name, value in result.items()
    }


def _with_first(start: dict[str, Any], value: dict[str, Any], who: Manager, here: _Situation) -> dict[str, Any]:
    """A new object, with the one that makes it."""
    schema = here.schema
    parts = _with_parts(start, schema), _with_parts(value, schema)
    owned = created_fields(*parts, schema, here.reach.excluded, _STRIPPED)
    if owned:
        entry = field_managers.entry_of(who, here.api_version, here.now, owned)
        value["metadata"] = {**_metadata(value), "managedFields": [entry]}
    return value


def _with_managers(value: dict[str, Any], owners: Managers) -> dict[str, Any]:
    if owners:
        value["metadata"] = {**_metadata(value), "managedFields": field_managers.written(owners)}
    return value


def _current(before: dict[str, Any] | None, after: dict[str, Any], subresource: str) -> Managers:
    """Who owns what so far. Clients may write the record themselves, or clear it, but not by way of a part."""
    given = _metadata(after).get("managedFields")
    if not subresource:
        if given in ([], [{}]):
            return {}
        if owners := _read_or_none(given):
            return owners
    return _read_or_none(_metadata(before or {}).get("managedFields"))


def _read_or_none(entries: Json) -> Managers:
    try:
        return field_managers.read(entries)
    except PatchRefused:
        return {}


def _is_only_time(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether nothing but the times of the record differ: then nothing was changed, and nothing is to be stored."""

    def timeless(value: dict[str, Any]) -> Json:
        entries = _metadata(value).get("managedFields")
        return [{key: each[key] for key in each if key != "time"} for each in entries or ()]

    if not _metadata(before).get("managedFields"):
        return False
    return same(timeless(before), timeless(after)) and same(_without_record(before), _without_record(after))
