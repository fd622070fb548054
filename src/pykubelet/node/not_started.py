"""How a container fails to start."""

from pykubelet.base.errors import PykubeletError
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.container.failures import missing_object
from pykubelet.pod.moments import Awaited, Awaiting
from pykubelet.pod.status.container_status import Waiting


class NotStarted(Exception):
    """One container could not be started. `waiting` is what its status says."""

    def __init__(self, reason: str, message: str, *, again_in: float) -> None:
        super().__init__(message)
        self.waiting = Waiting(reason, message)
        self.again_in = again_in


def awaited(error: PykubeletError) -> Awaiting | None:
    """What a pod or a container waits for by this, if somebody else has to bring it."""
    if (missing := missing_object(error)) is not None:
        return Awaiting(missing.kind, missing.name, str(error))
    if not isinstance(error, ClaimFailed):
        return None
    what: Awaited = "claim" if error.claim else "driver"
    return Awaiting(what, error.claim or error.driver, str(error))
