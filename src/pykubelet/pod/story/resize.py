"""What is said of a pod that runs, but not with the size that it asks for."""

import re
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.pod.resize.conditions import ERROR, told_before

_SHORT: Final = re.compile(r"enough resource: ([\w./-]+), requested: (\d+), used: (\d+), capacity: (\d+)")
_LARGE: Final = re.compile(r"enough capacity: ([\w./-]+), requested: (\d+), capacity: (\d+)")


def resize_note(pod: Pod | None) -> str:
    """Empty: it has what it asks for, or gets it this moment."""
    said = told_before(pod) if pod is not None else None
    if said is None:
        return ""
    if said.pending is not None and (short := _SHORT.search(said.pending.message)):
        name, wanted, used, capacity = short[1], int(short[2]), int(short[3]), int(short[4])
        return f"it waits to have {_amount(name, wanted)}: the node has {_amount(name, max(capacity - used, 0))} left"
    if said.pending is not None and (large := _LARGE.search(said.pending.message)):
        name = large[1]
        return f"it cannot have {_amount(name, int(large[2]))}: the node has {_amount(name, int(large[3]))} in all"
    if said.pending is not None:
        how = "waits for" if said.is_deferred else "cannot have"
        return f"it {how} the size that it asks for: {said.pending.message.rstrip('.')}"
    if said.in_progress is not None and said.in_progress.reason == ERROR:
        return f"its new size is not in force yet: {said.in_progress.message}"
    return ""


def _amount(name: str, much: int) -> str:
    if name == "cpu":
        return f"{much / 1000:g} CPU"
    return f"{Quantity.of(much, 'BinarySI')} of {name}" if name == "memory" else f"{much} of {name}"
