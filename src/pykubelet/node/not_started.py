"""How a container fails to start."""

from pykubelet.pod.status.container_status import Waiting


class NotStarted(Exception):
    """One container could not be started. `waiting` is what its status says."""

    def __init__(self, reason: str, message: str, *, again_in: float) -> None:
        super().__init__(message)
        self.waiting = Waiting(reason, message)
        self.again_in = again_in
