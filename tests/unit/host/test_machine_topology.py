from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.host.machine_topology import read_machine_topology
from pykubelet.pod.pinning.machine_topology import Core, CpuTopology


def write(root: Path, path: str, text: object) -> None:
    file = root / "sys/devices/system" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def large_machine(root: Path) -> None:
    """2 sockets, 4 NUMA nodes, 128 threads, a cache for every 8 cores."""
    write(root, "cpu/online", "0-127")
    for cpu in range(128):
        core = cpu % 64
        write(root, f"cpu/cpu{cpu}/topology/physical_package_id", core // 32)
        write(root, f"cpu/cpu{cpu}/topology/core_id", core % 32)
        for index, level in enumerate((1, 1, 2, 3)):
            write(root, f"cpu/cpu{cpu}/cache/index{index}/level", level)
            write(root, f"cpu/cpu{cpu}/cache/index{index}/id", core // 8)
            first = core // 8 * 8
            shared = f"{first}-{first + 7},{first + 64}-{first + 71}" if level == 3 else f"{core},{core + 64}"
            write(root, f"cpu/cpu{cpu}/cache/index{index}/shared_cpu_list", shared)
        (root / f"sys/devices/system/node/node{core // 16}/cpu{cpu}").mkdir(parents=True)
    for node in range(4):
        write(root, f"node/node{node}/meminfo", f"Node {node} MemTotal:       4096 kB\nNode {node} MemFree: 1 kB")
        write(root, f"node/node{node}/distance", " ".join("10" if node == each else "21" for each in range(4)))
        write(root, f"node/node{node}/hugepages/hugepages-2048kB/nr_hugepages", 3)


def test_a_large_machine_is_read_as_it_is(tmp_path: Path) -> None:
    large_machine(tmp_path)
    machine = read_machine_topology(str(tmp_path))
    topology = CpuTopology(machine)
    assert machine.numa_ids == (0, 1, 2, 3)
    assert (len(topology.cpus), topology.cpus_per_core, topology.cpus_per_socket) == (128, 2, 64)
    assert topology.within("numa", 1) == {*range(16, 32), *range(80, 96)}
    assert topology.cpus_per_uncore == 16
    node = machine.nodes[2]
    assert (node.memory, node.hugepages, node.distances) == (4096 * 1024, {2 << 20: 3}, (21, 21, 10, 21))
    assert node.cores[0] == Core(socket=1, threads=(32, 96), uncore_cache=4)


def test_processors_that_are_off_are_not_there(tmp_path: Path) -> None:
    large_machine(tmp_path)
    write(tmp_path, "cpu/online", "0-63")
    topology = CpuTopology(read_machine_topology(str(tmp_path)))
    assert (len(topology.cpus), topology.cpus_per_core) == (64, 1)


def test_a_cache_that_the_whole_node_shares_makes_no_difference(tmp_path: Path) -> None:
    large_machine(tmp_path)
    for cpu in range(128):
        node = cpu % 64 // 16 * 16
        write(tmp_path, f"cpu/cpu{cpu}/cache/index3/shared_cpu_list", f"{node}-{node + 15},{node + 64}-{node + 79}")
    machine = read_machine_topology(str(tmp_path))
    assert {core.uncore_cache for node in machine.nodes for core in node.cores} == {None}


def test_without_numa_a_socket_is_a_node(tmp_path: Path) -> None:
    for cpu in range(4):
        write(tmp_path, f"cpu/cpu{cpu}/topology/physical_package_id", cpu // 2)
        write(tmp_path, f"cpu/cpu{cpu}/topology/core_id", cpu % 2)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       2048 kB\n")
    machine = read_machine_topology(str(tmp_path))
    assert [(node.id, len(node.cores), node.memory) for node in machine.nodes] == [(0, 2, 2048 * 1024), (1, 2, 0)]


def test_a_kernel_that_tells_nothing_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="does not tell which cores and sockets there are"):
        read_machine_topology(str(tmp_path))


def test_this_machine_can_be_read() -> None:
    assert CpuTopology(read_machine_topology()).cpus
