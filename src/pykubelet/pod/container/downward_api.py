"""What a pod may learn of itself: its fields and its containers' resources, as text."""

from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.env import ObjectFieldSelector, ResourceFieldSelector
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.resources import CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, is_pod_level_resource
from pykubelet.base.errors import Invalid

_DEFAULTED: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


def field_value(
    reference: ObjectFieldSelector, pod: Pod, *, pod_ips: tuple[str, ...] = (), host_ips: tuple[str, ...] = ()
) -> str:
    """One field of a pod. A label or annotation that is not there is empty."""
    if reference.api_version not in ("", "v1"):
        raise Invalid(f"the pod fields of version {reference.api_version} are not known here, only those of v1")
    meta, path = pod.metadata, reference.field_path
    if pod.spec.host_network:
        pod_ips = pod_ips or host_ips
    plain = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": pod.spec.node_name,
        "spec.host": pod.spec.node_name,  # its name in the days before v1, still accepted
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.podIP": next(iter(pod_ips), ""),
        "status.podIPs": ",".join(pod_ips),
        "status.hostIP": next(iter(host_ips), ""),
        "status.hostIPs": ",".join(host_ips),
    }
    if path in plain:
        return plain[path]
    table, bracket, key = path.partition("['")
    if bracket and key.endswith("']") and table == "metadata.labels":
        return meta.labels.get(key[:-2], "")
    if bracket and key.endswith("']") and table == "metadata.annotations":
        return meta.annotations.get(key[:-2], "")
    raise Invalid(f"{path} is not a field that a container can be told of")


def resource_value(reference: ResourceFieldSelector, pod: Pod, container: Container, allocatable: ResourceList) -> str:
    """One limit or request in units of the divisor, rounded up. Without a limit, all that the node has is the limit."""
    kind, _, name = reference.resource.partition(".")
    if kind not in ("limits", "requests") or not (name in _DEFAULTED or name.startswith(HUGEPAGES_PREFIX)):
        raise Invalid(f"{reference.resource} is not a resource that a container can be told of")
    subject, defaulted = container, True
    if reference.container_name:
        subject = _named(pod, reference.container_name)
        defaulted = subject in pod.spec.containers  # an init container that is asked about by name has no defaults
    if kind == "requests":
        amount = subject.resources.requests.get(name, Quantity(0))
    else:
        amount = subject.resources.limits.get(name, Quantity(0))
        if not amount and defaulted and name in _DEFAULTED:
            amount = _most(pod, name, allocatable)
    divisor = reference.divisor or Quantity.of(1)
    if name == CPU:
        return str(_divide_up(amount.milli, divisor.milli))
    return str(_divide_up(amount.value, divisor.value))


def _named(pod: Pod, name: str) -> Container:
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if container.name == name:
            return container
    raise Invalid(f'the pod has no container "{name}"')


def _most(pod: Pod, name: str, allocatable: ResourceList) -> Quantity:
    """What a container without a limit may use: its pod's limit, or else the node."""
    if name not in allocatable:
        return Quantity(0)
    whole = pod.spec.resources
    if whole is not None and is_pod_level_resource(name) and whole.limits.get(name):
        return whole.limits[name]
    return allocatable[name]


def _divide_up(amount: int, divisor: int) -> int:
    return -(-amount // divisor)
