"""What rules may cost, and which of them a kube-apiserver of v1.34 was seen to refuse for it."""

from typing import Any

import pytest

from pykubelet.apiserver.custom.rule_checks import rules_faults

S: dict[str, Any] = {"type": "string"}
INT: dict[str, Any] = {"type": "integer"}
SHORT: dict[str, Any] = {"type": "string", "maxLength": 10}


def items(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": schema, **more}


def values(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema, **more}


def named(longest: int, most: int) -> dict[str, Any]:
    name = {"type": "string", "maxLength": longest}
    return items({"type": "object", "properties": {"n": name}}, maxItems=most)


CASES: list[tuple[dict[str, Any], str, str]] = [
    (items(S), "self.v.all(x, x == 'a')", ""),
    (items(S), "self.v.all(x, self.v.all(y, x == y))", "more than 100x"),
    (items(S, maxItems=10), "self.v.all(x, self.v.all(y, x == y))", "3.1x"),
    (items(SHORT, maxItems=100), "self.v.all(x, self.v.all(y, x == y))", ""),
    (items(S), "self.v.all(x, x.matches('a+b'))", "more than 100x"),
    (items(S), "self.v.filter(x, x.startsWith('a')).size() > 1", "1.6x"),
    (items(S), "self.v.exists_one(x, x == 'a')", ""),
    (items(S), "self.v.indexOf('a') > 1", "more than 100x"),
    (items(S), "self.v.join(',').size() > 3", "more than 100x"),
    (items(S), "self.v == self.v", ""),
    (items(S), "oldSelf.v.all(x, x in self.v)", "more than 100x"),
    (items(S, maxItems=1000), "oldSelf.v.all(x, x in self.v)", ""),
    (items(items(S)), "self.v.all(x, x.all(y, y == 'a'))", "more than 100x"),
    (items(INT), "self.v.map(x, x+1).sum() > 0", "2.4x"),
    (items(INT), "self.v.isSorted()", ""),
    (S, "self.v.matches('^[a-z]+$')", ""),
    (S, "self.v.contains(self.v)", "more than 100x"),
    (S, "self.v.split(',').all(x, x.size() > 1)", "2.0x"),
    (S, "self == oldSelf", ""),
    (values(S), "self.v.all(k, self.v[k] == 'a')", ""),
    (values(S), "self.v.all(k, k.matches('^[a-z]+$'))", ""),
    (values(S), "self.v.all(k, self.v.all(j, k == j))", "more than 100x"),
    (named(63, 64), "self.v.all(x, self.v.exists_one(y, y.n == x.n))", ""),
    (named(253, 1024), "self.v.all(x, self.v.exists_one(y, y.n == x.n))", "11.3x"),
]


@pytest.mark.parametrize(("schema", "rule", "factor"), CASES)
def test_what_may_cost_too_much_is_refused(schema: dict[str, Any], rule: str, factor: str) -> None:
    whole = {"type": "object", "properties": {"v": schema}, "x-kubernetes-validations": [{"rule": rule}]}
    told = [f"{each.field} {each.detail}" for each in rules_faults(whole, "s")]
    assert bool(told) == bool(factor), told
    assert not factor or f"by factor of {factor}" in told[0]


def test_a_rule_costs_as_often_as_there_may_be_values_and_all_rules_count_together() -> None:
    rules = [{"rule": "self.b.all(x, x == 'a')"}]
    inner: dict[str, Any] = {"type": "object", "properties": {"b": items(S, maxItems=10)}}
    inner["x-kubernetes-validations"] = rules
    bounds: list[tuple[dict[str, Any], bool]] = [({}, True), ({"maxItems": 100}, False)]
    for most, expected in bounds:
        faults = list(rules_faults({"type": "object", "properties": {"l": items(inner, **most)}}, "s"))
        assert bool(faults) is expected
    cheap = {"rule": "self.v.all(x, x == 'a')"}
    whole = {"type": "object", "properties": {"v": items(S)}, "x-kubernetes-validations": [cheap] * 20}
    assert [each.field for each in rules_faults(whole, "s")] == ["s"]
