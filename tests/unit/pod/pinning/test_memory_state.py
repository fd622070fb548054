import pytest

from kit.pinning import made_up
from pykubelet.api.struct import changed
from pykubelet.pod.pinning.memory_state import Block, MemoryState, memory_state_fault, taken, untouched

GI = 1 << 30
MACHINE = made_up(sockets=2, memory=4 * GI, hugepages={2 << 20: 512})
RESERVED = {0: {"memory": GI}}


def test_huge_pages_and_what_is_reserved_are_not_for_pods() -> None:
    machine = untouched(MACHINE, RESERVED)
    assert machine[0].tables["memory"].free == 2 * GI
    assert machine[1].tables["memory"].free == 3 * GI
    assert machine[1].tables["hugepages-2Mi"].free == GI
    with pytest.raises(ValueError, match="more than the 3221225472 that NUMA node 1 has"):
        untouched(MACHINE, {1: {"memory": 4 * GI}})


def test_a_block_is_taken_from_its_nodes_in_order_and_comes_back() -> None:
    before = MemoryState(machine=untouched(MACHINE, RESERVED))
    block = Block(nodes=(0, 1), type="memory", size=4 * GI)
    machine = taken(before.machine, block, block.size)
    after = changed(before, machine=machine).with_blocks("a", "c", (block,))
    assert [machine[node].tables["memory"].free for node in (0, 1)] == [0, GI]
    assert machine[0].group == machine[1].group == (0, 1)
    assert memory_state_fault(after, untouched(MACHINE, RESERVED)) == ""
    assert after.released("a", "c") == before


def test_a_state_that_cannot_be_right_is_told_in_upstreams_words() -> None:
    machine = untouched(MACHINE, RESERVED)
    block = Block(nodes=(1,), type="memory", size=GI)
    right = MemoryState(machine=taken(machine, block, GI), assigned={"a": {"c": (block,)}})
    assert memory_state_fault(right, machine) == ""
    assert "can not be empty when it has memory assignments" in memory_state_fault(changed(right, machine={}), machine)
    elsewhere = changed(right, assigned={"a": {"c": (changed(block, nodes=(7,)),)}})
    assert memory_state_fault(elsewhere, machine).endswith("uses the NUMA that does not exist")
    unheard = changed(right, assigned={"a": {"c": (changed(block, type="hugepages-1Gi"),)}})
    assert memory_state_fault(unheard, machine).endswith("uses memory resource that does not exist")
    for other in (changed(right, assigned={}), changed(right, machine=untouched(MACHINE, {0: {"memory": 2 * GI}}))):
        assert memory_state_fault(other, machine).endswith("the expected machine state is different from the real one")
