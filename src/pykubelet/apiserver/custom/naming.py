"""Whether the names of a definition are free: what its status says of them, and whether its resource is served."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

Names = Mapping[str, Any]


def accepted_names(crd: Mapping[str, Any]) -> Names:
    return (crd.get("status") or {}).get("acceptedNames") or {}


def decided(crd: Mapping[str, Any], taken: Iterable[Names]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The names that a definition has from now on, and the condition that says why these.

    `taken` are the names that the others of its group have.
    """
    resources, kinds = _taken(taken)
    wanted, had = crd["spec"]["names"], accepted_names(crd)
    names: dict[str, Any] = dict(had)
    fault = ("", "")
    for word, used in (("plural", resources), ("singular", resources), ("kind", kinds), ("listKind", kinds)):
        name = wanted.get(word) or ""
        if name != had.get(word) and name in used:
            fault = f"{word[0].upper()}{word[1:]}Conflict", f'"{name}" is already in use'
        else:
            names[word] = name
    short = [each for each in wanted.get("shortNames") or () if each not in (had.get("shortNames") or ())]
    if clashes := [each for each in short if each in resources]:
        fault = "ShortNamesConflict", ", ".join(f'"{each}" is already in use' for each in clashes)
    else:
        names["shortNames"] = list(wanted.get("shortNames") or ())
    names["categories"] = list(wanted.get("categories") or ())
    reason, message = fault
    condition = {
        "type": "NamesAccepted",
        "status": "False" if reason else "True",
        "reason": reason or "NoConflicts",
        "message": message or "no conflicts found",
    }
    return {word: value for word, value in names.items() if value}, condition


def _taken(taken: Iterable[Names]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for names in taken:
        resources.update((names.get("plural") or "", names.get("singular") or "", *(names.get("shortNames") or ())))
        kinds.update((names.get("kind") or "", names.get("listKind") or ""))
    return resources - {""}, kinds - {""}


def established(crd: Mapping[str, Any], *, is_accepted: bool) -> dict[str, Any]:
    """The condition that says whether the resource is served. What was once served stays so."""
    for each in (crd.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Established" and each.get("status") == "True":
            return dict(each)
    return {
        "type": "Established",
        "status": "True" if is_accepted else "False",
        "reason": "InitialNamesAccepted" if is_accepted else "NotAccepted",
        "message": "the initial names have been accepted" if is_accepted else "not all names are accepted",
    }


def is_established(crd: Mapping[str, Any]) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Established" and each.get("status") == "True" for each in conditions)


APPROVAL: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = (".k8s.io", ".kubernetes.io")


def is_protected(group: str) -> bool:
    """Whether it is one of Kubernetes' own, which need a word of whoever has approved them."""
    return f".{group}".endswith(_PROTECTED)


def approval(crd: Mapping[str, Any]) -> dict[str, Any] | None:
    """The condition that says whether somebody has; None for groups that need nobody."""
    if not is_protected(crd["spec"]["group"]):
        return None
    given = (crd["metadata"].get("annotations") or {}).get(APPROVAL) or ""
    found = {"type": "KubernetesAPIApprovalPolicyConformant", "status": "False"}
    if not given:
        missing = f"protected groups must have approval annotation {APPROVAL!r}"
        return {**found, "reason": "MissingAnnotation", "message": missing}
    if given.startswith("unapproved"):
        return {**found, "reason": "UnapprovedAnnotation", "message": f"not approved: {given}"}
    return {**found, "status": "True", "reason": "ApprovedAnnotation", "message": f"approved in {given}"}
