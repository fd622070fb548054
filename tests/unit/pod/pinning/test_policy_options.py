from collections.abc import Mapping

import pytest

from kit.pinning import GATES
from pykubelet.pod.pinning.policy_options import CpuOptions, TopologyOptions, cpu_options, topology_options

OFF = dict.fromkeys(GATES, False)


def test_options_are_read_as_upstream_reads_truth() -> None:
    assert cpu_options({"full-pcpus-only": "T"}, OFF) == CpuOptions(full_cores_only=True)
    assert cpu_options({"strict-cpu-reservation": "0"}, GATES) == CpuOptions()
    assert topology_options({"prefer-closest-numa-nodes": "true"}, OFF) == TopologyOptions(prefer_closest_numa=True)
    assert topology_options({"max-allowable-numa-nodes": "12"}, GATES).max_allowable_numa_nodes == 12


@pytest.mark.parametrize(
    ("written", "gates", "fault"),
    [
        ({"fast": "true"}, GATES, 'unknown CPU Manager Policy option: "fast"'),
        ({"full-pcpus-only": "yes"}, GATES, 'bad value for option "full-pcpus-only"'),
        ({"align-by-socket": "true"}, OFF, 'Alpha-level Options not enabled, but option "align-by-socket" provided'),
        ({"strict-cpu-reservation": "true"}, OFF, "Beta-level Options not enabled"),
        (
            {"full-pcpus-only": "true", "distribute-cpus-across-cores": "true"},
            GATES,
            "full-pcpus-only and distribute-cpus-across-cores can not be used at the same time",
        ),
        (
            {"distribute-cpus-across-numa": "true", "prefer-align-cpus-by-uncorecache": "true"},
            GATES,
            "prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa can not be used at the same time",
        ),
    ],
)
def test_cpu_options_that_cannot_be_are_told(written: Mapping[str, str], gates: Mapping[str, bool], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        cpu_options(written, gates)


@pytest.mark.parametrize(
    ("written", "gates", "fault"),
    [
        ({"near": "true"}, GATES, 'unknown Topology Manager Policy option: "near"'),
        ({"max-allowable-numa-nodes": "9"}, OFF, "beta-level options not enabled"),
        ({"max-allowable-numa-nodes": "7"}, GATES, "should not be less than 8"),
        ({"max-allowable-numa-nodes": "many"}, GATES, "unable to convert policy option to integer"),
    ],
)
def test_topology_options_that_cannot_be_are_told(
    written: Mapping[str, str], gates: Mapping[str, bool], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        topology_options(written, gates)
