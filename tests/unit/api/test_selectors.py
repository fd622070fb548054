from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.meta import LabelSelector, LabelSelectorRequirement
from pykubelet.api.selectors import Selector, from_json, from_struct, matches, parse_fields, parse_labels, requirement

LABELS = {"app": "web", "tier": "front", "size": "10", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web , tier=front", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("missing!=x", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("!app", False),
        ("app in (web,db)", True),
        ("app in (db)", False),
        ("app notin (db, cache)", True),
        ("missing notin (db)", True),
        ("missing in (db)", False),
        ("empty=", True),
        ("empty in ()", True),
        ("empty in (,x)", True),
        ("size>9", True),
        ("size<9", False),
        ("app>9", False),
        ("app in (web),!missing,size<11", True),
        ("example.com/role=a", False),
        ("in=x", False),
        ("app=in", False),
    ],
)
def test_a_label_selector_selects(selector: str, selected: bool) -> None:
    assert matches(parse_labels(selector), LABELS) is selected


@pytest.mark.parametrize(
    "text",
    ["=", ",", "a,", "a in", "a in b", "a in (b", "a in (b c)", "a b", "a=b=c", "!", "!=x", "a>x", "(a)", "a,,b"],
)
def test_a_broken_label_selector_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="label selector"):
        parse_labels(text)


@given(st.text(max_size=40))
def test_any_text_is_a_selector_or_a_clear_refusal(text: str) -> None:
    with suppress(ValueError):
        selector = parse_labels(text)
        assert parse_labels(",".join(map(str, selector))) == selector


def test_a_field_selector_knows_equality_only() -> None:
    fields = {"spec.nodeName": "n1", "status.phase": "Running"}
    assert matches(parse_fields("spec.nodeName=n1"), fields)
    assert matches(parse_fields("spec.nodeName==n1,status.phase!=Failed"), fields)
    assert not matches(parse_fields("status.phase!=Running"), fields)
    assert matches(parse_fields(""), fields)
    assert not matches(parse_fields("metadata.name=x"), fields)


@pytest.mark.parametrize("text", ["a", "a>b", "=b", "a in (b)", "a=b=c"])
def test_a_broken_field_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="field selector"):
        parse_fields(text)


def test_a_field_that_is_not_supported_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"spec\.color"):
        parse_fields("spec.color=red", {"spec.nodeName"}.__contains__)


def test_a_backslash_escapes_in_a_field_value() -> None:
    (only,) = parse_fields(r"metadata.name=a\,b\=c\\d")
    assert only.values == ("a,b=c\\d",)


def test_an_absent_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert from_struct(None) is None
    everything = from_struct(LabelSelector())
    assert everything is not None
    assert matches(everything, {})


def test_labels_and_expressions_of_a_struct_hold_together() -> None:
    selector = from_struct(
        LabelSelector(
            match_labels={"app": "web"},
            match_expressions=(LabelSelectorRequirement(key="tier", operator="NotIn", values=("back",)),),
        )
    )
    assert selector is not None
    assert matches(selector, LABELS)
    assert not matches(selector, {**LABELS, "tier": "back"})


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("In", ()),
        ("NotIn", ()),
        ("Exists", ("a",)),
        ("DoesNotExist", ("a",)),
        ("Gt", ()),
        ("Gt", ("1", "2")),
        ("Is", ("a",)),
    ],
)
def test_an_expression_that_makes_no_sense_is_refused(operator: str, values: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="operator"):
        requirement("key", operator, values)


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    ("parse", "text", "why"),
    [
        (parse_labels, ",".join(f"a{n}=b" for n in range(1001)), "more than 1,000 requirements"),
        (parse_labels, f"a in ({','.join(map(str, range(6000)))})", "more than 10,000 words"),
        (parse_labels, "a(" * 100_000, "words"),
        (parse_fields, ",".join(["a=b"] * 1001), "at most 1,000 requirements"),
        (parse_fields, " " * 100_000 + "x", "is not a field selector"),
    ],
)
def test_a_selector_that_takes_long_is_refused_quickly(parse: Callable[[str], Selector], text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)


def test_a_selector_of_an_object_is_read_as_it_stands() -> None:
    found = from_json({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]})
    assert matches(found, {"app": "web"})
    assert not matches(found, {"app": "web", "old": "yes"})
    assert from_json(None) == from_json({}) == ()
    for wrong in ("app=web", {"matchLabels": 3}, {"matchExpressions": [{"key": "a", "operator": "Near"}]}):
        with pytest.raises(ValueError):  # noqa: PT011 - three faults, three messages
            from_json(wrong)
