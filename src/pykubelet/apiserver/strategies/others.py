"""Kinds with a rule or two of their own."""

import base64
import binascii
import ipaddress
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import ClassVar, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid, required
from pykubelet.api.rules.well_known import DEFAULT_CLASS_ANNOTATION, NOT_READY_TAINT, OLD_CLASS_ANNOTATION
from pykubelet.api.struct import rfc3339
from pykubelet.api.validation import names
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied, same
from pykubelet.apiserver.security.users import User
from pykubelet.apiserver.strategies.base import Lookup, Strategy, keep, keep_all_but

_HIGHEST_PRIORITY: Final = 1_000_000_000
_NOT_READY: Final = (NOT_READY_TAINT, "NoSchedule")
_REQUEST: Final = b"-----BEGIN CERTIFICATE REQUEST-----"
_SHORTEST: Final = 600
_SYSTEM_PREFIX: Final = "system-"


class NodeStrategy(Strategy):
    selectable = {"spec.unschedulable": "spec.unschedulable"}

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        told = result.get("status", {})
        if told.get("capacity") and not told.get("allocatable"):
            told["allocatable"] = copied(told["capacity"])
        for condition in told.get("conditions", ()):
            condition.setdefault("lastHeartbeatTime", None)
            condition.setdefault("lastTransitionTime", None)
        return result

    def prepare_create(self, obj: Object, now: datetime) -> None:
        """A node comes with its status, which its agent knows, and takes no pods before it is seen to be ready."""
        taints = obj.setdefault("spec", {}).setdefault("taints", [])
        if not any((each.get("key"), each.get("effect")) == _NOT_READY for each in taints):
            taints.append({"key": _NOT_READY[0], "effect": _NOT_READY[1]})

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        keep(obj, old, "spec" if subresource == "status" else "status")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        for name in ("podCIDR", "podCIDRs", "providerID"):
            was, now = at(old, f"spec.{name}"), at(obj, f"spec.{name}")
            if was and now != was:
                yield forbidden(f"spec.{name}", "node updates may not change it once it is set")

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        found["spec.unschedulable"] = found["spec.unschedulable"] or "false"
        return found


class LeaseStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True
    updates_unconditionally: ClassVar[bool] = False

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        yield from _lease_faults(obj)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        yield from _lease_faults(obj)


