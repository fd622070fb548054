"""Who writes: a client by way of a request, or a part of the control plane, under the name that upstream's has."""

from typing import Final

import msgspec

from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import MASTERS, User, authenticated


class Author(msgspec.Struct, frozen=True):
    user: User
    manager: str
    """Who comes to own the fields, as managedFields names it."""
    info: RequestInfo | None = None
    """The request that the author came with; None: from inside."""
    dry_run: bool = False
    warnings: list[str] = msgspec.field(default_factory=list)
    """What the client is told besides the answer."""
    notes: dict[str, str] = {}
    """What the audit log is told."""


def _component(user: str, manager: str) -> Author:
    return Author(authenticated(user, (MASTERS,)), manager)


KUBE_APISERVER: Final = _component("system:apiserver", "kube-apiserver")
KUBE_CONTROLLER_MANAGER: Final = _component("system:kube-controller-manager", "kube-controller-manager")
KUBE_SCHEDULER: Final = _component("system:kube-scheduler", "kube-scheduler")
