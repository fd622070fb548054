import pytest

from kit.pinning import made_up
from pykubelet.pod.pinning.cpu_assignment import NotEnoughCpus, packed_cpus
from pykubelet.pod.pinning.cpu_set import CpuSet, format_cpu_set
from pykubelet.pod.pinning.machine_topology import Core, CpuTopology, MachineTopology, NumaNode

TOPOLOGY = CpuTopology(made_up(sockets=2, nodes_per_socket=2, cores_per_node=16, threads=2))


def shown(count: int, *, without: CpuSet = frozenset(), spread: bool = False) -> str:
    return format_cpu_set(packed_cpus(TOPOLOGY, TOPOLOGY.cpus - without, count, spread=spread))


def test_whole_sockets_then_nodes_then_cores_then_threads_are_taken() -> None:
    assert shown(64) == "0-31,64-95"
    assert shown(32) == "0-15,64-79"
    assert shown(3) == "0-1,64"
    assert shown(67) == "0-33,64-96"


def test_a_node_that_is_in_use_is_used_up_before_another_is_begun() -> None:
    assert shown(2, without=frozenset({32})) == "33,97"


def test_spread_takes_threads_of_different_cores() -> None:
    assert shown(4, spread=True) == "0-3"


def test_one_cache_serves_all_where_it_can() -> None:
    cores = tuple(Core(socket=0, threads=(cpu,), uncore_cache=cpu // 4) for cpu in range(8))
    topology = CpuTopology(MachineTopology(nodes=(NumaNode(id=0, cores=cores),)))
    free = topology.cpus - {0, 1}
    assert packed_cpus(topology, free, 3, by_uncore_cache=True) == {4, 5, 6}
    assert packed_cpus(topology, free, 3) == {2, 3, 4}


def test_more_than_there_is_cannot_be_had() -> None:
    with pytest.raises(NotEnoughCpus, match="requested=129, available=128"):
        packed_cpus(TOPOLOGY, TOPOLOGY.cpus, 129)
