"""What probes have found out about containers, as far as decisions need to know."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class Result(StrEnum):
    SUCCESS = "Success"
    FAILURE = "Failure"
    UNKNOWN = "Unknown"


class ProbeResults(Struct, frozen=True, kw_only=True):
    """The last result for each container id. Absent: there is none yet."""

    liveness: Mapping[str, Result] = {}
    readiness: Mapping[str, Result] = {}
    startup: Mapping[str, Result] = {}


NO_PROBES = ProbeResults()
