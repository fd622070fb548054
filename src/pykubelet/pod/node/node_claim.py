"""Whether the node object of our name belongs to another machine that is alive.

Two machines of one name would undo each other's reports and run each other's pods. Kubernetes itself has no rule
against that; ours is to wait until the other one has fallen silent, as it has when a machine was made anew.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from pykubelet.api.node import NodeStatus, NodeSystemInfo
from pykubelet.base.errors import Conflict

SILENCE: Final = 40.0
"""Seconds after which a node that gives no sign of life is taken for gone, as a cluster takes it."""


class InUse(Conflict):
    """Another machine has our name. `machine` tells which, the same each time."""

    def __init__(self, name: str, machine: str, age: float) -> None:
        super().__init__(
            f"node {name} is in use by another machine ({machine}, last heard of {max(age, 0.0):.0f} s ago); "
            "choose another name with --hostname-override, or delete that node object"
        )
        self.machine = machine


def other_machine(shown: NodeSystemInfo, ours: NodeSystemInfo) -> str:
    """What tells the machine that a node object is of from ours; empty: nothing does. Clones share one of the two, and
    what is not known tells nothing. The boot is another matter: it is new after each."""
    if _differ(shown.system_uuid, ours.system_uuid):
        return f"system uuid {shown.system_uuid}"
    if _differ(shown.machine_id, ours.machine_id):
        return f"machine id {shown.machine_id}"
    return ""


def last_sign(status: NodeStatus, lease: datetime | None) -> datetime | None:
    """When its machine was last heard of: by the lease, renewed every few seconds, or the node's own report, which is
    minutes old when nothing changes."""
    reports: Iterable[datetime | None] = (
        condition.last_heartbeat_time for condition in status.conditions if condition.type == "Ready"
    )
    return max((each for each in (*reports, lease) if each is not None), default=None)


def is_silent(sign: datetime | None, now: datetime, unchanged_for: float) -> bool:
    """`unchanged_for` is how long we have seen this same sign, in seconds: a machine whose clock is ahead of ours is
    gone, too, when it says nothing new."""
    return sign is None or now - sign >= timedelta(seconds=SILENCE) or unchanged_for >= SILENCE


def _differ(shown: str, ours: str) -> bool:
    one, other = (each.replace("-", "").strip().lower() for each in (shown, ours))
    return bool(one and other) and one != other
