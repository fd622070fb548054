"""What a job is to do, by itself or in the template of a cron job: what is filled in, and what makes no sense."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, duplicate, invalid, not_supported, required, too_long, too_many
from pykubelet.api.rules.completion_indexes import format_fault
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import not_negative, spelled
from pykubelet.apiserver.objects import at
from pykubelet.apiserver.strategies.pod_templates import template_faults

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_MOST_PARALLEL: Final = 100_000
_MOST_FAILED: Final = 100_000
_MANY: Final = 100_000
"""Completions above which a job that counts by index has to stay within narrower bounds."""
_MOST_OF_MANY: Final = 10_000
_LONGEST_INDEXES: Final = 64 * 1024
_LONGEST_MANAGER: Final = 63
_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
Spec = dict[str, Any]


def fill_spec(spec: Spec) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    policy = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"


def spec_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    """All but what concerns the selector."""
    for name in _COUNTS:
        yield from not_negative(f"{path}.{name}", spec.get(name))
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if (manager := spec.get("managedBy")) is not None:
        yield from spelled(f"{path}.managedBy", manager, _manager_faults(manager))
        if len(manager) > _LONGEST_MANAGER:
            yield too_long(f"{path}.managedBy", _LONGEST_MANAGER)
    yield from _mode_faults(spec, path)
    yield from _failure_policy_faults(spec, f"{path}.podFailurePolicy")
    yield from _success_policy_faults(spec, f"{path}.successPolicy")
    yield from _replacement_faults(spec, f"{path}.podReplacementPolicy")
    yield from template_faults(spec.get("template") or {}, f"{path}.template")
    yield from _restart_faults(spec, f"{path}.template.spec.restartPolicy")


def _mode_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    mode = spec.get("completionMode", "NonIndexed")
    match mode:
        case "Indexed":
            yield from _indexed_faults(spec, path)
        case "NonIndexed":
            for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
                if spec.get(name) is not None:
                    yield invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
        case _:
            yield not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))


def _indexed_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    completions, parallelism, failed = spec.get("completions"), spec.get("parallelism", 1), spec.get("maxFailedIndexes")
    if completions is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if parallelism > _MOST_PARALLEL:
        text = f"must be less than or equal to {_MOST_PARALLEL} when completion mode is Indexed"
        yield invalid(f"{path}.parallelism", parallelism, text)
    if completions is not None and failed is not None and failed > completions:
        yield invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > _MOST_FAILED:
        yield invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_FAILED}")
    if completions is None or completions <= _MANY or spec.get("backoffLimitPerIndex") is None:
        return
    text = (
        f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MANY} "
        "and used with backoff limit per index"
    )
    if failed is None:
        yield required(f"{path}.maxFailedIndexes", f"must be specified when completions is above {_MANY}")
    if parallelism > _MOST_OF_MANY:
        yield invalid(f"{path}.parallelism", parallelism, text)
    if failed is not None and failed > _MOST_OF_MANY:
        yield invalid(f"{path}.maxFailedIndexes", failed, text)


def _failure_policy_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    if len(rules) > _MOST_RULES:
        yield too_many(f"{path}.rules", _MOST_RULES, len(rules))
    pod = at(spec, "template.spec", {})
    known = {each.get("name") for each in (*pod.get("containers", ()), *pod.get("initContainers", ()))}
    for number, rule in enumerate(rules):
        yield from _rule_faults(spec, rule, f"{path}.rules[{number}]", known)


def _rule_faults(spec: Spec, rule: Mapping[str, Any], path: str, known: set[Any]) -> Iterator[FieldError]:
    action, codes, patterns = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if not action:
        yield required(f"{path}.action", f"valid values: {_quoted(_ACTIONS)}")
    elif action not in _ACTIONS:
        yield not_supported(f"{path}.action", action, _ACTIONS)
    elif action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    if codes is not None:
        yield from _code_faults(codes, f"{path}.onExitCodes", known)
    if len(patterns) > _MOST_RULES:
        yield too_many(f"{path}.onPodConditions", _MOST_RULES, len(patterns))
    for number, pattern in enumerate(patterns):
        where, kind = f"{path}.onPodConditions[{number}]", pattern.get("type", "")
        yield from spelled(f"{where}.type", kind, names.qualified_name(kind))
        if pattern.get("status") not in _STATUSES:
            yield not_supported(f"{where}.status", pattern.get("status", ""), _STATUSES)
    if codes is not None and patterns:
        yield invalid(path, None, "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not patterns:
        yield invalid(path, None, "specifying one of OnExitCodes and OnPodConditions is required")


def _code_faults(codes: Mapping[str, Any], path: str, known: set[Any]) -> Iterator[FieldError]:
    operator, values, name = codes.get("operator", ""), codes.get("values") or [], codes.get("containerName")
    if not operator:
        yield required(f"{path}.operator", f"valid values: {_quoted(_OPERATORS)}")
    elif operator not in _OPERATORS:
        yield not_supported(f"{path}.operator", operator, _OPERATORS)
    if name is not None and name not in known:
        text = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", name, text)
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield too_many(f"{path}.values", _MOST_CODES, len(values))
    for number, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{number}]", value, "must not be 0 for the In operator")
        if value in values[:number]:
            yield duplicate(f"{path}.values[{number}]", value)
    if sorted(values) != list(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _success_policy_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    policy = spec.get("successPolicy")
    if policy is None:
        return
    if spec.get("completionMode") != "Indexed":
        yield invalid(path, policy, "requires indexed completion mode")
        return
    rules = policy.get("rules") or ()
    if not rules:
        yield required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MOST_RULES:
        yield too_many(f"{path}.rules", _MOST_RULES, len(rules))
    for number, rule in enumerate(rules):
        yield from _success_rule_faults(rule, f"{path}.rules[{number}]", spec.get("completions") or 0)


def _success_rule_faults(rule: Mapping[str, Any], path: str, completions: int) -> Iterator[FieldError]:
    count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and text is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total, fault = format_fault(text or "", completions)
    if len(text or "") > _LONGEST_INDEXES:
        yield too_long(f"{path}.succeededIndexes", _LONGEST_INDEXES)
    if fault:
        yield invalid(f"{path}.succeededIndexes", text, f"error parsing succeededIndexes: {fault}")
    if count is None:
        return
    yield from not_negative(f"{path}.succeededCount", count)
    limits = [(completions, "the number of specified completions")]
    if text is not None:
        limits.append((total, "the number of indexes in the specified succeededIndexes field"))
    for limit, what in limits:
        if count > limit:
            yield invalid(f"{path}.succeededCount", count, f"must be less than or equal to {limit} ({what})")


def _replacement_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    policy = spec.get("podReplacementPolicy")
    choices = ("Failed", "TerminatingOrFailed") if spec.get("podFailurePolicy") is None else ("Failed",)
    if policy is not None and policy not in choices:
        yield not_supported(path, policy, choices)


def _restart_faults(spec: Spec, path: str) -> Iterator[FieldError]:
    policy = at(spec, "template.spec.restartPolicy", "")
    if policy in ("Always", ""):
        yield required(path, f"valid values: {_quoted(('OnFailure', 'Never'))}")
    elif policy not in ("OnFailure", "Never"):
        yield not_supported(path, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _manager_faults(manager: str) -> list[str]:
    domain, _, path = manager.partition("/")
    if not domain or not path:
        return ['must be a domain-prefixed path (such as "acme.io/foo")']
    faults = list(names.dns_subdomain(domain))
    return faults if _PATH.fullmatch(path) else [*faults, "has characters that a path cannot have"]


def _quoted(choices: tuple[str, ...]) -> str:
    return ", ".join(f'"{each}"' for each in choices)
