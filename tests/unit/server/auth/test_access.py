import pytest

from pykubelet.pod.ports.server import Access
from pykubelet.server.auth.access import accesses


def subresources(path: str, *, fine_grained: bool = True) -> list[str]:
    return [each.subresource for each in accesses("GET", path, "n1", fine_grained=fine_grained)]


@pytest.mark.parametrize(
    ("method", "verb"),
    [
        ("GET", "get"),
        ("POST", "create"),
        ("PUT", "update"),
        ("PATCH", "patch"),
        ("DELETE", "delete"),
        ("HEAD", ""),
        ("OPTIONS", ""),
        ("get", ""),
    ],
)
def test_the_verb_is_that_of_the_method(method: str, verb: str) -> None:
    assert accesses(method, "/stats/summary", "n1") == (Access(verb=verb, subresource="stats", node="n1"),)


OWN = [
    ("/stats", ["stats"]),
    ("/stats/", ["stats"]),
    ("/stats/summary", ["stats"]),
    ("/metrics", ["metrics"]),
    ("/metrics/cadvisor", ["metrics"]),
    ("/metrics/resource", ["metrics"]),
    ("/metrics/probes", ["metrics"]),
    ("/logs", ["log"]),
    ("/logs/", ["log"]),
    ("/logs/kubelet.log", ["log"]),
    ("/checkpoint/ns/pod/container", ["checkpoint"]),
    ("/statusz", ["statusz"]),
    ("/flagz", ["configz"]),
]
EVERYTHING = [
    ("/", ["proxy"]),
    ("", ["proxy"]),
    ("/statsfoo", ["proxy"]),
    ("/metricsx/y", ["proxy"]),
    ("/log", ["proxy"]),
    ("/explain", ["proxy"]),
    ("/explain/ns/pod", ["proxy"]),
    ("/spec", ["proxy"]),
    ("/podsx", ["proxy"]),
    ("/runningPods", ["proxy"]),
    ("/exec/ns/pod/container", ["proxy"]),
    ("/run/ns/pod/container", ["proxy"]),
    ("/attach/ns/pod/container", ["proxy"]),
    ("/portForward/ns/pod", ["proxy"]),
    ("/containerLogs/ns/pod/container", ["proxy"]),
    ("/debug/pprof/heap", ["proxy"]),
    ("/debug/flags/v", ["proxy"]),
    ("//stats", ["proxy"]),
    ("stats", ["proxy"]),
]
NARROW = [
    ("/pods", ["pods", "proxy"]),
    ("/pods/", ["pods", "proxy"]),
    ("/runningpods", ["pods", "proxy"]),
    ("/runningpods/", ["pods", "proxy"]),
    ("/healthz", ["healthz", "proxy"]),
    ("/healthz/ping", ["healthz", "proxy"]),
    ("/healthz/syncloop", ["healthz", "proxy"]),
    ("/configz", ["configz", "proxy"]),
    ("/configz/", ["configz", "proxy"]),
]


@pytest.mark.parametrize(("path", "expected"), [*OWN, *EVERYTHING, *NARROW])
def test_the_subresource_is_that_of_the_path(path: str, expected: list[str]) -> None:
    assert subresources(path) == expected


@pytest.mark.parametrize(("path", "expected"), [*OWN, *EVERYTHING, *((path, ["proxy"]) for path, _ in NARROW)])
def test_without_fine_grained_rights_the_narrow_ones_are_part_of_proxy(path: str, expected: list[str]) -> None:
    assert subresources(path, fine_grained=False) == expected


@pytest.mark.parametrize("path", ["/stats/../exec/ns/pod/c", "/pods/./../run", "/logs/..", "/../stats", "/metrics/."])
def test_a_path_that_leads_back_asks_for_everything(path: str) -> None:
    assert subresources(path) == ["proxy"]
