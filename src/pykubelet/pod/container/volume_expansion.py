"""What a node has to do about a claimed volume that has grown, and what it tells of that in the claim's status.

A controller makes the volume larger first; what is left to the node is the file system, or what else the driver has to
do where the volume is used. A claim whose status says how far it is (`allocatedResourceStatuses`) is followed step by
step; one of an older controller says nothing, and only its size tells.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from pykubelet.api.quantity import Quantity
from pykubelet.api.storage import ClaimedVolume, PersistentVolumeClaim
from pykubelet.api.struct import rfc3339

PENDING: Final = "NodeResizePending"
IN_PROGRESS: Final = "NodeResizeInProgress"
INFEASIBLE: Final = "NodeResizeInfeasible"
NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
_STORAGE: Final = "storage"
_CONDITIONS: Final = ("FileSystemResizePending", "Resizing", "ControllerResizeError", "NodeResizeError")
_NONE: Final = Quantity(0)

Patch = dict[str, Any]


class Growth(Struct, frozen=True):
    """`size` is what the volume has here once `verdict` is done with; None: as before."""

    verdict: Literal["nothing", "done", "wait", "expand"]
    size: Quantity | None = None
    is_followed: bool = False
    """The claim says how far it is, and has to."""
    is_known: bool = False
    """The claim has its new size already: another node was faster."""


def growth(found: ClaimedVolume, before: Quantity | None) -> Growth:
    """`before` is the size for which this node has done its part; None: as large as the claim says."""
    claim, status = found.claim, found.claim.status
    capacity = status.capacity.get(_STORAGE, _NONE)
    wanted = found.volume.spec.capacity.get(_STORAGE, _NONE)
    if wanted <= (capacity if before is None else before):
        return Growth("nothing")
    step = status.allocated_resource_statuses.get(_STORAGE, "")
    if not step and not status.allocated_resources:
        return Growth("expand", wanted, is_known=capacity >= wanted)
    size = status.allocated_resources.get(_STORAGE, _NONE)
    is_known = not step and capacity >= size
    if is_known and "ReadWriteMany" in claim.spec.access_modes and NOT_REQUIRED not in claim.metadata.annotations:
        return Growth("expand", size, is_followed=True, is_known=True)  # every node that uses it has to do its part
    if step in (PENDING, IN_PROGRESS):
        return Growth("expand", size, is_followed=True)
    return Growth("done", size) if is_known else Growth("wait")


def in_progress(claim: PersistentVolumeClaim) -> Patch:
    return _patch(claim, {"allocatedResourceStatuses": {_STORAGE: IN_PROGRESS}}, checked=True)


def finished(claim: PersistentVolumeClaim, size: Quantity) -> Patch:
    status: Patch = {"capacity": {_STORAGE: str(size)}}
    if _STORAGE in claim.status.allocated_resource_statuses:
        status["allocatedResourceStatuses"] = {_STORAGE: None}
    if told := [each.type for each in claim.status.conditions if each.type in _CONDITIONS]:
        status["conditions"] = [{"$patch": "delete", "type": kind} for kind in told]
    return _patch(claim, status, checked=True)


def failed(claim: PersistentVolumeClaim, error: str, now: datetime, *, infeasible: bool) -> Patch | None:
    """None: all of it is told already. Who can never succeed is not tried again until a controller has decided anew."""
    status: Patch = {"allocatedResourceStatuses": {_STORAGE: INFEASIBLE}} if infeasible else {}
    if not any(each.type == "NodeResizeError" and each.status == "True" for each in claim.status.conditions):
        condition = {
            "type": "NodeResizeError",
            "status": "True",
            "lastTransitionTime": rfc3339(now),
            "message": f"failed to expand pvc with {error}",
        }
        status["conditions"] = [condition]
    return _patch(claim, status) if status else None


def _patch(claim: PersistentVolumeClaim, status: Mapping[str, Any], *, checked: bool = False) -> Patch:
    """Strategic merge, of the status. `checked`: only if nobody has changed the claim meanwhile."""
    version = {"metadata": {"resourceVersion": claim.metadata.resource_version}} if checked else {}
    return {**version, "status": dict(status)}
