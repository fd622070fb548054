"""The quality of service of a pod: how its resources decide its treatment."""

from pykubelet.api.container import ResourceRequirements
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import ResourceList
from pykubelet.api.rules.resources import CPU, MEMORY, total
from pykubelet.api.struct import Struct


class ContainerDemand(Struct, frozen=True):
    resources: ResourceRequirements = ResourceRequirements()


class Demand(Struct, frozen=True):
    """What the class follows from: a small part of what there is to read in a spec."""

    containers: tuple[ContainerDemand, ...] = ()
    init_containers: tuple[ContainerDemand, ...] = ()
    resources: ResourceRequirements | None = None


def qos_class(pod: Pod) -> str:
    """As reported before, else from the resources."""
    return pod.status.qos_class or qos_class_of(pod.spec)


def qos_class_of(spec: PodSpec | Demand) -> str:
    """Guaranteed, Burstable or BestEffort."""
    whole = spec.resources
    containers = (*spec.containers, *spec.init_containers)
    everyone: list[ResourceRequirements] = [whole] if whole else [each.resources for each in containers]
    requests = total(_counted(one.requests) for one in everyone)
    limits = total(_counted(one.limits) for one in everyone)
    if not requests and not limits:
        return "BestEffort"
    bounded = all(len(_counted(one.limits)) == 2 or (one is whole and not one.limits) for one in everyone)
    return "Guaranteed" if bounded and requests == limits else "Burstable"


def _counted(resources: ResourceList) -> ResourceList:
    return {name: amount for name, amount in resources.items() if name in (CPU, MEMORY) and amount.sign > 0}
