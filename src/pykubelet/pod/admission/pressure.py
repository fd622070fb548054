"""Whom a node takes in that runs short itself: those it cannot do without, and under want of memory alone those that
say how much they need."""

from collections.abc import Collection
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import is_critical
from pykubelet.api.rules.qos import qos_class
from pykubelet.api.rules.taints import tolerates
from pykubelet.api.scheduling import Taint
from pykubelet.pod.eviction.thresholds import Pressure

_SHORT_OF_MEMORY: Final = Taint(key="node.kubernetes.io/memory-pressure", effect="NoSchedule")


def pressure_fault(pod: Pod, pressures: Collection[Pressure]) -> str:
    """Why the pod cannot come now; empty: it can. One that runs was here before: an agent that was just started ends
    nobody for coming."""
    if not pressures or is_critical(pod) or pod.status.phase == "Running":
        return ""
    if set(pressures) == {"MemoryPressure"} and (
        qos_class(pod) != "BestEffort" or tolerates(pod.spec.tolerations, _SHORT_OF_MEMORY)
    ):
        return ""
    return f"The node had condition: [{' '.join(pressures)}]. "
