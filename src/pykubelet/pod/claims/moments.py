"""What happens to the claims of pods, for the journal."""

from typing import Literal

from msgspec import Struct


class ClaimsHandled(Struct, frozen=True, tag=True):
    """All claims of a pod were made ready for it, or given back, or could not be."""

    operation: Literal["PrepareResources", "UnprepareResources"]
    seconds: float
    error: str = ""


class ClaimDriverCalled(Struct, frozen=True, tag=True):
    """Of claims on devices."""

    driver: str
    method: str
    """With the service's name, as it is called."""
    code: str
    """gRPC's word for what came of it, such as OK."""
    seconds: float


OfClaims = ClaimsHandled | ClaimDriverCalled
