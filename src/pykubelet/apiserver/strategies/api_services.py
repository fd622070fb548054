"""APIServices: each says who answers for one version of a group, this server or a service."""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.api.struct import rfc3339
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import needed_one_of, spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy

_LOCAL: Final = {
    "type": "Available",
    "status": "True",
    "reason": "Local",
    "message": "Local APIServices are always available",
}
_MOST: Final = (("groupPriorityMinimum", 20_000), ("versionPriority", 1_000))


class ApiServiceStrategy(Strategy):
    updates_unconditionally: ClassVar[bool] = False

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        if service := at(result, "spec.service"):
            service.setdefault("port", 443)
        return result

    def prepare_create(self, obj: Object, now: datetime) -> None:
        super().prepare_create(obj, now)
        if not obj["spec"].get("service"):
            obj["status"] = {"conditions": [{**_LOCAL, "lastTransitionTime": rfc3339(now)}]}

    def name_faults(self, name: str) -> names.Faults:
        return ()

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        group, version = spec.get("group", ""), spec.get("version", "")
        if name and name != f"{version}.{group}":
            yield invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{version}.{group}"')
        if not group and version != "v1":
            yield required("spec.group", "only v1 may have an empty group and it better be legacy kube")
        if group:
            yield from spelled("spec.group", group, names.dns_subdomain(group))
        yield from spelled("spec.version", version, names.dns_1035_label(version))
        for field, most in _MOST:
            if not 0 < spec.get(field, 0) <= most:
                yield invalid(f"spec.{field}", spec.get(field, 0), f"must be positive and less than {most}")
        yield from _service_faults(spec)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        if subresource != "status":
            yield from super().validate_update(obj, old, subresource)
            return
        yield from self.validate_meta(obj)
        for index, each in enumerate(at(obj, "status.conditions", ())):
            yield from needed_one_of(
                f"status.conditions[{index}].status", each.get("status", ""), ("True", "False", "Unknown")
            )


def _service_faults(spec: Object) -> Iterator[FieldError]:
    service, bundle, insecure = spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify", False)
    if not service:
        if bundle:
            yield invalid("spec.caBundle", "", "local APIServices may not have a caBundle")
        if insecure:
            yield invalid(
                "spec.insecureSkipTLSVerify", insecure, "local APIServices may not have insecureSkipTLSVerify"
            )
        return
    for field in ("namespace", "name"):
        if not service.get(field):
            yield required(f"spec.service.{field}", "")
    for fault in names.port_number(service["port"]):
        yield invalid("spec.service.port", service["port"], f"port is not valid: {fault}")
    if insecure and bundle:
        yield invalid("spec.insecureSkipTLSVerify", insecure, "may not be true if caBundle is present")
