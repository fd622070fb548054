"""Whom a node takes in that runs short itself."""

from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.quantity import parse
from pykubelet.api.scheduling import Toleration
from pykubelet.api.struct import changed
from pykubelet.pod.admission.pressure import pressure_fault
from pykubelet.pod.eviction.thresholds import Pressure


def pod(request: str = "", **spec: Any) -> Pod:
    made = make_pod("web")
    resources = ResourceRequirements(requests={"memory": parse(request)} if request else {})
    return changed(made, spec=changed(made.spec, containers=(Container(name="c", resources=resources),), **spec))


MEMORY = Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoSchedule")
DISK = Toleration(key="node.kubernetes.io/disk-pressure", operator="Exists")


@pytest.mark.parametrize(
    ("wanting", "pressures", "is_taken"),
    [
        (pod(), (), True),
        (pod(), ("MemoryPressure",), False),
        (pod("1Mi"), ("MemoryPressure",), True),
        (pod(tolerations=(MEMORY,)), ("MemoryPressure",), True),
        (pod(tolerations=(DISK,)), ("MemoryPressure",), False),
        (pod(tolerations=(DISK,)), ("DiskPressure",), False),
        (pod("1Mi"), ("DiskPressure",), False),
        (pod("1Mi"), ("PIDPressure",), False),
        (pod("1Mi"), ("MemoryPressure", "DiskPressure"), False),
        (pod(priority=2_000_000_000), ("MemoryPressure", "DiskPressure"), True),
        (changed(pod(), status=PodStatus(phase="Running")), ("DiskPressure",), True),
        (changed(pod(), status=PodStatus(phase="Pending")), ("DiskPressure",), False),
    ],
)
def test_who_is_taken(wanting: Pod, pressures: tuple[Pressure, ...], is_taken: bool) -> None:
    expected = "" if is_taken else f"The node had condition: [{' '.join(pressures)}]. "
    assert pressure_fault(wanting, pressures) == expected
