from kit.pinning import container, guaranteed
from pykubelet.api.pod import ContainerStatus, PodStatus
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.pod.pinning.container_demand import exclusive_cpus, pod_exclusive_cpus, pod_exclusive_memory


def test_a_pod_needs_what_its_worst_moment_needs() -> None:
    init = (container("i", "4"), container("s", "1", sidecar=True), container("j", "2"))
    assert pod_exclusive_cpus(guaranteed("a", container("m", "1"), init=init)) == 4
    assert pod_exclusive_cpus(guaranteed("a", container("m", "5"), init=init)) == 6


def test_memory_that_only_init_containers_ask_for_is_not_counted() -> None:
    init = container("i", memory="3Mi", more={"hugepages-2Mi": "2Mi"})
    assert pod_exclusive_memory(guaranteed("a", container("m"), init=(init,))) == {"memory": 3 << 20}


def test_while_a_pod_is_resized_what_it_was_admitted_with_counts() -> None:
    pod = guaranteed("a", container("m", "4"))
    status = ContainerStatus(name="m", allocated_resources={"cpu": parse("2"), "memory": parse("1Mi")})
    assert exclusive_cpus(changed(pod, status=PodStatus(container_statuses=(status,))), pod.spec.containers[0]) == 2
