"""What happens between device plug-ins, those who watch them, and the agent, for the journal."""

from typing import Literal

from msgspec import Struct


class DevicesOffered(Struct, frozen=True, tag=True):
    """A plug-in has registered."""

    resource: str


class DevicesAllocated(Struct, frozen=True, tag=True):
    """A plug-in was asked for them, and answered or did not."""

    resource: str
    seconds: float
    error: str = ""


Version = Literal["v1", "v1alpha1"]
Method = Literal["list", "get", "get_allocatable"]


class PodResourcesAsked(Struct, frozen=True, tag=True):
    """Somebody wants to know who has which devices."""

    version: Version
    method: Method
    error: str = ""


OfDevices = DevicesOffered | DevicesAllocated | PodResourcesAsked
