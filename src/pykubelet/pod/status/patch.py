"""The smallest change that turns the status an API server shows into the one that the node reports.

It is a strategic merge patch: lists with a merge key grow when they are patched, so each of them needs care.
"""

from typing import Any, Final

from pykubelet.api import codec
from pykubelet.api.pod import PodStatus
from pykubelet.pod.status.conditions import OWN_CONDITIONS

_REPLACED: Final = frozenset(("hostIPs", "podIPs"))
"""Lists that an API server merges by `ip`: without being told it would keep the old addresses."""
_OTHERS: Final = frozenset(("resourceClaimStatuses", "extendedResourceClaimStatus"))
"""Never the node's to change."""

_Json = dict[str, Any]


def status_patch(uid: str, shown: PodStatus, wanted: PodStatus) -> _Json | None:
    """The patch for `pods/status`, or None when there is nothing to change.

    The uid keeps it from reaching another pod of the same name. A field that is empty now is null, which removes it.
    """
    old, new = codec.to_builtins(shown), codec.to_builtins(wanted)
    changes: _Json = {}
    for field in sorted(old.keys() | new.keys()):
        before, after = old.get(field), new.get(field)
        if before == after or field in _OTHERS or _is_kept(field, before, after):
            continue
        if field == "conditions":
            if conditions := _conditions(before or [], after or []):
                changes[field] = conditions
        elif field in _REPLACED and after:
            changes[field] = [{"$patch": "replace"}, *after]
        else:
            changes[field] = after
    return {"metadata": {"uid": uid}, "status": changes} if changes else None


def _is_kept(field: str, before: Any, after: Any) -> bool:
    """Whether a field is one that an API server would not let us change that way, or that others rely on."""
    match field:
        case "qosClass":  # immutable
            return before is not None
        case "observedGeneration":  # only grows
            return after is None or (before is not None and before > after)
        case "startTime":
            return after is None
        case _:
            return False


def _conditions(before: list[_Json], after: list[_Json]) -> list[_Json]:
    """Those that changed, whole, and the removal of our own that are no more. Others' conditions are left alone."""
    old, new = ({condition["type"]: condition for condition in conditions} for conditions in (before, after))
    patches: list[_Json] = []
    for type, condition in new.items():
        shown = old.get(type, {})
        if condition != shown:
            patches.append({**dict.fromkeys(shown), **condition})
    patches += [{"$patch": "delete", "type": type} for type in old if type in OWN_CONDITIONS and type not in new]
    return patches
