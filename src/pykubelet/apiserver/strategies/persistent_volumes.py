"""Persistent volumes: their defaults, and what each has to say of itself."""

from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.struct import rfc3339
from pykubelet.api.validation import names
from pykubelet.api.validation.claims import ACCESS_MODES
from pykubelet.api.validation.rules import no_backsteps, one_of, spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.catalogue import CORE, catalogue
from pykubelet.apiserver.schema.schema import copied, same
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.storage_classes import protect

VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
_POLICIES: Final = ("Delete", "Recycle", "Retain")
_FILLED: Final = {
    "cephfs": ("monitors",),
    "csi": ("driver", "volumeHandle"),
    "glusterfs": ("endpoints", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "local": ("path",),
    "nfs": ("server", "path"),
    "rbd": ("monitors", "image"),
}


_LOOKED_AT: Final = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte"),
    *("cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk"),
    *("portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi"),
)
"""In which order: the first source that there is counts."""
_SPELLED: Final = {"cephfs": "cephFS"}


@cache
def sources() -> frozenset[str]:
    """The fields that say where a volume really is: protobuf has them as one."""
    fields = catalogue()[f"{CORE}.PersistentVolumeSpec"].fields
    return frozenset(name for name, field in fields.items() if len(field.number) > 1)


class PersistentVolumeStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if (path := spec.get("hostPath")) is not None:
            path.setdefault("type", "")
        return result

    def prepare_create(self, obj: Object, now: datetime) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": rfc3339(now)}
        protect(obj, VOLUME_PROTECTION)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        yield from _mode_faults(spec.get("accessModes") or [])
        yield from _capacity_faults(spec.get("capacity") or {})
        yield from one_of("spec.persistentVolumeReclaimPolicy", spec["persistentVolumeReclaimPolicy"], _POLICIES)
        yield from one_of("spec.volumeMode", spec["volumeMode"], ("Block", "Filesystem"))
        yield from _source_faults(spec)
        if name := spec.get("storageClassName"):
            yield from spelled("spec.storageClassName", name, names.dns_subdomain(name))
        if spec.get("nodeAffinity") is not None and not at(spec, "nodeAffinity.required.nodeSelectorTerms"):
            yield required("spec.nodeAffinity.required", "must specify required node constraints")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        now, was = _source(obj["spec"]), _source(old["spec"])
        if "csi" in now and "csi" in was and "controllerExpandSecretRef" not in was["csi"]:
            now["csi"].pop("controllerExpandSecretRef", None)
        if not same(now, was):
            yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
        if obj["spec"]["volumeMode"] != old["spec"].get("volumeMode", "Filesystem"):
            yield invalid("volumeMode", obj["spec"]["volumeMode"], "field is immutable")
        affinity = old["spec"].get("nodeAffinity")
        if affinity is not None and not same(affinity, obj["spec"].get("nodeAffinity")):
            yield invalid("nodeAffinity", obj["spec"].get("nodeAffinity"), "field is immutable")


def _source(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: copied(spec[name]) for name in sources() if name in spec}


def _mode_faults(modes: list[str]) -> Iterator[FieldError]:
    if not modes:
        yield required("spec.accessModes", "")
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported("spec.accessModes", mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        yield forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes")


def _capacity_faults(capacity: dict[str, Any]) -> Iterator[FieldError]:
    if not capacity:
        yield required("spec.capacity", "")
    elif set(capacity) != {"storage"}:
        yield not_supported("spec.capacity", capacity, ("storage",))
    for name, amount in capacity.items():
        if parse_quantity(str(amount)).sign <= 0:
            yield invalid(f"spec.capacity[{name}]", amount, "must be greater than zero")


def _source_faults(spec: dict[str, Any]) -> Iterator[FieldError]:
    given = sorted(sources() & spec.keys(), key=_LOOKED_AT.index)
    if not given:
        yield required("spec", "must specify a volume type")
    for name in given[1:]:
        if name != "flexVolume":  # which upstream does not count
            yield forbidden(f"spec.{_SPELLED.get(name, name)}", "may not specify more than 1 volume type")
    for name in given[:1]:
        for part in _FILLED.get(name, ()):
            if not spec[name].get(part):
                yield required(f"spec.{name}.{part}", "")
    if (path := at(spec, "hostPath.path")) is not None:
        if not path:
            yield required("spec.hostPath.path", "")
        yield from no_backsteps("spec.hostPath.path", path)
        if path.rstrip("/") == "" and spec["persistentVolumeReclaimPolicy"] == "Recycle":
            detail = "may not be 'recycle' for a hostPath mount of '/'"
            yield forbidden("spec.persistentVolumeReclaimPolicy", detail)
    if given[:1] == ["local"] and spec.get("nodeAffinity") is None:
        yield required("spec.nodeAffinity", "Local volume requires node affinity")
