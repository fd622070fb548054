"""Whether a request means this machine: a page of somebody else may have had its name pointed at us, and would then be
of our own origin for a browser."""

import ipaddress
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from cryptography import x509

_HOST: Final = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::\d+)?")


class OwnNames:
    """`names` are those of the node; `certificate` the one that is shown, whose names count, too."""

    def __init__(self, names: Callable[[], Iterable[str]], certificate: Callable[[], x509.Certificate | None]) -> None:
        self._names = names
        self._certificate = certificate

    def is_ours(self, host: str) -> bool:
        """`host` as in the header, with or without a port. An address cannot be pointed elsewhere."""
        name = _name(host)
        if name == "localhost" or name in {each.lower() for each in self._names()}:
            return True
        with suppress(ValueError):
            ipaddress.ip_address(name.partition("%")[0])
            return True
        return bool(name) and name in _names(self._certificate())


def _name(host: str) -> str:
    """Empty for what is no host."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower().rstrip(".") if found else ""


def _names(certificate: x509.Certificate | None) -> set[str]:
    if certificate is None:
        return set()
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {name.lower() for name in found.get_values_for_type(x509.DNSName) if "*" not in name}
