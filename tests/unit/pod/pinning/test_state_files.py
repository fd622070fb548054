import pytest

from pykubelet.pod.pinning.cpu_state import CpuState
from pykubelet.pod.pinning.memory_state import Block, MemoryState, MemoryTable, NodeMemory
from pykubelet.pod.pinning.state_files import (
    cpu_state_file,
    memory_state_file,
    read_cpu_state,
    read_memory_state,
    unusable,
)

CPU_FILE = b'{"policyName":"static","defaultCpuSet":"0-3","entries":{"pod1":{"a":"4","b":"5-6"}},"checksum":%d}'
"""As upstream writes it, but for the checksum."""
MEMORY_FILE = (
    b'{"policyName":"Static","machineState":{"10":{"numberOfAssignments":2,"memoryMap":{"hugepages-2Mi":{"total":0,'
    b'"systemReserved":0,"allocatable":0,"reserved":0,"free":0},"memory":{"total":5,"systemReserved":4,"allocatable":3'
    b',"reserved":2,"free":1}},"cells":[0,10]},"2":{"numberOfAssignments":0,"memoryMap":{},"cells":[]}},"entries":{"p":'
    b'{"c":[{"numaAffinity":[0,10],"type":"memory","size":7},{"numaAffinity":[0],"type":"hugepages-2Mi","size":8}]}},'
    b'"checksum":2447333283}'
)
MEMORY = MemoryState(
    machine={
        2: NodeMemory(),
        10: NodeMemory(
            assignments=2,
            tables={
                "memory": MemoryTable(total=5, system_reserved=4, allocatable=3, reserved=2, free=1),
                "hugepages-2Mi": MemoryTable(),
            },
            group=(0, 10),
        ),
    },
    assigned={
        "p": {
            "c": (
                Block(nodes=(0, 10), type="memory", size=7),
                Block(nodes=(0,), type="hugepages-2Mi", size=8),
            )
        }
    },
)
CPUS = CpuState(shared=frozenset({0, 1, 2, 3}), assigned={"pod1": {"b": frozenset({5, 6}), "a": frozenset({4})}})


def test_files_are_upstreams_to_the_byte() -> None:
    assert memory_state_file("Static", MEMORY) == MEMORY_FILE
    assert cpu_state_file("none", CpuState()) == b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
    assert memory_state_file("None", MemoryState()) == b'{"policyName":"None","machineState":{},"checksum":4236770233}'


def test_what_was_written_is_read_again() -> None:
    assert read_memory_state("Static", MEMORY_FILE) == MEMORY
    assert read_cpu_state("static", cpu_state_file("static", CPUS)) == CPUS
    assert read_cpu_state("static", CPU_FILE % 0) == CPUS  # from before there were checksums


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", CPU_FILE % 1, CPU_FILE[:60]])
def test_a_spoilt_file_is_told_and_not_used(content: bytes) -> None:
    with pytest.raises(ValueError, match="checkpoint is corrupted"):
        read_cpu_state("static", content)
    with pytest.raises(ValueError, match="checkpoint is corrupted"):
        read_memory_state("Static", content)


def test_a_flipped_digit_in_the_memory_of_a_node_is_noticed() -> None:
    with pytest.raises(ValueError, match="checkpoint is corrupted"):
        read_memory_state("Static", MEMORY_FILE.replace(b'"free":1', b'"free":2'))


def test_a_file_of_another_policy_is_not_used() -> None:
    with pytest.raises(ValueError, match='configured policy "none" differs from state checkpoint policy "static"'):
        read_cpu_state("none", cpu_state_file("static", CPUS))
    with pytest.raises(ValueError, match=r"\[memorymanager\] configured policy"):
        read_memory_state("None", MEMORY_FILE)


def test_processors_that_are_none_are_told() -> None:
    with pytest.raises(ValueError, match='could not parse cpuset "x" for container "a" in pod "pod1"'):
        read_cpu_state("static", (CPU_FILE % 0).replace(b'"4"', b'"x"'))


def test_people_are_told_what_to_do() -> None:
    told = unusable("CPU", "checkpoint is corrupted", "/var/lib/kubelet/cpu_manager_state")
    assert told == (
        "could not restore state from checkpoint: checkpoint is corrupted, please drain this node and delete the CPU "
        'manager checkpoint file "/var/lib/kubelet/cpu_manager_state" before restarting Kubelet'
    )
