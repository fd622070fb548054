"""What a rule allows, and what it contains."""

from typing import Any

import pytest

from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.security.rbac.rules import Rule, TooMany, allows, described, path_covers, rule_of, uncovered


def get(resource: str, subresource: str = "", group: str = "", name: str = "") -> RequestInfo:
    return RequestInfo(
        "get", "", is_resource=True, group=group, resource=resource, subresource=subresource, name=name, namespace="a"
    )


@pytest.mark.parametrize(
    ("resources", "info", "is_allowed"),
    [
        (("pods",), get("pods"), True),
        (("pods",), get("pods", "log"), False),
        (("pods/log",), get("pods", "log"), True),
        (("pods/log",), get("pods"), False),
        (("*/log",), get("pods", "log"), True),
        (("*/log",), get("pods"), False),
        (("*/",), get("pods"), False),
        (("pods/*",), get("pods", "log"), False),
        (("*",), get("pods", "log"), True),
        ((), get("pods"), False),
    ],
)
def test_a_part_of_an_object_is_another_resource(
    resources: tuple[str, ...], info: RequestInfo, is_allowed: bool
) -> None:
    assert allows(Rule(("get",), ("",), resources), info, info.name) is is_allowed


def test_names_narrow_a_rule_down_to_requests_that_name_one_object() -> None:
    rule = Rule(("*",), ("",), ("secrets",), ("mine",))
    assert allows(rule, get("secrets"), "mine")
    assert not allows(rule, get("secrets"), "other")
    assert not allows(rule, get("secrets"), "")


@pytest.mark.parametrize(
    ("path", "asked", "covers"),
    [("/a", "/a", True), ("/a", "/a/", False), ("/a/*", "/a", False), ("/a/*", "/a/b/c", True), ("*", "/x", True)],
)
def test_a_star_at_the_end_of_a_path_stands_for_the_rest(path: str, asked: str, covers: bool) -> None:
    assert path_covers(path, asked) is covers


def test_what_is_lacking_is_named_with_its_verbs_together() -> None:
    owned = [Rule(("get",), ("",), ("pods",))]
    given = [Rule(("get", "list", "watch"), ("",), ("pods",)), Rule(verbs=("get",), paths=("/metrics",))]
    assert described(uncovered(owned, given)) == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}',
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
    ]


def test_a_rule_for_all_objects_is_not_contained_in_one_for_some() -> None:
    assert uncovered([Rule(("get",), ("",), ("pods",), ("a",))], [Rule(("get",), ("",), ("pods",))])
    assert not uncovered([Rule(("get",), ("",), ("pods",))], [Rule(("get",), ("",), ("pods",), ("a",))])


@pytest.mark.parametrize("bad", [{"verbs": "get"}, {"verbs": [1]}, {"verbs": {"get": 1}}])
def test_what_is_no_rule_is_not_read_as_one(bad: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        rule_of(bad)


def test_who_has_all_of_a_rule_at_a_glance_need_not_have_it_taken_apart() -> None:
    many = tuple(f"x{number}" for number in range(1000))
    assert uncovered([Rule(("*",), ("*",), ("*",))], [Rule(many, many, many, many)]) == []
    with pytest.raises(TooMany):
        uncovered([Rule(("get",), ("*",), ("*",))], [Rule(many, many, many)])
    assert len(uncovered([Rule(("get",), ("*",), ("*",))], [Rule(("get", "list"), ("",), many)])) == 1000
