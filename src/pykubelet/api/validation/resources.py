"""CPU, memory and other amounts, of a container and of a pod as a whole."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from pykubelet.api import quantity
from pykubelet.api.container import ContainerResizePolicy, ResourceClaim, ResourceRequirements
from pykubelet.api.field_errors import FieldError, duplicate, forbidden, invalid, not_found, not_supported, required
from pykubelet.api.pod import PodSpec
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.resources import HUGEPAGES_PREFIX, container_limits, container_requests
from pykubelet.api.validation import names
from pykubelet.api.validation.options import Errors, Scope
from pykubelet.api.validation.rules import needed_one_of, shown, spelled

_COMPUTE: Final = ("cpu", "memory")
_OF_CONTAINERS: Final = (*_COMPUTE, "ephemeral-storage")
_COUNTED: Final = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
_STANDARD: Final = {
    *_OF_CONTAINERS,
    *(f"{side}.{name}" for side in ("requests", "limits") for name in _OF_CONTAINERS),
    "storage",
    "requests.storage",
    *_COUNTED,
}

_NameRule = Callable[[str, str], Errors]


def validate_container_resources(resources: ResourceRequirements, path: str, claims: Collection[str]) -> Errors:
    yield from _requirements(resources, path, _container_resource_name, claims)


def validate_overhead(overhead: ResourceList, path: str) -> Errors:
    yield from _requirements(ResourceRequirements(limits=overhead), path, _container_resource_name, ())


def validate_pod_resources(spec: PodSpec, path: str, scope: Scope) -> Errors:
    resources = spec.resources
    if resources is None or not scope.options.pod_level_resources:
        return
    if scope.os == "windows":
        yield forbidden(path, "must not be set for a Windows pod: set the resources of each container")
        return
    if resources.claims:
        yield forbidden(f"{path}.claims", "must not be set for a whole pod: set it for a container")
    yield from _requirements(resources, path, _pod_resource_name, scope.claims)
    yield from _pod_holds_its_containers(spec, resources, path)


def validate_resize_policy(policies: Sequence[ContainerResizePolicy], path: str, pod_restart_policy: str) -> Errors:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        if policy.resource_name in seen:
            yield duplicate(f"{path}[{index}]", policy.resource_name)
        seen.add(policy.resource_name)
        yield from needed_one_of(path, policy.resource_name, _COMPUTE)
        yield from needed_one_of(path, policy.restart_policy, ("NotRequired", "RestartContainer"))
        if pod_restart_policy == "Never" and policy.restart_policy != "NotRequired":
            yield invalid(path, policy.restart_policy, "must be NotRequired in a pod whose restartPolicy is Never")


def is_native(name: str) -> bool:
    """Whether Kubernetes itself defines this resource."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether somebody else defines it. Quotas put `requests.` before its name, so there must be room for that."""
    return not is_native(name) and not name.startswith("requests.") and not names.qualified_name(f"requests.{name}")


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGEPAGES_PREFIX)


def validate_amount(name: str, amount: Quantity, field: str) -> Errors:
    if amount.sign < 0:
        yield invalid(field, amount, "must be at least 0")
    if (name in _COUNTED or is_extended(name)) and amount.milli % 1000:
        yield invalid(field, amount, f"must be a whole number, since {name} is counted in units")


def _requirements(resources: ResourceRequirements, path: str, name_rule: _NameRule, claims: Collection[str]) -> Errors:
    for name, amount in resources.limits.items():
        yield from _amount(name, amount, f"{path}.limits[{name}]", name_rule)
    for name, amount in resources.requests.items():
        field = f"{path}.requests[{name}]"
        yield from name_rule(name, field)
        yield from validate_amount(name, amount, field)
        yield from _request_against_limit(name, amount, resources.limits, path)
        yield from _whole_pages(name, amount, field)
    given = {*resources.limits, *resources.requests}
    if any(map(is_huge_pages, given)) and given.isdisjoint(_COMPUTE):
        yield forbidden(path, "must have cpu or memory beside huge pages")
    yield from _claims(resources.claims, f"{path}.claims", claims)


def _amount(name: str, amount: Quantity, field: str, name_rule: _NameRule) -> Errors:
    yield from name_rule(name, field)
    yield from validate_amount(name, amount, field)
    yield from _whole_pages(name, amount, field)


