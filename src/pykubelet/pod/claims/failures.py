"""Why the claims of a pod are not ready, in upstream's words: people look for them."""

from pykubelet.base.errors import Retry


class ClaimFailed(Retry):
    """Whatever it is, it may be mended from outside. `claim` and `driver` are what the pod waits for."""

    def __init__(self, message: str, *, claim: str = "", driver: str = "", after: float | None = None) -> None:
        super().__init__(message, after=after)
        self.claim = claim
        self.driver = driver
