import pytest

from kit.pinning import container, guaranteed, made_up
from pykubelet.api.container import ResourceRequirements
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.pod.pinning.allocation_errors import AllocationError, SmtAlignmentError
from pykubelet.pod.pinning.cpu_set import format_cpu_set
from pykubelet.pod.pinning.cpu_state import CpuState
from pykubelet.pod.pinning.cpu_static import StaticCpus
from pykubelet.pod.pinning.machine_topology import CpuTopology
from pykubelet.pod.pinning.pinning_counts import PinningCounts
from pykubelet.pod.pinning.policy_options import CpuOptions
from pykubelet.pod.pinning.topology_hints import Hint

SMALL = CpuTopology(made_up(cores_per_node=4, threads=2))
LARGE = CpuTopology(made_up(sockets=2, nodes_per_socket=2, cores_per_node=16, threads=2))
ANYWHERE = Hint(None, False)


def test_whole_processors_of_a_guaranteed_pod_are_its_own_and_the_others_are_shared() -> None:
    cpus = StaticCpus(SMALL, 1)
    pod = guaranteed("a", container("main", "2"), container("side", "500m"))
    for each in pod.spec.containers:
        cpus.allocate(pod, each, ANYWHERE)
    assert format_cpu_set(cpus.cpus_of("a", "main")) == "1,5"
    assert cpus.cpus_of("a", "side") == cpus.state.shared == SMALL.cpus - {1, 5}
    cpus.release("a", "main")
    assert cpus.state == CpuState(shared=SMALL.cpus)


def test_reserved_processors_are_never_handed_out() -> None:
    cpus = StaticCpus(SMALL, frozenset({2, 3}))
    pod = guaranteed("a", container("main", "6"))
    cpus.allocate(pod, pod.spec.containers[0], ANYWHERE)
    assert cpus.state.shared == {2, 3}
    with pytest.raises(AllocationError, match="requested=1, available=0") as refused:
        cpus.allocate(guaranteed("b"), container(), ANYWHERE)
    assert refused.value.reason == "UnexpectedAdmissionError"
    assert refused.value.message.startswith("Allocate failed due to not enough cpus available")


def test_only_guaranteed_pods_with_resources_of_their_containers_are_pinned() -> None:
    cpus = StaticCpus(SMALL, 1)
    burstable = guaranteed("a", changed(container(), resources=ResourceRequirements(requests={"cpu": parse("1")})))
    whole = ResourceRequirements(limits={"cpu": parse("2"), "memory": parse("1Gi")})
    pod = guaranteed("b")
    together = changed(pod, spec=changed(pod.spec, resources=whole))
    for each in (burstable, together):
        cpus.allocate(each, each.spec.containers[0], ANYWHERE)
        assert cpus.hints(each, each.spec.containers[0]) == cpus.pod_hints(each) == {}
    assert cpus.state.assigned == {}


def test_main_containers_use_what_init_containers_had_and_not_what_sidecars_have() -> None:
    cpus = StaticCpus(SMALL, 1)
    init, sidecar = container("init", "2"), container("sidecar", "1", sidecar=True)
    pod = guaranteed("a", container("main", "2"), init=(init, sidecar))
    for each in (*pod.spec.init_containers, *pod.spec.containers):
        cpus.allocate(pod, each, ANYWHERE)
    own = {name: cpus.cpus_of("a", name) for name in ("init", "sidecar", "main")}
    assert own["main"] & own["init"]
    assert not own["main"] & own["sidecar"]
    assert len(cpus.state.exclusive) == 3


def test_whole_cores_are_all_or_nothing() -> None:
    counts = PinningCounts()
    cpus = StaticCpus(SMALL, 1, CpuOptions(full_cores_only=True), counts=counts)
    with pytest.raises(SmtAlignmentError) as odd:
        cpus.allocate(guaranteed("a"), container("c", "3"), ANYWHERE)
    assert odd.value.reason == "SMTAlignmentError"
    assert odd.value.message == "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
    with pytest.raises(SmtAlignmentError, match="available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2"):
        cpus.allocate(guaranteed("a"), container("c", "8"), ANYWHERE)
    cpus.allocate(guaranteed("a"), container("c", "6"), ANYWHERE)
    assert format_cpu_set(cpus.state.shared) == "0,4"
    assert (counts.cpu_requests, counts.cpu_errors) == (3, 2)
    assert (counts.aligned["container", "physical_cpu"], counts.failed["container", "physical_cpu"]) == (1, 2)


def test_strictly_reserved_processors_are_nobodys() -> None:
    cpus = StaticCpus(SMALL, frozenset({0, 4}), CpuOptions(strict_reservation=True))
    assert format_cpu_set(cpus.state.shared) == "1-3,5-7"


def test_hints_prefer_as_few_nodes_as_an_empty_machine_would_need() -> None:
    cpus = StaticCpus(LARGE, 1)
    hints = cpus.hints(guaranteed("a", container("c", "32")), container("c", "32"))["cpu"]
    assert hints is not None
    assert [hint.affinity for hint in hints if hint.preferred] == [2, 4, 8]  # node 0 has a reserved one
    assert hints[0] == Hint(2, True)
    assert Hint(3, False) in hints


def test_align_by_socket_prefers_nodes_of_one_socket_and_takes_them() -> None:
    cpus = StaticCpus(LARGE, 1, CpuOptions(align_by_socket=True))
    pod = guaranteed("a", container("c", "40"))
    hints = cpus.hints(pod, pod.spec.containers[0])["cpu"]
    assert hints is not None
    assert {hint.affinity for hint in hints if hint.preferred} >= {0b0011, 0b1100}
    cpus.allocate(pod, pod.spec.containers[0], Hint(0b0100, False))
    assert LARGE.around("socket", cpus.cpus_of("a", "c")) == {1}


def test_hints_for_what_is_allocated_are_where_it_is_and_for_another_amount_there_are_none() -> None:
    cpus = StaticCpus(LARGE, 1)
    pod = guaranteed("a", container("c", "2"))
    cpus.allocate(pod, pod.spec.containers[0], Hint(0b1000, True))
    hints = cpus.hints(pod, pod.spec.containers[0])["cpu"]
    assert hints is not None
    assert all((hint.affinity or 0) & 0b1000 for hint in hints)
    assert cpus.hints(pod, container("c", "3")) == {"cpu": ()}


def test_a_second_admission_after_a_restart_changes_nothing() -> None:
    first = StaticCpus(SMALL, 1)
    pod = guaranteed("a", container("c", "2"))
    first.allocate(pod, pod.spec.containers[0], ANYWHERE)
    second = StaticCpus(SMALL, 1)
    second.restore(first.state)
    second.allocate(pod, pod.spec.containers[0], ANYWHERE)
    assert second.state == first.state


def test_a_state_of_another_machine_is_not_gone_on_from() -> None:
    cpus = StaticCpus(SMALL, 1)
    with pytest.raises(ValueError, match="doesn't match with CPUs in state"):
        cpus.restore(CpuState(shared=frozenset({0, 1})))


def test_more_or_other_reserved_processors_than_there_are_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unable to reserve the required amount of CPUs .* did not equal 9"):
        StaticCpus(SMALL, 9)
    with pytest.raises(ValueError, match="unknown CPU ID: 8"):
        StaticCpus(SMALL, frozenset({0, 8}))
