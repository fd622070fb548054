"""The bound on what all pods have together, tried until it holds: pods of an agent that allowed more may have to go
first."""

import asyncio
from typing import Final

from pykubelet.base.errors import PykubeletError
from pykubelet.pod.ports.machine import PodCgroups
from pykubelet.pod.ports.node import NodeRecorder

ENFORCED: Final = "NodeAllocatableEnforced"
FAILED: Final = "FailedNodeAllocatableEnforcement"
_PAUSE: Final = 60.0


async def enforce_node_allocatable(cgroups: PodCgroups, group: str, recorder: NodeRecorder) -> None:
    """Until cancelled. `group` is how people know it."""
    while True:
        try:
            await cgroups.limit_node()
        except PykubeletError as error:
            recorder.node_event("Warning", FAILED, f"Failed to update Node Allocatable Limits {group}: {error}")
            await asyncio.sleep(_PAUSE)
        else:
            recorder.node_event("Normal", ENFORCED, "Updated Node Allocatable limit across pods")
            await asyncio.Event().wait()  # from now on whoever changes pods sees to it