def _request_against_limit(name: str, amount: Quantity, limits: ResourceList, path: str) -> Errors:
    limit = limits.get(name)
    shareable = is_native(name) and not is_huge_pages(name)
    if limit is None:
        if not shareable:
            yield required(f"{path}.limits", f"must have {name} too, equal to the request, since it cannot be shared")
    elif amount != limit and not shareable:
        yield invalid(f"{path}.requests", amount, f"must be equal to the limit of {name}, which is {limit}")
    elif amount > limit:
        yield invalid(f"{path}.requests", amount, f"must be at most the limit of {name}, which is {limit}")


def _whole_pages(name: str, amount: Quantity, field: str) -> Errors:
    if not is_huge_pages(name):
        return
    try:
        page = quantity.parse(name.removeprefix(HUGEPAGES_PREFIX))
    except ValueError:
        page = Quantity.of(0)
    if page.sign <= 0 or page.milli % 1000 or amount.value % page.value:
        yield invalid(field, amount, f"must be a whole number of pages, whose size is in the name {name}")


def _container_resource_name(name: str, field: str) -> Errors:
    yield from _resource_name(name, field)
    if "/" not in name:
        if name not in _OF_CONTAINERS and not is_huge_pages(name):
            yield invalid(field, name, f"must be one of {', '.join(_OF_CONTAINERS)}, hugepages-<size> for a container")
    elif not is_native(name) and not is_extended(name):
        yield invalid(field, name, "must be a resource with a domain, such as example.com/gpu")


def _pod_resource_name(name: str, field: str) -> Errors:
    faults = list(_resource_name(name, field))
    yield from faults
    if not faults and name not in _COMPUTE and not is_huge_pages(name):
        yield not_supported(field, name, (*_COMPUTE, "hugepages-<size>"))


def _resource_name(name: str, field: str) -> Errors:
    faults = names.qualified_name(name)
    yield from spelled(field, name, faults)
    known = name in _STANDARD or name.startswith((HUGEPAGES_PREFIX, f"requests.{HUGEPAGES_PREFIX}"))
    if not faults and "/" not in name and not known:
        yield invalid(
            field, name, "must be a resource that Kubernetes knows, or have a domain, such as example.com/gpu"
        )


def _claims(claims: Sequence[ResourceClaim], path: str, known: Collection[str]) -> Errors:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        if not claim.name:
            yield required(place, "must have a name")
            continue
        yield from _claim_used_once(claim, place, seen)
        if claim.name not in known:
            yield not_found(place, claim.name, f"must be one of the pod's resourceClaims: {shown(known)}")


def _claim_used_once(claim: ResourceClaim, place: str, seen: set[str]) -> Errors:
    """A claim is used whole, or by its requests, each once. A whole use collides with each request seen before."""
    if claim.name in seen:
        yield duplicate(place, claim.name)
        return
    key = f"{claim.name}/{claim.request}" if claim.request else claim.name
    if claim.request:
        yield from spelled(f"{place}.request", claim.request, names.dns_label(claim.request))
    if key in seen:
        yield duplicate(place, key)
    elif not claim.request:
        yield from (duplicate(place, claim.name) for other in seen if other.partition("/")[0] == claim.name)
    seen.add(key)


def _pod_holds_its_containers(spec: PodSpec, resources: ResourceRequirements, path: str) -> Errors:
    for name, amount in container_requests(spec).items():
        if name in resources.requests and amount > resources.requests[name]:
            yield _too_little(f"{path}.requests[{name}]", resources.requests[name], "requests", amount)
    for name, amount in container_limits(spec).items():
        if is_huge_pages(name) and name in resources.limits and amount > resources.limits[name]:
            yield _too_little(f"{path}.limits[{name}]", resources.limits[name], "limits", amount)
    for index, container in enumerate(spec.containers):
        for name, amount in container.resources.limits.items():
            if name in resources.limits and amount > resources.limits[name]:
                yield invalid(
                    f"{path}.containers[{index}][{name}].limits",
                    amount,
                    f"must be at most the pod's limit, which is {resources.limits[name]}",
                )


def _too_little(field: str, amount: Quantity, side: str, needed: Quantity) -> FieldError:
    return invalid(field, amount, f"must be at least what the {side} of its containers add up to, which is {needed}")
