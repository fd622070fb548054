"""The class of service of a new pod, from what its containers ask for."""

from typing import Final

from pykubelet.api.container import ResourceRequirements
from pykubelet.api.pod import PodSpec
from pykubelet.api.quantity import Quantity
from pykubelet.api.struct import Struct

_COUNTED: Final = ("cpu", "memory")


class _Part(Struct, frozen=True):
    resources: ResourceRequirements = ResourceRequirements()


class Demand(Struct, frozen=True):
    """What the class follows from: a small part of what there is to read in a spec."""

    containers: tuple[_Part, ...] = ()
    init_containers: tuple[_Part, ...] = ()
    resources: ResourceRequirements | None = None


def qos_class(spec: PodSpec | Demand) -> str:
    if spec.resources is not None and (spec.resources.requests or spec.resources.limits):
        parts = [(spec.resources.requests, spec.resources.limits)]
    else:
        parts = [(each.resources.requests, each.resources.limits) for each in (*spec.containers, *spec.init_containers)]
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    is_guaranteed = True
    for asked, bounded in parts:
        for name in _COUNTED:
            _add(requests, name, asked.get(name))
            _add(limits, name, bounded.get(name))
        is_guaranteed = is_guaranteed and all(_is_some(bounded.get(name)) for name in _COUNTED)
    if not requests and not limits:
        return "BestEffort"
    if is_guaranteed and requests == limits:
        return "Guaranteed"
    return "Burstable"


def _is_some(amount: Quantity | None) -> bool:
    return amount is not None and amount.nanos > 0


def _add(total: dict[str, int], name: str, amount: Quantity | None) -> None:
    if amount is not None and amount.nanos > 0:
        total[name] = total.get(name, 0) + amount.nanos
