"""Webhook configurations as they are used: read once, with their selectors and rules ready to be asked."""

import base64
import binascii
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from pykubelet.api.selectors import Selector, from_json
from pykubelet.apiserver.objects import UNREADABLE, Object, at

GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = "mutatingwebhookconfigurations"
VALIDATING: Final = "validatingwebhookconfigurations"
_CONVERSION: Final = 30
"""Seconds."""


class HookRule(msgspec.Struct, frozen=True):
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: frozenset[str]
    scope: str = "*"
    names: frozenset[str] = frozenset()
    """Of objects, for policies; empty: all."""


class Match(msgspec.Struct, frozen=True):
    """Which writes are meant."""

    rules: tuple[HookRule, ...] = ()
    excluded: tuple[HookRule, ...] = ()
    namespaces: Selector = ()
    objects: Selector = ()
    takes_equivalents: bool = True


_ANY: Final = frozenset("*")
_ALL: Final = Match((HookRule(_ANY, _ANY, _ANY, frozenset(["*", "*/*"])),))


class ServiceRef(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    path: str
    port: int


class Hook(msgspec.Struct, frozen=True):
    key: str
    """What tells it from all others."""
    name: str
    configuration: str
    url: str
    service: ServiceRef | None
    authorities: bytes
    """PEM; empty: those that this machine trusts."""
    match: Match
    conditions: tuple[tuple[str, str], ...]
    """Name and expression."""
    versions: tuple[str, ...]
    """Of AdmissionReview, in the order in which it likes them."""
    seconds: int
    is_closed: bool
    """When it cannot be asked, nobody may."""
    wants_again: bool
    can_dry_run: bool
    fault: str = ""
    """Why it cannot be asked, whoever would want to."""


def hooks_of(name: str, configuration: Object | None) -> tuple[Hook, ...]:
    """Of a configuration of that name; None: one that nobody can read."""
    webhooks = configuration.get("webhooks") or [] if configuration is not None else [None]
    every = enumerate(webhooks if isinstance(webhooks, list) else [None])
    return tuple(_hook_or_fault(name, number, each) for number, each in every)


def _hook_or_fault(configuration: str, number: int, given: Any) -> Hook:
    """Nobody knows what one that cannot be read would refuse: it is one that fails, for all that it may be meant by."""
    try:
        return _hook(configuration, number, given)
    except UNREADABLE as error:
        known = given if isinstance(given, dict) else {}
        name = str(known.get("name") or f"{configuration}[{number}]")
        return Hook(
            key=f"{configuration}/{name}/{number}",
            name=name,
            configuration=configuration,
            url="",
            service=None,
            authorities=b"",
            match=possible_match(known, "rules"),
            conditions=(),
            versions=(),
            seconds=10,
            is_closed=known.get("failurePolicy") != "Ignore",
            wants_again=False,
            can_dry_run=True,
            fault=f"the webhook configuration {configuration} cannot be read: {error!r}; delete it or write it anew",
        )


def conversion_hook(name: str, client: Mapping[str, Any]) -> Hook:
    """Whom a definition has its objects converted by. Raises ValueError."""
    given = {"name": f"conversion_webhook_for_{name}", "clientConfig": client, "timeoutSeconds": _CONVERSION}
    return _hook(name, 0, given)


def _hook(configuration: str, number: int, given: Mapping[str, Any]) -> Hook:
    client = given["clientConfig"]
    try:
        authorities = base64.b64decode(client.get("caBundle") or "", validate=True)
    except binascii.Error as error:
        raise ValueError(f"webhooks[{number}].clientConfig.caBundle: {error}") from None
    return Hook(
        key=f"{configuration}/{given['name']}/{number}",
        name=given["name"],
        configuration=configuration,
        url=client.get("url") or "",
        service=_service(client["service"]) if client.get("service") else None,
        authorities=authorities,
        match=match_of(given, "rules"),
        conditions=tuple((each["name"], each["expression"]) for each in given.get("matchConditions") or ()),
        versions=tuple(given.get("admissionReviewVersions") or ()),
        seconds=given.get("timeoutSeconds") or 10,
        is_closed=given.get("failurePolicy") != "Ignore",
        wants_again=given.get("reinvocationPolicy") == "IfNeeded",
        can_dry_run=given.get("sideEffects") in ("None", "NoneOnDryRun"),
    )


def _service(given: Mapping[str, Any]) -> ServiceRef:
    return ServiceRef(given["namespace"], given["name"], given.get("path") or "", given.get("port") or 443)


def match_of(given: Mapping[str, Any], rules: str) -> Match:
    """`rules`: the field that they are in. Raises ValueError."""
    return Match(
        rules=tuple(map(rule_of, given.get(rules) or ())),
        excluded=tuple(map(rule_of, given.get("excludeResourceRules") or ())),
        namespaces=from_json(given.get("namespaceSelector")),
        objects=from_json(given.get("objectSelector")),
        takes_equivalents=given.get("matchPolicy") != "Exact",
    )


def possible_match(given: Any, rules: str) -> Match:
    """The same of what may be spoilt: what cannot be read of it rather means too much than too little."""
    found = _ALL
    fields = ((rules, "rules"), ("excludeResourceRules", "excluded"), ("namespaceSelector", "namespaces"))
    for field, name in (*fields, ("objectSelector", "objects"), ("matchPolicy", "takes_equivalents")):
        if isinstance(given, dict) and given.get(field):
            with suppress(*UNREADABLE):
                part = getattr(match_of({field: given[field]}, rules), name)
                found = msgspec.structs.replace(found, **{name: part})
    return found


def rule_of(given: Mapping[str, Any]) -> HookRule:
    return HookRule(
        operations=frozenset(given.get("operations") or ()),
        groups=frozenset(given.get("apiGroups") or ()),
        versions=frozenset(given.get("apiVersions") or ()),
        resources=frozenset(given.get("resources") or ()),
        scope=given.get("scope") or "*",
        names=frozenset(given.get("resourceNames") or ()),
    )


def labels_of(obj: Object | None) -> dict[str, str]:
    found: dict[str, str] = at(obj, "metadata.labels", {})
    return found
