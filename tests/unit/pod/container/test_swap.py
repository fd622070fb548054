"""Who gets how much swap."""

import pytest

from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import parse
from pykubelet.pod.container.swap import swap_limit


def pod(requests: dict[str, str], limits: dict[str, str], priority: int = 0) -> Pod:
    resources = ResourceRequirements(
        requests={name: parse(text) for name, text in requests.items()},
        limits={name: parse(text) for name, text in limits.items()},
    )
    return Pod(spec=PodSpec(containers=(Container(name="c", resources=resources),), priority=priority))


def limit(made: Pod, memory: int = 1000, swap: int = 500) -> int:
    return swap_limit(made, made.spec.containers[0], memory, swap)


@pytest.mark.parametrize(
    ("requests", "limits", "swap"),
    [
        ({"memory": "100"}, {}, 50),
        ({"memory": "101"}, {"memory": "200"}, 50),
        ({"memory": "100"}, {"memory": "100", "cpu": "1"}, 0),
        ({}, {}, 0),
        ({"cpu": "1"}, {}, 0),
        ({"cpu": "1"}, {"memory": "100"}, 0),
        ({"memory": "1001"}, {}, 0),
    ],
)
def test_what_may_use_more_memory_than_it_asks_for_gets_its_share(
    requests: dict[str, str], limits: dict[str, str], swap: int
) -> None:
    assert limit(pod(requests, limits)) == swap


def test_without_swap_or_memory_there_is_none_to_share() -> None:
    assert limit(pod({"memory": "100"}, {}), swap=0) == 0
    assert limit(pod({"memory": "100"}, {}), memory=0) == 0


def test_what_the_node_depends_on_never_waits_for_a_disk() -> None:
    assert limit(pod({"memory": "100"}, {}, priority=2_000_000_000)) == 0
    assert limit(pod({"memory": "100"}, {}, priority=1_999_999_999)) == 50
    static = ObjectMeta(annotations={"kubernetes.io/config.source": "file"})
    made = pod({"memory": "100"}, {})
    assert limit(Pod(metadata=static, spec=made.spec)) == 0


def test_the_steps_of_the_sum_are_upstreams() -> None:
    """Rounding shows which of two products came first."""
    assert limit(pod({"memory": "74844"}, {}), memory=731_104, swap=996_960) == 102_060
