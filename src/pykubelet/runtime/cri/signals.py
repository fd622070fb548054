"""Signals by the names that pods have for them, as the CRI counts them."""

from typing import cast

from pykubelet.runtime.cri._gen import cri_pb2 as cri


def signal_value(name: str) -> "cri.Signal":
    """Zero, which is the runtime's own choice, for no name or one that the CRI does not have."""
    known = name.replace("+", "PLUS").replace("-", "MINUS")
    if known not in cri.Signal.keys():  # noqa: SIM118
        return cri.RUNTIME_DEFAULT
    return cast("cri.Signal", cri.Signal.Value(known))


def signal_name(value: int) -> str | None:
    """None: the runtime does not say."""
    if value == cri.RUNTIME_DEFAULT or value not in cri.Signal.values():
        return None
    return cri.Signal.Name(value).replace("PLUS", "+").replace("MINUS", "-")
