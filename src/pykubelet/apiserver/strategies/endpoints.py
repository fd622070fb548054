"""Endpoints: addresses and ports that can be ones."""

import ipaddress
from collections.abc import Iterator
from typing import ClassVar

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.base import Strategy


class EndpointsStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        for subset in result.get("subsets", ()):
            for port in subset.get("ports", ()):
                port["protocol"] = port.get("protocol") or "TCP"
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        for number, subset in enumerate(obj.get("subsets", ())):
            place = f"subsets[{number}]"
            for name in ("addresses", "notReadyAddresses"):
                for index, each in enumerate(subset.get(name) or ()):
                    ip = each.get("ip", "")
                    if not _is_ip(ip):
                        yield invalid(f"{place}.{name}[{index}].ip", ip, "must be a valid IP address, (e.g. 10.9.8.7)")
            for index, port in enumerate(subset.get("ports") or ()):
                if not 0 < port.get("port", 0) < 65536:
                    detail = "must be between 1 and 65535, inclusive"
                    yield invalid(f"{place}.ports[{index}].port", port.get("port", 0), detail)


def _is_ip(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text)) and "%" not in text
    except ValueError:
        return False
