"""Expressions as Kubernetes has them: what they come to, what is refused beforehand, and what they may cost."""

import time
from typing import Any

import pytest

from pykubelet.apiserver.cel.program import (
    Budget,
    CelError,
    CompileError,
    TooExpensive,
    compile_expression,
)
from pykubelet.apiserver.cel.types import BOOL, DYN, INT, STRING, ObjectType, Type, list_of, map_of

SELF = ObjectType(
    "self",
    fields={
        "name": STRING,
        "count": INT,
        "tags": list_of(STRING),
        "labels": map_of(STRING, STRING),
        "x__dash__y": INT,
        "__if__": INT,
        "either": DYN,
        "inner": ObjectType("self.inner", fields={"size": INT}),
    },
)
VALUE: dict[str, Any] = {
    "name": "web-1",
    "count": 3,
    "tags": ["a", "b", "c"],
    "labels": {"app": "web", "tier": "front"},
    "x-y": 7,
    "if": 8,
    "either": "50%",
}


def evaluated(text: str, result: Type | None = None) -> Any:
    return compile_expression(text, {"self": SELF}, result).evaluate({"self": VALUE}, Budget())


@pytest.mark.parametrize(
    "text",
    [
        # --- the language
        "1 + 2 * 3 == 7 && -7 / 2 == -3 && -7 % 2 == -1",
        "dyn(7) == 7.0 && 7 < 7.5 && 1u < 2",
        "true || 1 / 0 == 1",
        "1 / 0 == 1 || true",
        "!(false && 1 / 0 == 1)",
        "self.count > 2 ? true : 1 / 0 == 1",
        "'a' + 'b' == \"ab\" && r'\\d' == '\\\\d' && '''x'y''' == \"x'y\"",
        "b'ab' == bytes('ab') && '\\u00e9' == 'é' && '\\x41\\101' == 'AA'",
        "0x10 == 16 && 1e3 == 1000.0 && .5 == 0.5",
        "[1, 2] + [3] == [1, 2, 3] && 2 in [1, 2] && !(5 in [1, 2])",
        "{'a': 1}['a'] == 1 && 'a' in {'a': 1} && {'a': 1}.a == 1",
        "type(1) == int && type('') == string && type([]) == list && type(null) == null_type",
        "type(self) == type(self) && type(1.0) != int",
        "size('é') == 1 && 'abc'.size() == 3 && size(b'é') == 2",
        "// a word to the reader\n true",
        # --- fields
        "self.name == 'web-1' && self.x__dash__y == 7 && self.__if__ == 8 && self.if == 8",
        "has(self.name) && !has(self.inner) && has(self.labels.app) && !has(self.labels.other)",
        "self.labels['tier'] == 'front' && self.labels.size() == 2",
        "type(self.either) == string ? self.either.endsWith('%') : self.either > 5",
        # --- macros
        "self.tags.all(t, t.size() == 1) && self.tags.exists(t, t == 'b') && self.tags.exists_one(t, t == 'c')",
        "self.tags.map(t, t + t) == ['aa', 'bb', 'cc'] && self.tags.map(t, t != 'a', t) == ['b', 'c']",
        "self.tags.filter(t, t > 'a') == ['b', 'c'] && self.labels.all(k, k.size() > 2)",
        "self.labels.exists(k, v, k == 'app' && v == 'web') && self.tags.all(i, t, i < 3)",
        "self.labels.transformMap(k, v, v + '!') == {'app': 'web!', 'tier': 'front!'}",
        "self.tags.transformList(i, t, i > 0, t) == ['b', 'c']",
        "self.labels.transformMapEntry(k, v, {v: k}) == {'web': 'app', 'front': 'tier'}",
        "[[1, 2], [3]].all(x, x.all(x, x > 0))",
        "[1, 2, 3].exists(x, 6 / (x - 1) == 3) && ![0, 1].all(x, 1 / x > 5)",
        # --- optionals
        "self.?inner.?size.orValue(5) == 5 && self.?name.orValue('') == 'web-1'",
        "self.labels[?'app'].orValue('') == 'web' && self.labels[?'x'] == optional.none()",
        "self.tags[?9].or(optional.of('z')).value() == 'z' && self.?name.orValue(string(1 / 0)) == 'web-1'",
        "self.?name.optMap(n, n.size()).orValue(0) == 5 && [?self.?inner.?size, 1] == [1]",
        # --- times
        "duration('1h30m').getMinutes() == 90 && duration('90s') > duration('1m')",
        "timestamp('2024-02-29T12:30:45.5Z').getDayOfWeek() == 4",
        "timestamp('2024-01-01T00:00:00Z') + duration('36h') == timestamp('2024-01-02T12:00:00Z')",
        "timestamp('2024-01-01T00:00:00Z').getHours('America/New_York') == 19",
        "string(duration('1.5s')) == '1.5s' && string(timestamp('2024-01-01T00:00:00Z')) == '2024-01-01T00:00:00Z'",
        # --- texts
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && ['a', 'b'].join('-') == 'a-b' && 'abcb'.lastIndexOf('b') == 3",
        "'%s has %d of %.2f'.format(['x', 3, 1.5]) == 'x has 3 of 1.50' && '%x'.format([255]) == 'ff'",
        "'k8s v1.34'.find('[0-9]+') == '8' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'abc'.matches('^a.c$')",
        "strings.quote('a\"b') == '\"a\\\\\"b\"' && ' x '.trim() == 'x' && 'aBc'.upperAscii() == 'ABC'",
        # --- lists and sets
        "[1, 3, 2].max() == 3 && [1, 2].isSorted() && [1, 2].sum() == 3 && [1.5, 2.5].sum() == 4.0",
        "[1, 2, 1].distinct() == [1, 2] && [3, 1].sort() == [1, 3] && ['bb', 'a'].sortBy(s, s.size()) == ['a', 'bb']",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1]) && !sets.intersects([1], [2])",
        "lists.range(3) == [0, 1, 2] && [[1], [2]].flatten() == [1, 2] && [1, 2, 3].slice(1, 2) == [2]",
        # --- Kubernetes' own
        "quantity('1.5Gi').isGreaterThan(quantity('1G')) && quantity('100m').add(quantity('0.9')) == quantity('1')",
        "isQuantity('10Mi') && !isQuantity('10Mx') && quantity('2').asInteger() == 2",
        "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.9.9.9') && !isIP('10.0.0')",
        "url('https://me@x.io:81/a b?q=1').getHost() == 'x.io:81' && url('/?q=1&q=2').getQuery()['q'].size() == 2",
        "semver('1.10.0').isGreaterThan(semver('1.9.0')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
        "isSemver('v1.2', true) && !isSemver('v1.2') && semver('v1.2', true) == semver('1.2.0')",
        "!format.dns1123Label().validate('ok').hasValue() && format.named('uuid').value().validate('x').hasValue()",
    ],
)
def test_true(text: str) -> None:
    assert evaluated(text, BOOL) is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("self.nothing == 1", "<input>:1:5: undefined field 'nothing'"),
        ("has(self.nothing)", "undefined field 'nothing'"),
        ("self.name == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.name + 1", "found no matching overload for '_+_' applied to '(string, int)'"),
        ("self.count.startsWith('a')", "found no matching overload for 'startsWith' applied to 'int.(string)'"),
        ("self.tags.sum() == 'a'", "found no matching overload for 'sum' applied to 'list(string).()'"),
        ("self['name']", "found no matching overload for '_[_]'"),
        ("self.count.all(x, true)", "cannot be range of a comprehension"),
        ("other == 1", "undeclared reference to 'other'"),
        ("nothing(1)", "undeclared reference to 'nothing'"),
        ("[1, 'a']", "expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': true}", "expected type 'int' but found 'bool'"),
        ("self.name == null", "found no matching overload for '_==_' applied to '(string, null)'"),
        ("self.name.matches(')')", "<input>:1:19: invalid matches argument"),
        ("self.name.matches('(?=x)')", "invalid matches argument"),
        ("duration('1d')", "invalid duration argument"),
        ("timestamp('yesterday')", "invalid timestamp argument"),
        ("has(self)", "invalid argument to has() macro"),
        ("self.tags.all(1, true)", "argument must be a simple name"),
        ("1 +", "Syntax error: mismatched input '<EOF>'"),
        ("'a", "token recognition error"),
        ("1 # 2", "token recognition error at: '#'"),
        ("99999999999999999999", "invalid int literal"),
        ("'\\q'", "unable to unescape"),
        ("(" * 200 + "1" + ")" * 200, "recursion limit exceeded"),
        ("1" + " + 1" * 5000, "recursion limit exceeded"),
        ("a" * 70_000, "longer than"),
        ("self.count + 1", "must evaluate to a bool"),
    ],
)
def test_is_refused_before_it_is_evaluated(text: str, said: str) -> None:
    with pytest.raises(CompileError) as refused:
        evaluated(text, BOOL)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("9223372036854775807 + 1 == 0", "integer overflow"),
        ("1 / 0 == 0", "division by zero"),
        ("self.inner.size == 1", "no such key: inner"),
        ("self.labels['x'] == ''", "no such key: x"),
        ("self.tags[7] == ''", "index out of bounds: 7"),
        ("self.either > 5", "no such overload"),
        ("[].min() == 0", "min called on empty list"),
        ("int('x') == 0", "type conversion error"),
        ("'%d'.format(['x']) == ''", "error during formatting"),
        ("dyn(1).nothing == 2", "no such overload"),
    ],
)
def test_comes_to_no_value(text: str, said: str) -> None:
    with pytest.raises(CelError, match=said):
        evaluated(text, BOOL)


