"""What probes have found out about containers, as far as decisions need to know."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Literal

from msgspec import Struct

ProbeKind = Literal["liveness", "readiness", "startup"]


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


def only(results: ProbeResults, container_ids: Collection[str]) -> ProbeResults:
    """The results of these containers alone."""
    kinds = (results.liveness, results.readiness, results.startup)
    liveness, readiness, startup = ({id: kind[id] for id in kind if id in container_ids} for kind in kinds)
    return ProbeResults(liveness=liveness, readiness=readiness, startup=startup)
