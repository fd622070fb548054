import pytest

from kit.pinning import container, guaranteed, made_up
from pykubelet.pod.pinning.allocation_errors import AllocationError, TopologyAffinityError
from pykubelet.pod.pinning.cpu_static import StaticCpus
from pykubelet.pod.pinning.machine_topology import CpuTopology, MachineTopology, NumaNode
from pykubelet.pod.pinning.policy_options import TopologyOptions
from pykubelet.pod.pinning.topology_hints import Hint
from pykubelet.pod.pinning.topology_policies import Alignment, Topology, TopologyPolicy, TopologyScope

MACHINE = made_up(sockets=2, cores_per_node=4)


def admitted(policy: TopologyPolicy, scope: TopologyScope, *cpu: str) -> tuple[str, Alignment, StaticCpus]:
    cpus, counted = StaticCpus(CpuTopology(MACHINE), 1), Alignment()
    pod = guaranteed("a", *(container(f"c{number}", each) for number, each in enumerate(cpu)))
    try:
        Topology(MACHINE, policy, scope).allocate(pod, [cpus], counted)
    except AllocationError as error:
        return error.reason, counted, cpus
    return "", counted, cpus


@pytest.mark.parametrize(
    ("policy", "cpu", "reason"),
    [
        ("none", "5", ""),
        ("best-effort", "5", ""),
        ("restricted", "5", ""),
        ("single-numa-node", "5", "TopologyAffinityError"),
        ("single-numa-node", "4", ""),
        ("none", "8", "UnexpectedAdmissionError"),
    ],
)
def test_policies_differ_in_what_they_refuse(policy: TopologyPolicy, cpu: str, reason: str) -> None:
    assert admitted(policy, "container", cpu)[0] == reason


def test_containers_may_be_apart_and_pods_may_not() -> None:
    reason, counted, cpus = admitted("single-numa-node", "container", "3", "4")
    assert (reason, counted.aligned) == ("", 2)
    assert cpus.cpus_of("a", "c0") == {1, 2, 3}
    reason, counted, _ = admitted("single-numa-node", "pod", "3", "4")
    assert (reason, counted.aligned, counted.misaligned) == ("TopologyAffinityError", 0, 1)
    assert admitted("single-numa-node", "pod", "2", "2")[1].aligned == 1


def test_a_refusal_has_upstreams_words() -> None:
    assert TopologyAffinityError().message == "Resources cannot be allocated with Topology locality"


def test_machines_with_too_many_nodes_are_refused_unless_people_say_so() -> None:
    machine = made_up(sockets=9, cores_per_node=1)
    with pytest.raises(ValueError, match="unsupported on machines with more than 8 NUMA Nodes"):
        Topology(machine, "restricted")
    Topology(machine, "restricted", options=TopologyOptions(max_allowable_numa_nodes=9))
    Topology(machine, "none")


def test_nearness_needs_distances() -> None:
    machine = MachineTopology(nodes=(NumaNode(id=0),))
    with pytest.raises(ValueError, match="error getting NUMA distances"):
        Topology(machine, "best-effort", options=TopologyOptions(prefer_closest_numa=True))


def test_on_a_machine_of_one_node_any_place_is_that_node() -> None:
    assert Topology(made_up(), "single-numa-node").answer([{"cpu": [Hint(1, True)]}]) == (Hint(None, True), True)
