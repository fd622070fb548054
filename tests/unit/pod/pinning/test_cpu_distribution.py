import pytest

from kit.pinning import made_up
from pykubelet.pod.pinning.cpu_assignment import NotEnoughCpus
from pykubelet.pod.pinning.cpu_distribution import distributed_cpus
from pykubelet.pod.pinning.cpu_set import CpuSet
from pykubelet.pod.pinning.machine_topology import CpuTopology

TOPOLOGY = CpuTopology(made_up(sockets=2, nodes_per_socket=2, cores_per_node=16, threads=2))


def shares(cpus: CpuSet, topology: CpuTopology = TOPOLOGY) -> list[int]:
    return [len(cpus & topology.within("numa", node)) for node in topology.ids("numa")]


def test_what_fits_one_node_stays_on_it() -> None:
    assert shares(distributed_cpus(TOPOLOGY, TOPOLOGY.cpus, 20)) == [20, 0, 0, 0]


def test_what_needs_several_nodes_comes_from_each_alike() -> None:
    assert shares(distributed_cpus(TOPOLOGY, TOPOLOGY.cpus, 40)) == [20, 20, 0, 0]
    assert shares(distributed_cpus(TOPOLOGY, TOPOLOGY.cpus, 41)) == [21, 20, 0, 0]


def test_cores_do_not_part_where_they_must_not() -> None:
    cpus = distributed_cpus(TOPOLOGY, TOPOLOGY.cpus, 42, group=2)
    assert all(TOPOLOGY.within("core", TOPOLOGY.places[cpu].core) <= cpus for cpu in cpus)
    assert sorted(shares(cpus)) == [0, 0, 20, 22]


def test_odd_threads_that_are_left_over_do_not_make_it_try_forever() -> None:
    """Free are 3 on each of three nodes: six threads in pairs need all of them, though two nodes have six."""
    topology = CpuTopology(made_up(sockets=3, cores_per_node=2, threads=2))
    one_of_each = frozenset(min(topology.within("numa", node)) for node in topology.ids("numa"))
    cpus = distributed_cpus(topology, topology.cpus - one_of_each, 6, group=2)
    assert shares(cpus, topology) == [2, 2, 2]


def test_more_than_there_is_cannot_be_had() -> None:
    with pytest.raises(NotEnoughCpus, match="requested=129"):
        distributed_cpus(TOPOLOGY, TOPOLOGY.cpus, 129)