def test_a_value_that_is_not_of_its_declared_type_is_a_fault_of_the_expression() -> None:
    program = compile_expression("self.name.startsWith('a')", {"self": SELF}, BOOL)

    with pytest.raises(CelError, match="no such overload"):
        program.evaluate({"self": {"name": None}}, Budget())


@pytest.mark.parametrize(
    "text",
    [
        "lists.range(3000).all(x, lists.range(3000).all(y, x + y >= 0))",
        "lists.range(999999999) == []",
        "lists.range(900).map(x, lists.range(900)).flatten().size() == 1 || lists.range(900000).size() == 2",
        "".join(["['0123456789']", *[".map(s, s + s + s + s)"] * 40, ".size() == 1"]),
        "".join(["[[1]]", *[".map(s, s + s + s + s)"] * 40, ".size() == 1"]),
        "['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'].map(s, s" + ".replace('a', 'aaaaaaaaaaaaaaaa')" * 30 + ").size() == 1",
        "lists.range(100000).map(x, 'x').join('0123456789012345678901234567890123456789').size() == 1 "
        "|| lists.range(800000).all(x, x >= 0)",
    ],
)
def test_an_expression_that_would_never_end_is_ended(text: str) -> None:
    budget, begun = Budget(1_000_000), time.process_time()

    with pytest.raises(TooExpensive):
        compile_expression(text, {"self": SELF}).evaluate({"self": VALUE}, budget)

    assert time.process_time() - begun < 5
    assert budget.left <= 0


