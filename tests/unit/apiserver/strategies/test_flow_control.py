"""Flow schemas and priority levels."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

GROUP = "flowcontrol.apiserver.k8s.io"
SCHEMAS = strategy_of(GROUP, "flowschemas")
LEVELS = strategy_of(GROUP, "prioritylevelconfigurations")
LEVEL = {"priorityLevelConfiguration": {"name": "a"}}
USER = {"kind": "User", "user": {"name": "u"}}
RULE = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}


def test_what_is_left_out_is_filled_in() -> None:
    assert made(SCHEMAS, spec=LEVEL)["spec"]["matchingPrecedence"] == 1000
    limited = made(LEVELS, spec={"limited": {"limitResponse": {"queuing": {}}}})["spec"]["limited"]
    assert (limited["nominalConcurrencyShares"], limited["lendablePercent"]) == (30, 0)
    assert limited["limitResponse"]["queuing"] == {"handSize": 8, "queueLengthLimit": 50, "queues": 64}
    exempt = made(LEVELS, spec={"type": "Exempt"})["spec"]["exempt"]
    assert exempt == {"lendablePercent": 0, "nominalConcurrencyShares": 0}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"rules": [{"subjects": [USER], "resourceRules": [RULE]}]}, []),
        ({"priorityLevelConfiguration": {"name": ""}}, ["spec.priorityLevelConfiguration.name"]),
        ({"matchingPrecedence": 10001}, ["spec.matchingPrecedence"]),
        ({"distinguisherMethod": {"type": "ByMood"}}, ["spec.distinguisherMethod.type"]),
        ({"rules": [{}]}, ["spec.rules[0].subjects", "spec.rules[0]"]),
        (
            {"rules": [{"subjects": [{"kind": "User"}], "resourceRules": [RULE]}]},
            ["spec.rules[0].subjects[0].user.name"],
        ),
        (
            {"rules": [{"subjects": [USER], "resourceRules": [{"verbs": ["*"]}]}]},
            [f"spec.rules[0].resourceRules[0].{name}" for name in ("apiGroups", "resources", "namespaces")],
        ),
    ],
)
def test_a_schema_says_who_goes_where(spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(SCHEMAS, made(SCHEMAS, spec={**LEVEL, **spec})) == expected


def limited(**more: Any) -> dict[str, Any]:
    return {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}, **more}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (limited(), []),
        ({"type": "Exempt"}, []),
        ({}, ["spec.type"]),
        ({"type": "Limited"}, ["spec.limited"]),
        ({**limited(), "type": "Exempt"}, ["spec.limited"]),
        (limited(lendablePercent=101), ["spec.limited.lendablePercent"]),
        (limited(nominalConcurrencyShares=-1), ["spec.limited.nominalConcurrencyShares"]),
        (limited(limitResponse={"type": "Queue"}), ["spec.limited.limitResponse.queuing"]),
        (limited(limitResponse={"type": "Reject", "queuing": {}}), ["spec.limited.limitResponse.queuing"]),
        (
            limited(limitResponse={"type": "Queue", "queuing": {"queues": 1, "handSize": 5}}),
            ["spec.limited.limitResponse.queuing.handSize"],
        ),
    ],
)
def test_a_level_has_limits_or_none(spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(LEVELS, made(LEVELS, spec=spec)) == expected
