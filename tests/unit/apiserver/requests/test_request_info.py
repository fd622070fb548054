"""What a request is about."""

import pytest

from pykubelet.apiserver.requests.request_info import request_info


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
