import pytest

from kit.pinning import container, guaranteed, made_up
from pykubelet.api.quantity import parse
from pykubelet.pod.pinning.allocation_errors import AllocationError
from pykubelet.pod.pinning.memory_static import StaticMemory, reserved_memory
from pykubelet.pod.pinning.topology_hints import Hint

GI = 1 << 30
MACHINE = made_up(sockets=2, memory=4 * GI)
ANYWHERE = Hint(None, False)


def static() -> StaticMemory:
    return StaticMemory(MACHINE, {0: {"memory": GI}, 1: {"memory": GI}})


def admit(memory: StaticMemory, uid: str, amount: str, hint: Hint = ANYWHERE) -> list[int]:
    pod = guaranteed(uid, container("c", memory=amount))
    memory.allocate(pod, pod.spec.containers[0], hint)
    return memory.nodes_of(uid, "c")


def test_memory_comes_from_as_few_nodes_as_can_be() -> None:
    memory = static()
    assert admit(memory, "a", "2Gi") == [0]
    assert admit(memory, "b", "2Gi") == [1]
    assert admit(memory, "c", "1Gi", Hint(0b10, True)) == [1]


def test_a_node_that_is_used_alone_is_not_used_with_others() -> None:
    memory = static()
    admit(memory, "a", "1Gi")
    with pytest.raises(AllocationError, match="no NUMA nodes with enough memory is available"):
        admit(memory, "b", "4Gi")
    memory.release("a", "c")
    assert admit(memory, "b", "4Gi") == [0, 1]
    pod = guaranteed("c", container("c", memory="1Gi"))
    hints = memory.hints(pod, pod.spec.containers[0])["memory"]
    assert hints == [Hint(0b11, False)]


def test_a_hint_that_is_too_small_is_extended() -> None:
    assert admit(static(), "a", "5Gi", Hint(0b10, False)) == [0, 1]


def test_what_init_containers_had_is_counted_once() -> None:
    memory = static()
    pod = guaranteed("a", container("main", memory="2Gi"), init=(container("init", memory="3Gi"),))
    for each in (*pod.spec.init_containers, *pod.spec.containers):
        memory.allocate(pod, each, ANYWHERE)
    assert memory.state.machine[0].tables["memory"].free == 0
    again = static()
    again.restore(memory.state)
    memory.release("a", "init")
    assert memory.state.machine[0].tables["memory"].free == GI


def test_the_memory_of_others_is_nobodys_business() -> None:
    memory = static()
    pod = guaranteed("a", container("c", "1"))
    assert memory.nodes_of("a", "c") == []
    assert memory.hints(guaranteed("b", container("c", "0", "0")), container("c", "0", "0")) == {}
    memory.allocate(pod, pod.spec.containers[0], ANYWHERE)
    assert memory.pod_hints(pod) == {"memory": [Hint(1, True)]}


@pytest.mark.parametrize(
    ("by_node", "reservation", "fault"),
    [
        ({0: "1Gi", 1: "512Mi"}, "1536Mi", ""),
        ({0: "1Gi"}, "1536Mi", 'the total amount "1Gi" of type "memory" is not equal to the value "1536Mi"'),
        ({5: "1Gi"}, "1Gi", "references a NUMA node 5 that does not exist on this machine"),
    ],
)
def test_reserved_memory_has_to_add_up(by_node: dict[int, str], reservation: str, fault: str) -> None:
    given = {node: {"memory": parse(text)} for node, text in by_node.items()}
    whole = {"memory": parse(reservation), "cpu": parse("1")}
    if not fault:
        assert reserved_memory(MACHINE, given, whole) == {0: {"memory": GI}, 1: {"memory": GI // 2}}
        return
    with pytest.raises(ValueError, match=fault):
        reserved_memory(MACHINE, given, whole)


def test_without_a_reservation_there_is_no_static_policy() -> None:
    with pytest.raises(ValueError, match="you should specify the system reserved memory"):
        StaticMemory(MACHINE, {})
