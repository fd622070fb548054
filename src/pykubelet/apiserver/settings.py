"""What whoever runs the API server may choose."""

import ipaddress
from collections.abc import Sequence
from typing import Final

import msgspec

from pykubelet.base.errors import Invalid

_SMALLEST_RANGE: Final = 8
_LARGEST_RANGE: Final = 20
"""In bits: for all services, and not more than can be reckoned with, as upstream."""


SWITCHABLE_ADMISSION: Final = (
    "DefaultTolerationSeconds",
    "LimitRanger",
    "MutatingAdmissionWebhook",
    "PodSecurity",
    "Priority",
    "RuntimeClass",
    "ServiceAccount",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
)
"""What may be left out of admission, by upstream's names."""


def without_admission(given: Sequence[str]) -> frozenset[str]:
    """The parts of admission that are left out. Raises Invalid."""
    for name in given:
        if name not in SWITCHABLE_ADMISSION:
            from difflib import get_close_matches  # most names are written well

            near = get_close_matches(name, SWITCHABLE_ADMISSION, 1)
            hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(SWITCHABLE_ADMISSION)}"
            raise Invalid(f"--disable-admission-plugins: {name!r} cannot be switched off here; {hint}")
    return frozenset(given)


def service_range(text: str) -> str:
    """The addresses of services, as they are written. Raises Invalid."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise Invalid(f"--service-cluster-ip-range: {text!r} is no range of addresses, such as 10.96.0.0/16") from None
    bits = network.max_prefixlen - network.prefixlen
    if not _SMALLEST_RANGE <= bits <= _LARGEST_RANGE:
        least, most = network.max_prefixlen - _LARGEST_RANGE, network.max_prefixlen - _SMALLEST_RANGE
        raise Invalid(f"--service-cluster-ip-range: {text} has to be between /{least} and /{most}")
    return str(network)


def first_service(range_: str) -> str:
    """The address of the service `kubernetes`: this server, as pods know it."""
    return str(ipaddress.ip_network(range_)[1])


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    version: str = "v1.34.11"
    service_range: str = "10.96.0.0/16"
    advertise_address: str = "127.0.0.1"
    advertise_port: int = 6443
    dns_address: str = ""
    """Of the service for names, which nodes answer for; empty: there is none, unless somebody makes it."""
    most_body_bytes: int = 3 * 1024 * 1024
    watch_seconds: float = 1800.0
    """How long a watch lasts at least when the client does not say."""
    event_seconds: float = 3600.0
    """How long events are kept."""
    without_admission: frozenset[str] = frozenset()
