import pytest

from pykubelet.api.container import ResourceRequirements
from pykubelet.api.quantity import parse
from pykubelet.pod.observed import EnforcedLimits
from pykubelet.pod.resize.shown import shown_resources

Sizes = dict[str, str]


def resources(requests: Sizes, limits: Sizes) -> ResourceRequirements:
    return ResourceRequirements(
        requests={name: parse(text) for name, text in requests.items()},
        limits={name: parse(text) for name, text in limits.items()},
    )


NOTHING = ResourceRequirements()


@pytest.mark.parametrize(
    ("told", "allocated", "shown"),
    [
        (
            EnforcedLimits(cpu_shares=102, cpu_quota=20_000, memory=64 << 20),
            resources({"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}),
            resources({"cpu": "100m"}, {"cpu": "200m", "memory": "64Mi"}),
        ),
        (EnforcedLimits(cpu_quota=5_000, cpu_period=10_000), NOTHING, resources({}, {"cpu": "500m"})),
        (EnforcedLimits(cpu_shares=2, cpu_quota=1000), resources({"cpu": "1m"}, {"cpu": "5m"}), NOTHING),
        (
            EnforcedLimits(cpu_shares=2, cpu_quota=1000),
            resources({"cpu": "1"}, {"cpu": "1"}),
            resources({"cpu": "2m"}, {"cpu": "10m"}),
        ),
        (EnforcedLimits(), resources({"cpu": "1"}, {}), NOTHING),
    ],
)
def test_what_a_runtime_says_is_shown_in_the_words_of_a_spec(
    told: EnforcedLimits, allocated: ResourceRequirements, shown: ResourceRequirements
) -> None:
    assert shown_resources(told, allocated, NOTHING) == shown


def test_what_a_runtime_does_not_say_is_taken_from_elsewhere() -> None:
    known = resources({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "x.io/y": "1"})
    assert shown_resources(EnforcedLimits(memory=1 << 20), NOTHING, known) == resources(
        {"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Mi"}
    )
