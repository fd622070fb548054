"""What of a container's log is asked for, checked before anybody is asked."""

from collections.abc import Iterator, Mapping
from typing import Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid
from pykubelet.apiserver import status
from pykubelet.apiserver.requests.options import number

_PASSED_ON: Final = (
    "follow",
    "previous",
    "timestamps",
    "sinceSeconds",
    "sinceTime",
    "tailLines",
    "limitBytes",
    "stream",
)


def log_options(query: Mapping[str, str], pod: str) -> dict[str, str]:
    """What the kubelet is told. Raises 400 and 422."""
    if errors := list(_faults(query)):
        raise status.invalid("PodLogOptions", "", pod, errors)
    return {name: query[name] for name in _PASSED_ON if name in query}


def _faults(query: Mapping[str, str]) -> Iterator[FieldError]:
    for name, least, wanted in (("tailLines", 0, "greater than or equal to 0"), ("limitBytes", 1, "greater than 0")):
        given = number(query, name)
        if given is not None and given < least:
            yield invalid(name, given, f"must be {wanted}")
    seconds = number(query, "sinceSeconds")
    if seconds is not None and query.get("sinceTime"):
        yield forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified")
    elif seconds is not None and seconds < 1:
        yield invalid("sinceSeconds", seconds, "must be greater than 0")
