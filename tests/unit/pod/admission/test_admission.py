"""May this pod run here? Each reason and message, and which of several comes first."""

from typing import Any

import pytest

from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.pod.admission.admission import Admission, Admitted, Rejected
from pykubelet.pod.admission.fit import NodeUsage
from unit.pod.admission_pods import ALLOCATABLE, CRITICAL, node, pod

SECOND = {"containerPort": 80, "hostPort": 80}
RUNNING = NodeUsage([pod("1", {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}, ports=[SECOND])])
TAINTED = node(taints=[{"key": "k", "value": "v", "effect": "NoExecute"}])
FULL = node({**ALLOCATABLE, "pods": "1"})
WINDOWS = {"kubernetes.io/os": "windows"}
LINUX = {"kubernetes.io/os": "linux"}


def strict(policy: str) -> dict[str, Any]:
    return {"securityContext": {"supplementalGroupsPolicy": policy}}


def sysctl(name: str) -> dict[str, Any]:
    return {"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}


@pytest.mark.parametrize(
    ("asking", "where"),
    [
        pytest.param(pod(), node(), id="a pod that asks for nothing"),
        pytest.param(pod(requests={"cpu": "3", "memory": "3Gi"}), node(), id="exactly what is left"),
        pytest.param(pod(requests={"far.away/licence": "9"}), node(), id="a resource that the node never heard of"),
        pytest.param(pod(requests={"cpu": "0"}), node({"pods": "2"}), id="nothing of a cpu that is not told of"),
        pytest.param(pod(nodeName="n1"), node(), id="bound to this node"),
        pytest.param(pod(nodeSelector={"zone": "a"}), node(labels={"zone": "a"}), id="selecting this node"),
        pytest.param(
            pod(nodeSelector=LINUX), node(labels=WINDOWS), id="the machine knows its own system better than a label"
        ),
        pytest.param(pod(labels=LINUX, os={"name": "linux"}), node(), id="for this system"),
        pytest.param(pod(ports=[{**SECOND, "protocol": "UDP"}]), node(), id="another protocol on a held port"),
        pytest.param(pod(static=True), TAINTED, id="a static pod on a node that expels pods"),
        pytest.param(pod(tolerations=[{"operator": "Exists"}]), TAINTED, id="a pod that tolerates everything"),
        pytest.param(
            pod(), node(taints=[{"key": "k", "effect": "NoSchedule"}]), id="a taint is the scheduler's unless it expels"
        ),
        pytest.param(pod(**strict("Merge")), node(), id="merged groups need no feature"),
        pytest.param(
            pod(**strict("Strict")), node(features={"supplementalGroupsPolicy": True}), id="strict groups, supported"
        ),
        pytest.param(pod(**sysctl("net.ipv4.tcp_rmem")), node(), id="a safe sysctl"),
        pytest.param(
            pod("1", {"cpu": "4"}, ports=[SECOND]), FULL, id="a pod that is here does not stand in its own way"
        ),
    ],
)
def test_admitted(asking: Pod, where: Node) -> None:
    assert Admission(where).admit(asking, RUNNING) == Admitted()


@pytest.mark.parametrize(
    ("asking", "where", "reason", "message"),
    [
        pytest.param(
            pod(requests={"cpu": "4"}),
            node(),
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 4000, used: 1000, capacity: 4000",
            id="too little cpu",
        ),
        pytest.param(
            pod(requests={"memory": "4Gi"}),
            node(),
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 4294967296, used: 1073741824, capacity: 4294967296",
            id="too little memory",
        ),
        pytest.param(
            pod(requests={"ephemeral-storage": "10Gi"}),
            node(),
            "OutOfephemeral-storage",
            "Node didn't have enough resource: ephemeral-storage, "
            "requested: 10737418240, used: 1073741824, capacity: 10737418240",
            id="too little storage",
        ),
        pytest.param(
            pod(),
            FULL,
            "OutOfpods",
            "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1",
            id="too many pods",
        ),
        pytest.param(
            pod(requests={"example.com/gpu": "3"}),
            node(),
            "OutOfexample.com/gpu",
            "Node didn't have enough resource: example.com/gpu, requested: 3, used: 0, capacity: 2",
            id="too little of an extended resource",
        ),
        pytest.param(
            pod(requests={"hugepages-2Mi": "2Mi"}),
            node(),
            "OutOfhugepages-2Mi",
            "Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0",
            id="huge pages that the node does not tell of are not there",
        ),
        pytest.param(
            pod(requests={"cpu": "1m"}),
            node({"pods": "9"}),
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 1, used: 1000, capacity: 0",
            id="a cpu that the node does not tell of is not there",
        ),
        pytest.param(
            pod(),
            node({}),
            "OutOfpods",
            "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 0",
            id="a node that tells of nothing runs no pod",
        ),
        pytest.param(
            pod(nodeSelector={"zone": "b"}),
            node(labels={"zone": "a"}),
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            id="labels that the node does not have",
        ),
        pytest.param(
            pod(nodeSelector={"kubernetes.io/arch": "arm64"}),
            node(labels={"kubernetes.io/arch": "amd64"}),
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            id="another architecture",
        ),
        pytest.param(
            pod(nodeName="n2"),
            node(),
            "NodeName",
            "Predicate NodeName failed: node(s) didn't match the requested node name",
            id="bound to another node",
        ),
        pytest.param(
            pod(ports=[SECOND]),
            node(),
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
            id="a port of the machine that is held",
        ),
        pytest.param(
            pod(),
            TAINTED,
            "TaintToleration",
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
            id="a node that expels the pod",
        ),
        pytest.param(
            pod(labels=WINDOWS),
            node(labels=WINDOWS),
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
            id="labelled for another system",
        ),
        pytest.param(
            pod(os={"name": "windows"}),
            node(),
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
            id="for another system",
        ),
        pytest.param(
            pod(**strict("Strict")),
            node(),
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
            id="strict groups on a node that cannot",
        ),
        pytest.param(
            pod(**sysctl("kernel.sem")),
            node(),
            "SysctlForbidden",
            'forbidden sysctl: "kernel.sem" not allowlisted',
            id="an unsafe sysctl",
        ),
        pytest.param(
            pod(**sysctl("net.ipv4.tcp_rmem")),
            node(kernel="4.4.0"),
            "SysctlForbidden",
            'forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted',
            id="a sysctl that the kernel is too old for",
        ),
        pytest.param(
            pod(**sysctl("kernel.shm_rmid_forced"), hostIPC=True),
            node(),
            "SysctlForbidden",
            'forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled',
            id="a safe sysctl of a namespace that is the host's",
        ),
        pytest.param(
            pod(requests={"cpu": "4"}, nodeName="n2"),
            node(),
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 4000, used: 1000, capacity: 4000",
            id="resources are told of before all that is wrong with the place",
        ),
        pytest.param(
            pod(requests={"cpu": "4"}, nodeName="n2", priority=CRITICAL),
            node(),
            "NodeName",
            "Predicate NodeName failed: node(s) didn't match the requested node name",
            id="a critical pod is only told what nobody can make room for",
        ),
        pytest.param(
            pod(requests={"cpu": "9"}, os={"name": "windows"}, **sysctl("x.y")),
            node(),
            "SysctlForbidden",
            'forbidden sysctl: "x.y" not allowlisted',
            id="sysctls are looked at first",
        ),
    ],
)
def test_rejected(asking: Pod, where: Node, reason: str, message: str) -> None:
    assert Admission(where).admit(asking, RUNNING) == Rejected(reason, message)


HOST = "AppArmor is not enabled on the host"
EMPTY = "invalid empty AppArmor profile name of container c"
ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


def confined(kind: str, name: str | None = None) -> dict[str, Any]:
    return {"securityContext": {"appArmorProfile": {"type": kind, **({"localhostProfile": name} if name else {})}}}


def annotated(**profiles: str) -> Pod:
    asking = pod()
    annotations = {f"{ANNOTATION}{name}": value for name, value in profiles.items()}
    return changed(asking, metadata=changed(asking.metadata, annotations=annotations))


@pytest.mark.parametrize(
    ("asking", "without", "with_it"),
    [
        (pod(), "", ""),
        (pod(**confined("Unconfined")), "", ""),
        (pod(**confined("RuntimeDefault")), HOST, ""),
        (pod(**confined("Localhost", "k8s-nginx")), HOST, ""),
        (pod(**confined("Localhost", "  ")), HOST, EMPTY),
        (pod(containers=[{"name": "c", **confined("RuntimeDefault")}]), HOST, ""),
        (pod(containers=[{"name": "c", **confined("Unconfined")}], **confined("Unconfined")), "", ""),
        (annotated(c="runtime/default"), HOST, ""),
        (annotated(c="localhost/"), HOST, EMPTY),
        (annotated(c="unconfined"), "", ""),
    ],
)
def test_a_pod_that_asks_for_app_armor_needs_a_kernel_that_has_it(asking: Pod, without: str, with_it: str) -> None:
    for has_it, fault in ((False, without), (True, with_it)):
        expected = Rejected("AppArmor", f"Cannot enforce AppArmor: {fault}") if fault else Admitted()
        assert Admission(node(), has_app_armor=has_it).admit(asking, RUNNING) == expected
    running = changed(asking, status=changed(asking.status, phase="Running"))
    assert Admission(node()).admit(running, RUNNING) == Admitted(), "one that runs is not asked again"


def test_a_node_that_nobody_knows_yet_runs_nothing() -> None:
    assert Admission(None).admit(pod(), NodeUsage()) == Rejected("InvalidNodeInfo", "Kubelet cannot get node info.")


def test_an_unsafe_sysctl_may_be_allowed() -> None:
    admission = Admission(node(), allowed_unsafe_sysctls=["kernel.sem", "net.core.*"])
    assert admission.admit(pod(**sysctl("net.core.somaxconn")), RUNNING) == Admitted()


def test_an_unsafe_sysctl_that_cannot_be_allowed_is_told_of_at_once() -> None:
    with pytest.raises(ValueError, match="not known to be namespaced"):
        Admission(node(), allowed_unsafe_sysctls=["vm.swappiness"])


def test_another_system_takes_its_own_pods_and_has_no_safe_sysctls() -> None:
    admission = Admission(node(), operating_system="windows")
    assert admission.admit(pod(os={"name": "windows"}), RUNNING) == Admitted()
    assert isinstance(admission.admit(pod(**sysctl("net.ipv4.tcp_rmem")), RUNNING), Rejected)


def test_a_critical_pod_is_told_who_has_to_stop_for_it_and_is_admitted_when_they_have() -> None:
    usage = NodeUsage([pod("1", {"cpu": "2"}), pod("2", {"cpu": "2"}), pod("3", {"memory": "1Gi"})])
    admission, asking = Admission(node()), pod(requests={"cpu": "3"}, static=True)
    answer = admission.admit(asking, usage)
    assert isinstance(answer, Rejected)
    assert answer.reason == "OutOfcpu"
    assert set(answer.preempt) == {"1", "2"}
    for uid in answer.preempt:
        usage.remove(uid)
    assert admission.admit(asking, usage) == Admitted()


def test_a_critical_pod_that_nobody_can_make_room_for_is_told_what_is_missing() -> None:
    usage = NodeUsage([pod("1", {"cpu": "2"}, priority=CRITICAL), pod("2", {"cpu": "1"})])
    answer = Admission(node()).admit(pod(requests={"cpu": "4", "memory": "5Gi"}, priority=CRITICAL), usage)
    assert answer == Rejected(
        "UnexpectedAdmissionError",
        "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods "
        "to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 2000), (res: memory, q: "
        "1073741824), ]",
    )
