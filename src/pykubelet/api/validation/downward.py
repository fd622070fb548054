"""Which facts about a pod its own containers may ask for, as variables or as files."""

from typing import Final

from pykubelet.api.env import ObjectFieldSelector, ResourceFieldSelector
from pykubelet.api.field_errors import invalid, not_supported, required
from pykubelet.api.quantity import Quantity
from pykubelet.api.validation import names
from pykubelet.api.validation.options import Errors
from pykubelet.api.validation.rules import one_of, spelled

_OF_BOTH = ("metadata.name", "metadata.namespace", "metadata.uid")
ENV_FIELDS: Final = (
    *_OF_BOTH,
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
FILE_FIELDS: Final = (*_OF_BOTH, "metadata.labels", "metadata.annotations")
_KEYED_FIELDS: Final = ("metadata.annotations", "metadata.labels")
_POD_FIELDS: Final = {
    *ENV_FIELDS,
    *FILE_FIELDS,
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
    "spec.host",
}

_RESOURCES: Final = tuple(
    f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_CPU_DIVISORS: Final = ("1m", "1")
_BYTE_DIVISORS: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def validate_field_ref(selector: ObjectFieldSelector, fields: tuple[str, ...], path: str) -> Errors:
    if not selector.api_version:
        yield required(f"{path}.apiVersion")
        return
    if not selector.field_path:
        yield required(f"{path}.fieldPath")
        return
    if selector.api_version != "v1":
        yield invalid(f"{path}.fieldPath", selector.field_path, f"needs apiVersion v1, not {selector.api_version}")
        return
    name, key = _split(selector.field_path)
    if name not in (_KEYED_FIELDS if key is not None else _POD_FIELDS):
        yield invalid(f"{path}.fieldPath", selector.field_path, "is not a field of a pod that can be asked for")
    elif key is not None:
        yield from spelled(path, key, names.qualified_name(key.lower() if name == "metadata.annotations" else key))
    else:
        yield from one_of(f"{path}.fieldPath", "spec.nodeName" if name == "spec.host" else name, fields)


def validate_resource_field_ref(
    selector: ResourceFieldSelector, path: str, *, of_named_container: bool = False
) -> Errors:
    resource = selector.resource
    if of_named_container and not selector.container_name:
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        yield not_supported(f"{path}.resource", resource, (*_RESOURCES, "limits.hugepages-<size>"))
    divisors = _divisors(resource)
    if selector.divisor and divisors and not _is_one_of(selector.divisor, divisors):
        yield invalid(f"{path}.divisor", selector.divisor, f"must be one of {', '.join(divisors)} for {resource}")


def _split(field_path: str) -> tuple[str, str | None]:
    """`metadata.labels['app']` -> `metadata.labels` and `app`; a path without a key has none."""
    name, bracket, key = field_path.removesuffix("']").partition("['")
    if field_path.endswith("']") and bracket and name:
        return name, key
    return field_path, None


def _divisors(resource: str) -> tuple[str, ...]:
    if resource in ("limits.cpu", "requests.cpu"):
        return _CPU_DIVISORS
    if resource in _RESOURCES or resource.startswith(_HUGE_PAGES):
        return _BYTE_DIVISORS
    return ()


def _is_one_of(divisor: Quantity, choices: tuple[str, ...]) -> bool:
    return str(divisor) in choices  # by spelling: 1000m is written 1, but 1024 is not written 1Ki
