"""CPU, memory and other resources, of containers and of a whole pod."""

from typing import Any

import pytest

from pykubelet.api.validation import PodValidationOptions
from unit.api.validation_pods import (
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    NOT_FOUND,
    NOT_SUPPORTED,
    REQUIRED,
    Expected,
    Fragment,
    Row,
    container,
    found,
    names_of,
    under,
    with_container,
)


def amounts(limits: Fragment | None = None, requests: Fragment | None = None) -> dict[str, Any]:
    return {"resources": {"limits": limits or {}, "requests": requests or {}}}


RESOURCES: list[Row] = [
    ("requests within limits", amounts({"cpu": "1", "memory": "1Gi"}, {"cpu": "500m", "memory": "1Gi"}), []),
    ("requests beyond limits", amounts({"cpu": "1"}, {"cpu": "1001m"}), [("resources.requests", INVALID)]),
    (
        "amounts are not negative",
        amounts({"cpu": "-1"}, {"memory": "-1"}),
        [("resources.limits[cpu]", INVALID), ("resources.requests[memory]", INVALID)],
    ),
    ("an unknown resource", amounts({"gpu": "1"}), [("resources.limits[gpu]", INVALID)] * 2),
    ("a resource that is not for containers", amounts({"pods": "1500m"}), [("resources.limits[pods]", INVALID)] * 2),
    ("a misspelled resource", amounts({"a b": "1"}), [("resources.limits[a b]", INVALID)] * 2),
    ("a misspelled domain", amounts({"A/b": "1"}), [("resources.limits[A/b]", INVALID)] * 2),
    ("a resource of Kubernetes", amounts({"kubernetes.io/x": "1500m"}), []),
    ("an extended resource", amounts({"example.com/gpu": "1"}, {"example.com/gpu": "1"}), []),
    (
        "an extended resource is counted",
        amounts({"example.com/gpu": "1500m"}),
        [("resources.limits[example.com/gpu]", INVALID)],
    ),
    ("a request of it needs a limit", amounts(requests={"example.com/gpu": "1"}), [("resources.limits", REQUIRED)]),
    (
        "which is the same",
        amounts({"example.com/gpu": "2"}, {"example.com/gpu": "1"}),
        [("resources.requests", INVALID)],
    ),
    (
        "its name is not that of a quota",
        amounts({"requests.example.com/gpu": "1"}, {"requests.example.com/gpu": "1"}),
        [
            ("resources.limits[requests.example.com/gpu]", INVALID),
            ("resources.requests[requests.example.com/gpu]", INVALID),
        ],
    ),
    ("huge pages need cpu or memory", amounts({"hugepages-2Mi": "4Mi"}), [("resources", FORBIDDEN)]),
    ("huge pages with cpu", amounts({"hugepages-2Mi": "4Mi", "cpu": "1"}), []),
    (
        "huge pages are whole",
        amounts({"hugepages-2Mi": "3Mi", "cpu": "1"}),
        [("resources.limits[hugepages-2Mi]", INVALID)],
    ),
    (
        "huge pages have a size",
        amounts({"hugepages-big": "1", "cpu": "1"}),
        [("resources.limits[hugepages-big]", INVALID)],
    ),
    (
        "huge pages have no size of less than a byte",
        amounts({"hugepages-1m": "1", "cpu": "1"}),
        [("resources.limits[hugepages-1m]", INVALID)],
    ),
    (
        "huge pages are requested as limited",
        amounts({"hugepages-2Mi": "4Mi", "cpu": "1"}, {"hugepages-2Mi": "2Mi"}),
        [("resources.requests", INVALID)],
    ),
    ("a claim is one of the pod's", {"resources": {"claims": [{"name": "x"}]}}, [("resources.claims[0]", NOT_FOUND)]),
    ("a claim has a name", {"resources": {"claims": [{}]}}, [("resources.claims[0]", REQUIRED)]),
    (
        "requests of a claim",
        {"resources": {"claims": [{"name": "a", "request": "r"}, {"name": "a", "request": "s"}]}},
        [],
    ),
    (
        "a request is a DNS label",
        {"resources": {"claims": [{"name": "a", "request": "R"}]}},
        [("resources.claims[0].request", INVALID)],
    ),
    (
        "a claim is used once",
        {"resources": {"claims": [{"name": "a"}, {"name": "a", "request": "r"}]}},
        [("resources.claims[1]", DUPLICATE)],
    ),
    (
        "a request is used once",
        {"resources": {"claims": [{"name": "a", "request": "r"}] * 2}},
        [("resources.claims[1]", DUPLICATE)],
    ),
    (
        "a whole claim repeats each of its requests",
        {"resources": {"claims": [{"name": "a", "request": "r"}, {"name": "a", "request": "s"}, {"name": "a"}]}},
        [("resources.claims[2]", DUPLICATE)] * 2,
    ),
]

POD_RESOURCES: list[Row] = [
    ("none", {}, []),
    ("as much as the containers ask for", {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}, []),
    (
        "less than the containers ask for",
        {"requests": {"cpu": "2900m"}, "limits": {"cpu": "4"}},
        [("requests[cpu]", INVALID)],
    ),
    ("less than a container's limit", {"limits": {"cpu": "500m"}}, [("containers[0][cpu].limits", INVALID)]),
    (
        "less huge pages than the containers have",
        {"limits": {"cpu": "4", "hugepages-2Mi": "2Mi"}},
        [("limits[hugepages-2Mi]", INVALID)],
    ),
    (
        "only cpu, memory and huge pages",
        {"limits": {"ephemeral-storage": "1Gi"}},
        [("limits[ephemeral-storage]", NOT_SUPPORTED)],
    ),
    ("a misspelled resource", {"limits": {"a b": "1Gi"}}, [("limits[a b]", INVALID)]),
    ("requests within limits", {"requests": {"memory": "2"}, "limits": {"memory": "1"}}, [("requests", INVALID)]),
    ("no claims", {"claims": [{"name": "a"}]}, [("claims", FORBIDDEN)]),
]


@pytest.mark.parametrize(("_what", "fields", "expected"), RESOURCES, ids=names_of(RESOURCES))
def test_a_container_asks_for_resources_that_exist(_what: str, fields: Fragment, expected: Expected) -> None:
    spec = with_container(fields) | {"resourceClaims": [{"name": "a", "resourceClaimName": "c"}]}
    assert found(spec) == under("spec.containers[0]", expected)


@pytest.mark.parametrize(("_what", "resources", "expected"), POD_RESOURCES, ids=names_of(POD_RESOURCES))
def test_a_pod_holds_what_its_containers_ask_for(_what: str, resources: Fragment, expected: Expected) -> None:
    pages = {"cpu": "1", "hugepages-2Mi": "2Mi"}
    spec = {
        "resourceClaims": [{"name": "a", "resourceClaimName": "c"}],
        "containers": [container(**amounts(pages, pages))],
        "initContainers": [
            container(name="side", restartPolicy="Always", **amounts(pages, pages)),
            container(name="init", **amounts(requests={"cpu": "2"})),
        ],
        "resources": resources,
    }
    assert found(spec) == under("spec.resources", expected)


def test_a_windows_pod_has_no_resources_of_its_own() -> None:
    spec = {"os": {"name": "windows"}, "resources": {"limits": {"nonsense": "-1"}}}
    assert found(spec) == [("spec.resources", FORBIDDEN)]


def test_resources_of_a_pod_are_not_looked_at_where_there_are_none() -> None:
    spec = {"resources": {"limits": {"nonsense": "-1"}}}
    assert found(spec, options=PodValidationOptions(pod_level_resources=False)) == []
