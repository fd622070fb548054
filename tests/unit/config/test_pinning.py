from typing import Any

import pytest

from pykubelet.api.quantity import parse
from pykubelet.base.errors import Invalid
from pykubelet.config.agent import make_config
from pykubelet.pod.pinning.policy_options import CpuOptions, TopologyOptions
from pykubelet.pod.pinning.settings import PinningSettings

STATIC = {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "500m"}}


def made(given: dict[str, Any]) -> PinningSettings:
    return make_config({"--hostname-override": "n1", "--root-dir": "/r", **given}).pinning


def test_nothing_is_pinned_unless_people_want_it() -> None:
    assert made({}) == PinningSettings()


def test_what_people_want_reaches_the_policies() -> None:
    settings = made(
        {
            **STATIC,
            "cpuManagerPolicyOptions": {"full-pcpus-only": "true", "align-by-socket": "true"},
            "cpuManagerReconcilePeriod": "3s",
            "memoryManagerPolicy": "Static",
            "reservedMemory": (
                {"numaNode": 0, "limits": {"memory": "1Gi"}},
                {"numaNode": 1, "limits": {"memory": "2Gi", "hugepages-2Mi": "4Mi"}},
            ),
            "topologyManagerPolicy": "restricted",
            "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"},
            "topologyManagerScope": "pod",
            "featureGates": {"CPUManagerPolicyAlphaOptions": True, "DisableCPUQuotaWithExclusiveCPUs": False},
        }
    )
    assert settings == PinningSettings(
        cpu_policy="static",
        cpu_options=CpuOptions(full_cores_only=True, align_by_socket=True),
        reconcile_period=3.0,
        unlimited_quota=False,
        memory_policy="Static",
        reserved_memory={
            0: {"memory": parse("1Gi")},
            1: {"memory": parse("2Gi"), "hugepages-2Mi": parse("4Mi")},
        },
        topology_policy="restricted",
        topology_scope="pod",
        topology_options=TopologyOptions(prefer_closest_numa=True),
    )


def test_processors_that_are_named_are_the_reserved_ones() -> None:
    assert made({"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,2-3"}).reserved_cpus == {0, 2, 3}


def test_options_of_a_topology_policy_that_is_off_are_not_read_as_upstream_does_not() -> None:
    assert made({"topologyManagerPolicyOptions": {"near": "true"}}).topology_options == TopologyOptions()


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"cpuManagerPolicy": "fast"}, "cpuManagerPolicy: must be none or static"),
        ({"cpuManagerPolicy": "static"}, "requires systemreserved.cpu [+] kubereserved.cpu to be greater than zero"),
        (
            {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
            r"None policy: received unsupported options=map\[full-pcpus-only:true\]",
        ),
        ({**STATIC, "cpuManagerPolicyOptions": {"fast": "true"}}, 'unknown CPU Manager Policy option: "fast"'),
        (
            {**STATIC, "cpuManagerPolicyOptions": {"align-by-socket": "true"}},
            "turn on the feature gate CPUManagerPolicyAlphaOptions",
        ),
        (
            {
                **STATIC,
                "cpuManagerPolicyOptions": {"align-by-socket": "true"},
                "topologyManagerPolicy": "single-numa-node",
                "featureGates": {"CPUManagerPolicyAlphaOptions": True},
            },
            "single-numa-node policy is incompatible with CPUManager align-by-socket",
        ),
        (
            {"topologyManagerPolicy": "restricted", "topologyManagerPolicyOptions": {"near": "true"}},
            'unknown Topology Manager Policy option: "near"',
        ),
        (
            {
                "topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"},
                "featureGates": {"TopologyManagerPolicyOptions": False},
            },
            'require feature gates "TopologyManagerPolicyOptions" enabled',
        ),
        ({"reservedSystemCPUs": "3-1", **STATIC}, "reservedSystemCPUs: the range '3-1' ends before it begins"),
        ({"reservedMemory": ({"limits": {"cpu": "1"}},)}, 'the limit type "cpu" for NUMA node 0 is not supported'),
        ({"reservedMemory": ({"limits": {"memory": "0"}},)}, "reserved memory may not be zero for NUMA node 0"),
        ({"reservedMemory": ({"limits": {"memory": "much"}},)}, "is not a quantity"),
        (
            {"reservedMemory": ({"numaNode": 1, "limits": {"memory": "1"}},) * 2},
            'has a duplicate value for NUMA node 1 and resource "memory"',
        ),
    ],
)
def test_what_cannot_be_is_told(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        made(given)
