"""`metadata.managedFields`: who set which fields, how, and when.

One that applies is the same whatever version of the API it used last; one that updates is another for each version. A
part of an object such as its status has managers of its own.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.fields import Fields, decoded, encoded
from pykubelet.apiserver.schema.schema import Json

APPLY: Final = "Apply"
UPDATE: Final = "Update"
MOST_UPDATERS: Final = 10

_ANCIENT: Final = "ancient-changes"


class Manager(NamedTuple):
    """Who: what makes an entry of managedFields another one."""

    name: str
    operation: str
    api_version: str = ""  # empty for one that applies
    subresource: str = ""

    def shown(self) -> str:
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Owned(NamedTuple):
    """What somebody owns, since when, in which version of the API."""

    fields: Fields
    api_version: str
    time: str = ""


Managers = dict[Manager, Owned]


def read(entries: Json) -> Managers:
    """From the wire. Entries that make no sense are refused as a whole."""
    managers: Managers = {}
    for index, entry in enumerate(entries or ()):
        if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE):
            raise PatchRefused("operation must be `Apply` or `Update`")
        api_version = entry.get("apiVersion")
        if not isinstance(api_version, str) or not api_version:
            raise PatchRefused("apiVersion must not be empty")
        if entry.get("fieldsType") != "FieldsV1":
            raise PatchRefused(f"invalid fieldsType {entry.get('fieldsType', '')!r} in managed fields entry {index}")
        owned = Owned(decoded(entry.get("fieldsV1") or {}), api_version, entry.get("time") or "")
        managers[_manager(entry, api_version)] = owned
    return managers


def _manager(entry: dict[str, Any], api_version: str) -> Manager:
    operation = entry["operation"]
    version = "" if operation == APPLY else api_version
    return Manager(entry.get("manager") or "", operation, version, entry.get("subresource") or "")


def written(managers: Managers) -> list[dict[str, Any]]:
    """For the wire: those that apply first, then by time."""

    def place(entry: tuple[Manager, Owned]) -> tuple[str, ...]:
        manager, owned = entry
        return manager.operation, owned.time, manager.name, owned.api_version, manager.subresource

    return [_entry(manager, owned) for manager, owned in sorted(managers.items(), key=place)]


def _entry(manager: Manager, owned: Owned) -> dict[str, Any]:
    return entry_of(manager, owned.api_version, owned.time, encoded(owned.fields))


def entry_of(manager: Manager, api_version: str, time: str, tree: dict[str, Any]) -> dict[str, Any]:
    """`tree` is what he owns, as FieldsV1."""
    entry: dict[str, Any] = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
        "subresource": manager.subresource,
    }
    return {key: value for key, value in entry.items() if value != ""}


def capped(managers: Managers, most: int = MOST_UPDATERS) -> Managers:
    """No more than so many that update: the oldest are thrown together, version by version."""
    updaters = [(owned.time, manager) for manager, owned in managers.items() if manager.operation == UPDATE]
    result = dict(managers)
    first: dict[str, Manager] = {}
    excess = len(updaters) - most
    for _, manager in sorted(updaters):
        if excess <= 0:
            break
        version = result[manager].api_version
        bucket = Manager(_ANCIENT, UPDATE, version)
        if version not in first:
            first[version] = manager
            continue
        if bucket not in result:
            result[bucket] = result.pop(first[version])
        if manager != bucket:
            owned = result.pop(manager)
            result[bucket] = Owned(result[bucket].fields | owned.fields, version, owned.time)
            excess -= 1
    return result


def without_empty(managers: Iterable[tuple[Manager, Owned]]) -> Managers:
    return {manager: owned for manager, owned in managers if owned.fields}