def _lease_faults(obj: Object) -> Iterator[FieldError]:
    seconds, transitions = at(obj, "spec.leaseDurationSeconds"), at(obj, "spec.leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if transitions is not None and transitions < 0:
        yield invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")


class EndpointsStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        for subset in result.get("subsets", ()):
            for port in subset.get("ports", ()):
                port["protocol"] = port.get("protocol") or "TCP"
        return result

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        yield from _endpoint_faults(obj)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        yield from _endpoint_faults(obj)


class PriorityClassStrategy(Strategy):
    counts_generations: ClassVar[bool] = True

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        result.setdefault("preemptionPolicy", "PreemptLowerPriority")
        result.setdefault("value", 0)
        return result

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        if not obj.get("globalDefault"):
            return
        name = obj["metadata"].get("name", "")
        for each in await lookup.all("scheduling.k8s.io", "priorityclasses"):
            if each.get("globalDefault") and each["metadata"]["name"] != name:
                why = (
                    f"PriorityClass {each['metadata']['name']} is already marked as default. Only one default can exist"
                )
                raise status.forbidden("priorityclasses", name, why, "scheduling.k8s.io")

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        name = obj["metadata"].get("name", "")
        if name.startswith(_SYSTEM_PREFIX):
            if obj["value"] not in (2000000000, 2000001000):
                yield forbidden("metadata.name", "priority class names with 'system-' prefix are reserved")
        elif obj["value"] > _HIGHEST_PRIORITY:
            yield forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if obj["value"] != old.get("value", 0):
            yield forbidden("value", "may not be changed in an update.")
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            yield invalid("preemptionPolicy", obj.get("preemptionPolicy"), "field is immutable")


class RuntimeClassStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True
    updates_unconditionally: ClassVar[bool] = False

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        if not obj.get("handler"):
            yield required("handler", "")
        for fault in names.dns_label(obj["handler"]) if obj.get("handler") else ():
            yield invalid("handler", obj["handler"], fault)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if obj.get("handler") != old.get("handler"):
            yield invalid("handler", obj.get("handler"), "field is immutable")


class VolumeStrategy(Strategy):
    """Persistent volumes."""

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        return result

    def prepare_create(self, obj: Object, now: datetime) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": rfc3339(now)}

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        if not at(obj, "spec.accessModes"):
            yield required("spec.accessModes", "")
        if not at(obj, "spec.capacity"):
            yield required("spec.capacity", "")


class ClaimStrategy(Strategy):
    """Persistent volume claims."""

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        result.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        return result

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        """A claim that names no class gets the default one, if there is one."""
        annotated = OLD_CLASS_ANNOTATION in at(obj, "metadata.annotations", {})
        if old is not None or annotated or at(obj, "spec.storageClassName") is not None:
            return
        classes = await lookup.all("storage.k8s.io", "storageclasses")
        default = [
            each for each in classes if at(each, "metadata.annotations", {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
        ]
        if default:
            newest = max(default, key=lambda each: str(each["metadata"].get("creationTimestamp", "")))
            obj["spec"]["storageClassName"] = newest["metadata"]["name"]

    def give_status(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        if not at(obj, "spec.accessModes"):
            yield required("spec.accessModes", "at least 1 access mode is required")
        if not at(obj, "spec.resources.requests.storage"):
            yield required("spec.resources[storage]", "")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        rest, was = copied(obj["spec"]), copied(old["spec"])
        for spec in (rest, was):
            spec.pop("resources", None)
            spec.pop("volumeAttributesClassName", None)
        if not was.get("volumeName"):
            rest.pop("volumeName", None)
        if not was.get("storageClassName"):
            rest.pop("storageClassName", None)
        if not same(rest, was):
            detail = (
                "spec is immutable after creation except resources.requests and volumeAttributesClassName "
                "for bound claims\n"
            )
            yield forbidden("spec", detail)


class StorageClassStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        result.setdefault("reclaimPolicy", "Delete")
        result.setdefault("volumeBindingMode", "Immediate")
        return result

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        if not obj.get("provisioner"):
            yield required("provisioner", "")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            if obj.get(name) != old.get(name):
                yield forbidden(name, "updates to it are forbidden.")


class CertificateRequestStrategy(Strategy):
    selectable = {"spec.signerName": "spec.signerName"}

    def name_faults(self, name: str) -> Iterable[str]:
        """Whatever can stand in a path: kubelets name a request by the digest of its key, in base64."""
        if name in (".", ".."):
            yield f"may not be '{name}'"
        for letter in "/%\0":
            if letter in name:
                yield f"may not contain {letter!r}"

    def attribute(self, obj: Object, user: User) -> None:
        spec = {
            key: value
            for key, value in obj.get("spec", {}).items()
            if key not in ("username", "uid", "groups", "extra")
        }
        obj["spec"] = {**spec, **user.info()}

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        for condition in at(obj, "status.conditions", ()) if subresource else ():
            for name in ("lastUpdateTime", "lastTransitionTime"):
                condition[name] = condition.get(name) or rfc3339(lookup.now())

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        if subresource == "approval":
            conditions = at(obj, "status.conditions", [])
            keep_all_but(obj, old, ())
            obj["status"] = {**old.get("status", {}), "conditions": conditions}
            return
        if subresource == "status":
            super().prepare_update(obj, old, subresource)
            return
        keep(obj, old, "spec")
        keep(obj, old, "status")

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        if _REQUEST not in _decoded(at(obj, "spec.request", "")):
            yield invalid("spec.request", at(obj, "spec.request", ""), "PEM block type must be CERTIFICATE REQUEST")
        if not at(obj, "spec.usages"):
            yield required("spec.usages", "usages must be provided")
        signer = at(obj, "spec.signerName", "")
        if not signer:
            yield required("spec.signerName", "")
        elif "/" not in signer.strip("/"):
            detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            yield invalid("spec.signerName", signer, detail)
        seconds = at(obj, "spec.expirationSeconds")
        if seconds is not None and seconds < _SHORTEST:
            yield invalid(
                "spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"
            )


def _endpoint_faults(obj: Object) -> Iterator[FieldError]:
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


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""
