"""What a policy decides that cannot be used as it stands; the words are those of kube-apiserver v1.34.11."""

from typing import Any, Final

import pytest

from pykubelet.apiserver.admission.policies import binding_of, definition_of
from pykubelet.apiserver.admission.policy_rules import judged
from pykubelet.apiserver.cel.program import Budget

TEN: Final = "[0,1,2,3,4,5,6,7,8,9]"
DEAR: Final = f"[{','.join(['0'] * 40)}].all(a, {TEN}.all(b, a + b >= 0))"
VALUES: Final = {"object": {"data": {"a": "1"}}, "oldObject": None, "request": {}, "params": None}


def decided(spec: dict[str, Any], left: int = 10_000_000) -> list[str]:
    found = judged(spec, VALUES, Budget(left))
    return [each.message for each in (*found.denials, *found.errors)]


def of(*expressions: str, **more: Any) -> dict[str, Any]:
    return {"validations": [{"expression": each} for each in expressions], **more}


MISSING: Final = "object.data.none == 'x'"
NO_KEY: Final = "resulted in error: no such key: none"
SPOILT: Final = {"name": "x", "expression": "nosuch.y"}
NOT_DECLARED: Final = "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nosuch'"


@pytest.mark.parametrize(
    ("spec", "starts"),
    [
        (of("nosuch.y"), [f"compilation error: {NOT_DECLARED}"]),
        (of("'text'"), ["compilation error: must evaluate to bool but got string"]),
        (of("dyn(true)"), ["compilation error: must evaluate to bool but got dyn"]),
        (of("params.x == 1"), ["compilation error: compilation failed: ERROR: <input>:1:1: undeclared"]),
        (
            of("params.x == 1", paramKind={"kind": "K"}),
            ["expression 'params.x == 1' resulted in error: no such key: x"],
        ),
        (of(f" {MISSING}"), [f"expression ' {MISSING}' {NO_KEY}"]),
        (of(MISSING, "false"), [f"expression '{MISSING}' {NO_KEY}", "failed expression: false"]),
        (of("false", matchConditions=[SPOILT]), [f"compilation error: {NOT_DECLARED}"]),
        (of("false", matchConditions=[{"expression": MISSING}]), [f"expression '{MISSING}' {NO_KEY}"]),
        (of("false", matchConditions=[{"expression": MISSING}] * 2), [f"[expression '{MISSING}' {NO_KEY}, expression"]),
        (
            of("variables.x == 1", variables=[SPOILT]),
            [
                "expression 'variables.x == 1' resulted in error: "
                f'composited variable "x" fails to compile: {NOT_DECLARED}'
            ],
        ),
        (
            of("variables.x == ''", variables=[{"name": "x", "expression": "object.data.none"}]),
            [
                "expression 'variables.x == ''' resulted in error: "
                'composited variable "x" fails to evaluate: no such key: none'
            ],
        ),
        (of("variables.z == 1"), ["compilation error: compilation failed: ERROR: <input>:1:10: undefined field 'z'"]),
        (of(auditAnnotations=[{"key": "k", "valueExpression": "dyn(1)"}]), ["compilation error: must evaluate to one"]),
        (
            of(auditAnnotations=[{"key": "k", "valueExpression": "authorizer.path('/').check('get').reason()"}]),
            ["expression 'authorizer.path('/').check('get').reason()' resulted in error: no such attribute(s): auth"],
        ),
    ],
)
def test_what_goes_wrong_refuses_in_upstreams_words_unless_it_may_be_ignored(spec: Any, starts: list[str]) -> None:
    said = decided(spec)
    assert len(said) == len(starts), said
    assert all(text.startswith(start) for text, start in zip(said, starts, strict=True)), said
    assert decided({**spec, "failurePolicy": "Ignore"}) == [each for each in said if each.startswith("failed expr")]


def test_a_variable_that_nobody_looks_at_cannot_go_wrong() -> None:
    spoilt = [SPOILT, {"name": "y", "expression": "object.data.none"}]
    assert decided(of("true || variables.x == 1", "has(variables.y)", variables=spoilt)) == []


def test_a_condition_that_does_not_hold_makes_up_for_one_that_fails() -> None:
    assert decided(of("false", matchConditions=[{"expression": MISSING}, {"expression": "false"}])) == []


def test_who_runs_out_of_budget_has_found_nothing_else() -> None:
    spec = of("false", DEAR)
    out = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert decided(spec) == ["failed expression: false"]
    assert decided(spec, 500) == [out]
    assert decided({**spec, "failurePolicy": "Ignore"}, 500) == []
    message = {"validations": [{"expression": "false", "messageExpression": f"{DEAR} ? 'a' : 'b'"}]}
    assert decided(message, 500) == [f"failed messageExpression: {out}"]


@pytest.mark.parametrize(
    "message", ["nosuch.y", "object.data.none", "string(object.data.none)", "' '", "'a\\nb'", "authorizer.x"]
)
def test_a_message_that_fails_gives_way_to_the_plain_one(message: str) -> None:
    assert decided({"validations": [{"expression": "false", "message": "m", "messageExpression": message}]}) == ["m"]


MATCH: Final = {"resourceRules": [{"apiGroups": ["apps"], "resources": ["deployments"]}]}
ODD: Final = {"matchExpressions": [{"key": "a", "operator": "Odd"}]}


@pytest.mark.parametrize(
    "spec",
    [
        None,
        "text",
        {},
        {"matchConstraints": MATCH, "validations": "text"},
        {"matchConstraints": MATCH, "validations": [{"expression": 1}]},
        {"matchConstraints": MATCH, "variables": [{"expression": "1"}]},
        {"matchConstraints": MATCH, "paramKind": {"kind": "X"}},
        {"matchConstraints": {**MATCH, "objectSelector": ODD}},
    ],
)
def test_a_policy_that_cannot_be_read_has_a_fault_for_what_it_may_be_meant_by(spec: Any) -> None:
    found = definition_of("p", {"spec": spec})
    assert found.is_closed
    assert found.fault.startswith("the policy p cannot be read")
    is_known = isinstance(spec, dict) and spec
    assert found.match.rules[0].groups == frozenset(["apps"] if is_known else ["*"])
    if isinstance(spec, dict):
        assert not definition_of("p", {"spec": {**spec, "failurePolicy": "Ignore"}}).is_closed


def test_a_binding_that_cannot_be_read_counts_for_each_policy_that_it_may_name() -> None:
    assert binding_of("b", None).policy == ""
    spoilt = binding_of("b", {"spec": {"policyName": "p", "paramRef": {"selector": ODD}}})
    assert (spoilt.policy, spoilt.fault.startswith("the binding b cannot be read")) == ("p", True)
    assert binding_of("b", {"spec": {"policyName": "p", "validationActions": ["Deny"]}}).fault == ""
