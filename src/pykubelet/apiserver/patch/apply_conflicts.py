"""Apply conflicts: which fields that others own an apply would change, whose they are, and what is said about it."""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from pykubelet.apiserver.patch import typed
from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.field_managers import Manager, Owned
from pykubelet.apiserver.patch.fields import Fields, Path, in_order, shown
from pykubelet.apiserver.schema.schema import Json, Schema
from pykubelet.base.errors import Conflict


class Cause(NamedTuple):
    """One field that is somebody else's."""

    manager: Manager
    path: Path

    @property
    def message(self) -> str:
        return f"conflict with {self.manager.shown()}"

    @property
    def field(self) -> str:
        return shown(self.path)


class ApplyConflict(Conflict):
    """What is applied would change fields that others own. Status 409; every cause is a FieldManagerConflict."""

    reason: Final = "FieldManagerConflict"

    def __init__(self, causes: list[Cause]) -> None:
        super().__init__(_said(causes))
        self.causes = causes


def apply_conflicts(owners: Mapping[Manager, Owned], who: Manager, changed: Fields) -> list[Cause]:
    """What of the changed fields is owned by others, manager by manager."""
    others = sorted(other for other in owners if other != who)
    return [Cause(other, path) for other in others for path in in_order(owners[other].fields & changed)]


def without_last_applied(
    causes: list[Cause], last_applied: str, live: Json, schema: Schema, api_version: str
) -> list[Cause]:
    """kubectl may take over what it applied from the client's side before, as far as it still is what it was."""
    try:
        last = json.loads(last_applied)
        if not isinstance(last, dict) or last.get("apiVersion") != api_version:
            return causes
        typed.check(last, schema)
        change = typed.compared(last, live, schema)
        mine = typed.field_set(last, schema) - change.modified - change.added - change.removed
    except (PatchRefused, ValueError, RecursionError):
        return causes
    return [cause for cause in causes if cause.path not in mine]


def _said(causes: list[Cause]) -> str:
    if len(causes) == 1:
        return f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    lines: list[str] = []
    for manager in dict.fromkeys(cause.manager for cause in causes):
        lines.append(f"conflicts with {manager.shown()}:")
        lines += [f"- {cause.field}" for cause in causes if cause.manager == manager]
    return f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
