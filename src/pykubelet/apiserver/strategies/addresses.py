"""Rules about addresses and ranges of addresses that several kinds share."""

import ipaddress
from collections.abc import Iterator

from pykubelet.api.field_errors import FieldError, invalid


def network_of(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """None for what is no range of addresses."""
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def range_faults(field: str, text: str, *, is_exact: bool = False) -> Iterator[FieldError]:
    """`is_exact`: it is written as the range, and not as an address in it."""
    found = network_of(text)
    if found is None:
        yield invalid(field, text, "must be a range of addresses, such as 10.9.8.0/24 or 2001:db8::/64")
    elif is_exact and str(found) != text.lower():
        yield invalid(field, text, f"must be in its usual form, {found}")


def pair_faults(field: str, ranges: list[str]) -> Iterator[FieldError]:
    """At most one range of each family."""
    families = [found.version for each in ranges if (found := network_of(each)) is not None]
    if len(ranges) > 2 or len(set(families)) < len(families):
        yield invalid(field, ranges, "may specify no more than one CIDR for each IP family")
