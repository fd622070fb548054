"""What one rule of a role allows, and which rules are contained in others. Pure: plain values in, plain answers out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykubelet.apiserver.requests.request_info import RequestInfo

ANY: Final = "*"
GROUP: Final = "rbac.authorization.k8s.io"
_FIELDS: Final = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")
"""In the order in which a refusal names them."""


class Rule(msgspec.Struct, frozen=True, gc=False):
    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Empty: every object."""
    paths: tuple[str, ...] = ()

    def json(self) -> dict[str, Any]:
        """As a role has it."""
        values = (self.groups, self.resources, self.paths, self.names, self.verbs)
        return {field: list(value) for field, value in zip(_FIELDS, values, strict=True) if value}


MOST_COMPARED: Final = 5_000_000
"""Comparisons of one part with one value of a rule: a tenth of a second."""
MOST_LOOKED_AT: Final = 2_000_000
"""Values of rules that are looked for in one other rule each: as long."""
EVERYTHING: Final = (Rule(verbs=(ANY,), groups=(ANY,), resources=(ANY,)), Rule(verbs=(ANY,), paths=(ANY,)))


def rules_of(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Of a Role or a ClusterRole. Raises TypeError and AttributeError when it is none."""
    return tuple(rule_of(each) for each in role.get("rules") or ())


def rule_of(rule: Mapping[str, Any]) -> Rule:
    groups, resources, paths, names, verbs = (_texts(rule.get(field)) for field in _FIELDS)
    return Rule(verbs, groups, resources, names, paths)


def _texts(value: Any) -> tuple[str, ...]:
    if value is not None and not isinstance(value, list):
        raise TypeError(f"a list of texts is expected, not {value!r}")
    found = tuple(value or ())
    if not all(isinstance(each, str) for each in found):
        raise TypeError(f"texts are expected, not {value!r}")
    return found


# --- what a rule allows


def allows(rule: Rule, info: RequestInfo, name: str) -> bool:
    """`name`: the one object that the request is about, also where a selector says so."""
    if info.verb not in rule.verbs and ANY not in rule.verbs:
        return False
    if not info.is_resource:
        return any(path_covers(path, info.path) for path in rule.paths)
    if info.group not in rule.groups and ANY not in rule.groups:
        return False
    if rule.names and name not in rule.names:
        return False
    resources = rule.resources
    if ANY in resources:
        return True
    if not info.subresource:
        return info.resource in resources
    return f"{info.resource}/{info.subresource}" in resources or f"*/{info.subresource}" in resources


def path_covers(path: str, asked: str) -> bool:
    """A star at the end stands for anything."""
    return path == asked or (path.endswith(ANY) and asked.startswith(path.rstrip(ANY)))


# --- what rules contain


class TooMany(ValueError):
    """Rules that come to so many parts that nobody could wait for all of them to be compared."""


def uncovered(owned: Sequence[Rule], given: Iterable[Rule]) -> list[Rule]:
    """The smallest parts of `given` that no rule of `owned` contains. Raises TooMany."""
    open_ = list(_open(owned, given))
    weight = sum(1 + sum(map(len, (*_sorts(owner), owner.names, owner.paths))) for owner in owned)
    if sum(map(count_parts, open_)) * max(1, weight) > MOST_COMPARED:
        raise TooMany("its rules have too many combinations of groups, resources, names and verbs to be checked")
    return [part for rule in open_ for part in parts_of(rule) if not any(_covers(owner, part) for owner in owned)]


def count_parts(rule: Rule) -> int:
    of_objects = len(rule.groups) * len(rule.resources) * len(rule.verbs) * max(1, len(rule.names))
    return of_objects + len(rule.paths) * len(rule.verbs)


def _open(owned: Sequence[Rule], given: Iterable[Rule]) -> Iterator[Rule]:
    """Those of which it is not seen at a glance that another contains them. Raises TooMany."""
    owners = [tuple(map(frozenset, _sorts(owner))) for owner in owned if not owner.names]
    left = MOST_LOOKED_AT
    for rule in dict.fromkeys(given):
        sorts = _sorts(rule)
        weight = 1 + sum(map(len, sorts))
        for owner in owners if not rule.paths else ():
            left -= weight
            if left < 0:
                raise TooMany("it has too many rules to be checked")
            if all(ANY in has or has.issuperset(wants) for has, wants in zip(owner, sorts, strict=True)):
                break
        else:
            yield rule


def _sorts(rule: Rule) -> tuple[tuple[str, ...], ...]:
    return rule.verbs, rule.groups, rule.resources


def parts_of(rule: Rule) -> Iterator[Rule]:
    """Rules with one value of each sort, which together allow the same."""
    each_name: list[tuple[str, ...]] = [(name,) for name in rule.names]
    for group in rule.groups:
        for resource in rule.resources:
            for verb in rule.verbs:
                for names in each_name or [()]:
                    yield Rule((verb,), (group,), (resource,), names)
    for path in rule.paths:
        for verb in rule.verbs:
            yield Rule(verbs=(verb,), paths=(path,))


def _covers(owner: Rule, part: Rule) -> bool:
    if ANY not in owner.verbs and part.verbs[0] not in owner.verbs:
        return False
    if part.paths:
        return not owner.names and any(path_covers(path, part.paths[0]) for path in owner.paths)
    if ANY not in owner.groups and part.groups[0] not in owner.groups:
        return False
    if owner.names and (not part.names or part.names[0] not in owner.names):
        return False
    resource = part.resources[0]
    if ANY in owner.resources or resource in owner.resources:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in owner.resources


def described(parts: Iterable[Rule]) -> list[str]:
    """Each as a refusal names it, with the verbs for the same objects together."""
    merged: dict[tuple[Any, ...], Rule] = {}
    for number, part in enumerate(parts):
        is_simple = not part.paths
        key = (part.groups, part.resources, part.names) if is_simple else (number,)
        known = merged.get(key)
        merged[key] = part if known is None else msgspec.structs.replace(known, verbs=known.verbs + part.verbs)
    return sorted({_text(rule) for rule in merged.values()})


def _text(rule: Rule) -> str:
    values = (
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.paths),
        ("ResourceNames", rule.names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{field}:{quoted(value)}" for field, value in values if value) + "}"


def quoted(values: Iterable[str]) -> str:
    """A list of texts, as upstream writes it."""
    return "[" + " ".join(msgspec.json.encode(each).decode() for each in values) + "]"
