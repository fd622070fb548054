"""May this pod run here, now? The last word, after the scheduler's: the node knows best what it has and what it runs.

Reasons and messages are the Go kubelet's. They end up in the status of the pod that was turned away, where people and
controllers look for them.
"""

from collections.abc import Iterable

from msgspec import Struct

from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.api.rules.host_ports import host_ports
from pykubelet.api.rules.node_affinity import is_attracted
from pykubelet.api.rules.pod_kinds import is_critical, is_static
from pykubelet.api.rules.resources import PODS
from pykubelet.api.rules.taints import tolerates
from pykubelet.api.rules.well_known import OS_LABEL
from pykubelet.pod.admission.fit import NodeUsage, Shortage, amounts, shortages
from pykubelet.pod.admission.preemption import Unreclaimable, victims
from pykubelet.pod.admission.pressure import pressure_fault
from pykubelet.pod.admission.sysctls import Sysctls, safe_sysctls
from pykubelet.pod.container.app_armor import app_armor_fault
from pykubelet.pod.eviction.thresholds import Pressure


class Admitted(Struct, frozen=True):
    """The pod may run."""


class Rejected(Struct, frozen=True):
    """The pod may not run. It fails with this reason and message, and is not tried again, unless it may preempt."""

    reason: str
    message: str
    preempt: tuple[str, ...] = ()
    """Uids of pods that have to stop for this critical one. When they have, ask again instead of failing the pod."""


class Admission:
    """What is known of the node, made ready for the question. A changed node makes a new one.

    `node` is None as long as nothing is known. Raises ValueError for unsafe sysctls that cannot be allowed.
    """

    def __init__(
        self,
        node: Node | None,
        *,
        allowed_unsafe_sysctls: Iterable[str] = (),
        operating_system: str = "linux",
        has_app_armor: bool = False,
        pressures: tuple[Pressure, ...] = (),
    ) -> None:
        known = node or Node()
        self._node = node
        self._os = operating_system
        self._has_app_armor = has_app_armor
        self._pressures = pressures
        safe = safe_sysctls(known.status.node_info.kernel_version) if operating_system == "linux" else ()
        self._sysctls = Sysctls((*safe, *allowed_unsafe_sysctls))
        self.allocatable = allocatable = known.status.allocatable
        self._allocatable = amounts(allocatable)
        self._allocatable[PODS] = allocatable[PODS].value if PODS in allocatable else 0
        labels = known.metadata.labels
        # The machine knows its own system better than a label that somebody changed.
        self._labels = {**labels, OS_LABEL: operating_system} if labels else {}
        self._expelling = tuple(taint for taint in known.spec.taints if taint.effect == "NoExecute")

    def admit(self, pod: Pod, running: NodeUsage) -> Admitted | Rejected:
        """Whether the pod may run beside those that hold a share of the node; its own share, if any, does not count.

        What no preemption can help comes first, so that no pod is stopped for nothing.
        """
        unsuited = self._unsuited(pod)
        if unsuited is not None:
            return unsuited
        short = shortages(pod, self._allocatable, running)
        misplaced = self._misplaced(pod, running)
        if not is_critical(pod):
            if short:
                return Rejected(short[0].reason, short[0].message)
            return misplaced or Admitted()
        if misplaced is not None:
            return misplaced
        return _make_room(pod, short, running) if short else Admitted()

    def _unsuited(self, pod: Pod) -> Rejected | None:
        """What a pod wants that this node can never do, or not now."""
        if fault := pressure_fault(pod, self._pressures):
            return Rejected("Evicted", fault)
        fault = self._sysctls.fault(pod)
        if fault:
            return Rejected("SysctlForbidden", f"forbidden sysctl: {fault}")
        if self._node is None:
            return Rejected("InvalidNodeInfo", "Kubelet cannot get node info.")
        if pod.metadata.labels.get(OS_LABEL, self._os) != self._os:
            return Rejected(
                "PodOSSelectorNodeLabelDoesNotMatch",
                f"Failed to admit pod as the `{OS_LABEL}` label doesn't match node label",
            )
        if pod.spec.os is not None and pod.spec.os.name != self._os:
            return Rejected("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
        context, features = pod.spec.security_context, self._node.status.features
        is_strict = context is not None and context.supplemental_groups_policy == "Strict"
        if is_strict and not (features and features.supplemental_groups_policy):
            return Rejected(
                "SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"
            )
        fault = app_armor_fault(pod, has_app_armor=self._has_app_armor)
        if fault and pod.status.phase in ("", "Pending"):  # one that runs has what it has
            return Rejected("AppArmor", f"Cannot enforce AppArmor: {fault}")
        return None

    def _misplaced(self, pod: Pod, running: NodeUsage) -> Rejected | None:
        """Why the pod belongs on another node, resources aside."""
        assert self._node is not None
        spec, name = pod.spec, self._node.metadata.name
        if not is_attracted(spec, name, self._labels):
            return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
        if spec.node_name not in ("", name):
            return _failed("NodeName", "node(s) didn't match the requested node name")
        if not running.ports_are_free(host_ports(spec), besides=pod.metadata.uid):
            return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
        # The node runs its static pods whatever happens to it.
        if not is_static(pod) and not all(tolerates(spec.tolerations, taint) for taint in self._expelling):
            return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
        return None


def _failed(predicate: str, description: str) -> Rejected:
    return Rejected(predicate, f"Predicate {predicate} failed: {description}")


def _make_room(pod: Pod, short: list[Shortage], running: NodeUsage) -> Rejected:
    """A critical pod is never turned away for want of resources that others can give back."""
    fallen = victims(pod, running.pods(), short)
    if isinstance(fallen, Unreclaimable):
        return Rejected(
            "UnexpectedAdmissionError",
            "Unexpected error while attempting to recover from admission failure: "
            f"preemption: error finding a set of pods to preempt: {fallen}",
        )
    return Rejected(short[0].reason, short[0].message, preempt=tuple(each.metadata.uid for each in fallen))
