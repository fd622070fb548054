import pytest

from kit.pods import make_pod
from pykubelet.api.pod import PodCondition
from pykubelet.api.struct import changed
from pykubelet.pod.story.resize import resize_note


@pytest.mark.parametrize(
    ("type", "reason", "message", "told"),
    [
        (
            "PodResizePending",
            "Deferred",
            "Node didn't have enough resource: cpu, requested: 2000, used: 2800, capacity: 4000",
            "it waits to have 2 CPU: the node has 1.2 CPU left",
        ),
        (
            "PodResizePending",
            "Deferred",
            "Node didn't have enough resource: memory, requested: 2147483648, used: 1073741824, capacity: 2147483648",
            "it waits to have 2Gi of memory: the node has 1Gi of memory left",
        ),
        (
            "PodResizePending",
            "Infeasible",
            "Node didn't have enough capacity: cpu, requested: 9000, capacity: 8000",
            "it cannot have 9 CPU: the node has 8 CPU in all",
        ),
        (
            "PodResizePending",
            "Infeasible",
            "In-place resize of containers with swap is not supported.",
            "it cannot have the size that it asks for: In-place resize of containers with swap is not supported",
        ),
        ("PodResizeInProgress", "Error", "the kernel said no", "its new size is not in force yet: the kernel said no"),
        ("PodResizeInProgress", "", "", ""),
        ("Ready", "", "", ""),
    ],
)
def test_a_pod_that_has_not_the_size_it_wants_says_so(type: str, reason: str, message: str, told: str) -> None:
    pod = make_pod()
    condition = PodCondition(type=type, status="True", reason=reason, message=message)
    assert resize_note(changed(pod, status=changed(pod.status, conditions=(condition,)))) == told
    assert resize_note(None) == ""