def test_a_regular_expression_takes_time_by_the_length_of_its_text_alone() -> None:
    program = compile_expression("self.matches('^(a+)+(a*)*b$')", {"self": STRING})
    begun = time.process_time()

    assert program.evaluate({"self": "a" * 100_000}, Budget()) is False
    assert time.process_time() - begun < 2


def test_all_evaluations_of_a_request_share_a_budget() -> None:
    program = compile_expression("self.all(x, x >= 0)", {"self": list_of(INT)})
    budget = Budget(5000)

    assert program.evaluate({"self": list(range(1000))}, budget) is True
    assert program.evaluate({"self": list(range(1000))}, budget) is True
    with pytest.raises(TooExpensive):
        program.evaluate({"self": list(range(1000))}, budget)


def test_knows_which_variables_it_looks_at() -> None:
    variables = {"self": SELF, "oldSelf": SELF}

    assert compile_expression("self.tags.all(oldSelf, true)", variables).used == {"self"}
    assert compile_expression("self == oldSelf", variables).used == {"self", "oldSelf"}


def test_an_object_without_a_schema_is_plain_json() -> None:
    program = compile_expression(
        "object.metadata.labels['app.io/name'] == 'x' && object.spec.replicas <= 5 && !has(object.status)",
        {"object": DYN},
        BOOL,
    )
    found = {"metadata": {"labels": {"app.io/name": "x"}}, "spec": {"replicas": 5}}

    assert program.evaluate({"object": found}, Budget()) is True


def test_a_value_may_be_given_a_name_where_that_is_allowed() -> None:
    text = "cel.bind(t, self.tags, cel.bind(n, size(t), n == 3 && t.all(x, x.size() == 1 && n > 2)))"
    assert compile_expression(text, {"self": SELF}, BOOL, binds=True).evaluate({"self": VALUE}, Budget()) is True
    with pytest.raises(CompileError, match="undeclared reference to 'cel'"):
        evaluated(text)
    for wrong in ("cel.bind(1, 2, true)", "cel.bind(a, b, true)", "cel.bind(a, 1, a)"):
        with pytest.raises(CompileError):
            compile_expression(wrong, {"self": SELF}, BOOL, binds=True)
