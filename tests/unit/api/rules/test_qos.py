from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.rules.qos import Demand, qos_class, qos_class_of
from unit.api.rules.resource_pods import pod_of

BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ([{}], "BestEffort"),
        ([{}, {}], "BestEffort"),
        ([{"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"limits": BOTH, "requests": BOTH}], "Guaranteed"),
        ([{"limits": BOTH, "requests": BOTH}] * 2, "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}], "Guaranteed"),
        ([{"limits": BOTH, "requests": {"cpu": "1", "memory": "1Mi"}}], "Burstable"),
        ([{"limits": BOTH, "requests": BOTH}, {}], "Burstable"),
        ([{"requests": BOTH}], "Burstable"),
        ([{"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}], "Burstable"),
        ([{"requests": {"memory": "1"}}], "Burstable"),
    ],
)
def test_the_class_follows_from_requests_and_limits(containers: list[dict[str, Any]], qos: str) -> None:
    assert qos_class(pod_of(*containers)) == qos


def test_init_containers_count_too() -> None:
    both = {"limits": BOTH, "requests": BOTH}
    assert qos_class(pod_of(both, init=(both,))) == "Guaranteed"
    assert qos_class(pod_of(both, init=({},))) == "Burstable"
    assert qos_class(pod_of({}, init=({"requests": {"cpu": "1"}},))) == "Burstable"


def test_resources_of_the_pod_as_a_whole_decide_alone() -> None:
    assert qos_class(pod_of({}, resources={"limits": BOTH, "requests": BOTH})) == "Guaranteed"
    assert qos_class(pod_of({"limits": BOTH, "requests": BOTH}, resources={"requests": {"cpu": "1"}})) == "Burstable"


def test_a_class_that_was_reported_is_not_decided_again() -> None:
    assert qos_class(pod_of({}, status={"qosClass": "Guaranteed"})) == "Guaranteed"


def test_a_small_part_of_a_spec_is_enough() -> None:
    spec = {"containers": [{"resources": {"limits": BOTH, "requests": BOTH}}], "resources": {}}
    assert qos_class_of(codec.convert(Demand, spec)) == qos_class(
        pod_of(*[{"limits": BOTH, "requests": BOTH}], resources={})
    )
