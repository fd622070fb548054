"""What a request asks for, read from its path, query and headers."""

import pytest

from pykubelet.apiserver.requests.requests import (
    Accept,
    accepted,
    continue_token,
    list_options,
    parse_token,
    request_info,
    write_options,
)
from pykubelet.apiserver.status import ApiError


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", {}, ("list", "", "pods", "", "", "")),
        ("GET", "/api/v1/namespaces/a/pods", {"watch": "1"}, ("watch", "", "pods", "a", "", "")),
        ("GET", "/api/v1/watch/namespaces/a/pods", {}, ("watch", "", "pods", "a", "", "")),
        ("GET", "/api/v1/namespaces/a/pods/p", {}, ("get", "", "pods", "a", "p", "")),
        ("PATCH", "/api/v1/namespaces/a/pods/p/status", {}, ("patch", "", "pods", "a", "p", "status")),
        ("GET", "/api/v1/namespaces/a", {}, ("get", "", "namespaces", "a", "a", "")),
        ("PUT", "/api/v1/namespaces/a/finalize", {}, ("update", "", "namespaces", "a", "a", "finalize")),
        ("DELETE", "/apis/a.b/v1/things", {}, ("deletecollection", "a.b", "things", "", "", "")),
        ("POST", "/api/v1/namespaces/a/pods/p%2Fq/exec", {}, ("create", "", "pods", "a", "p/q", "exec")),
    ],
)
def test_a_path_says_what_is_asked_for(
    method: str, path: str, query: dict[str, str], expected: tuple[str, ...]
) -> None:
    info = request_info(method, path, query)
    assert (info.verb, info.group, info.resource, info.namespace, info.name, info.subresource) == expected
    assert info.is_resource


@pytest.mark.parametrize("path", ["/", "/version", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz/etcd"])
def test_other_paths_are_not_about_objects(path: str) -> None:
    assert not request_info("GET", path, {}).is_resource


def test_the_first_form_that_can_be_sent_is_chosen() -> None:
    header = "application/vnd.kubernetes.protobuf, application/json;as=Table;v=v1;g=meta.k8s.io, application/json"
    assert accepted(header, transforms=True) == Accept("application/json", "Table", "v1")
    assert accepted("*/*", transforms=True) == Accept()
    assert accepted("", transforms=True) == Accept()
    assert accepted("application/yaml", transforms=True) == Accept("application/yaml")


def test_who_accepts_nothing_that_can_be_sent_is_told_so() -> None:
    with pytest.raises(ApiError) as raised:
        accepted("text/csv", transforms=True)
    assert raised.value.code == 406


@pytest.mark.parametrize(
    ("query", "verb", "field"),
    [
        ({"resourceVersionMatch": "Exact"}, "list", "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "list", "resourceVersionMatch"),
        ({"resourceVersionMatch": "Roughly", "resourceVersion": "5"}, "list", "resourceVersionMatch"),
        ({"sendInitialEvents": "true"}, "list", "sendInitialEvents"),
        ({"sendInitialEvents": "true"}, "watch", "resourceVersionMatch"),
        ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"}, "watch", "resourceVersionMatch"),
    ],
)
def test_options_that_contradict_each_other_are_refused(query: dict[str, str], verb: str, field: str) -> None:
    with pytest.raises(ApiError) as raised:
        list_options(query, verb)
    assert raised.value.code == 422
    assert field in [cause["field"] for cause in (raised.value.details or {})["causes"]]


def test_a_token_says_where_the_next_page_begins() -> None:
    token = parse_token(continue_token(12, "default/web\0"))
    assert (token.rv, token.start) == (12, "default/web\0")


@pytest.mark.parametrize("text", ["!", "abc", "e30", continue_token(0, "a"), continue_token(1, "/etc")])
def test_a_token_that_was_not_given_out_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as raised:
        parse_token(text)
    assert raised.value.code == 400


def test_the_owner_of_a_change_is_whom_the_client_names_or_the_client_itself() -> None:
    assert write_options({}, (), "create", "kubectl/v1.32 (linux)").manager == "kubectl"
    assert write_options({"fieldManager": "me"}, (), "create", "kubectl/v1.32").manager == "me"
    with pytest.raises(ApiError):
        write_options({"fieldManager": "a\nb"}, (), "create", "")
