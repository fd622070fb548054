from kit.pinning import made_up
from pykubelet.pod.pinning.machine_topology import Core, CpuTopology, MachineTopology, NumaNode


def test_a_large_machine_is_known_from_all_sides() -> None:
    topology = CpuTopology(made_up(sockets=2, nodes_per_socket=2, cores_per_node=16, threads=2))
    assert len(topology.cpus) == 128
    assert (topology.cpus_per_core, topology.cpus_per_socket) == (2, 64)
    assert topology.within("core", 5) == {5, 69}
    assert topology.around("socket", topology.within("numa", 2, 3)) == {1}
    assert topology.ids("numa") == [0, 1, 2, 3]


def test_without_a_cache_of_its_own_a_core_belongs_to_its_sockets() -> None:
    cores = (Core(socket=0, threads=(0,)), Core(socket=1, threads=(1,), uncore_cache=7))
    topology = CpuTopology(MachineTopology(nodes=(NumaNode(id=0, cores=cores),)))
    assert topology.ids("uncore") == [0, 7]
