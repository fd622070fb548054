"""Drivers of storage, and what they say of nodes, of what room they have left, and of volumes at nodes."""

from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, duplicate, forbidden, invalid, required, too_long
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import one_of, spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.network_policies import selector_faults

_DEFAULTS: Final[dict[str, Any]] = {
    "attachRequired": True,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "podInfoOnMount": False,
    "requiresRepublish": False,
    "seLinuxMount": False,
    "storageCapacity": False,
}
_FS_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_SHORTEST_TOKEN: Final = 600
_LONGEST_TOKEN: Final = 1 << 32
_LONGEST_NODE_ID: Final = 256


def driver_name_faults(field: str, name: str) -> Iterator[FieldError]:
    if not name:
        yield required(field, "")
    if names.size(name) > 63:
        yield too_long(field, 63)
    yield from spelled(field, name, names.dns_subdomain(name.lower()))


class CsiDriverStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        for name, value in _DEFAULTS.items():
            spec.setdefault(name, value)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        yield from driver_name_faults("metadata.name", obj["metadata"].get("name", ""))
        for mode in spec["volumeLifecycleModes"]:
            yield from one_of("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
        yield from one_of("spec.fsGroupPolicy", spec["fsGroupPolicy"], _FS_GROUP_POLICIES)
        seen: set[str] = set()
        for index, each in enumerate(spec.get("tokenRequests") or ()):
            field, seconds = f"spec.tokenRequests[{index}]", each.get("expirationSeconds")
            if each.get("audience", "") in seen:
                yield duplicate(f"{field}.audience", each.get("audience", ""))
            seen.add(each.get("audience", ""))
            if seconds is not None and not _SHORTEST_TOKEN <= seconds <= _LONGEST_TOKEN:
                detail = f"must be between {_SHORTEST_TOKEN} and {_LONGEST_TOKEN} seconds"
                yield invalid(f"{field}.expirationSeconds", seconds, detail)

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        """Its changes are counted, and not that it was made."""
        if not same(obj["spec"], old.get("spec")):
            obj["metadata"]["generation"] = at(old, "metadata.generation", 0) + 1

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        for name, shown in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
            if at(obj, f"spec.{name}") != at(old, f"spec.{name}"):
                yield invalid(f"spec.{shown}", at(obj, f"spec.{name}"), "field is immutable")


class CsiNodeStrategy(Strategy):
    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        seen: set[str] = set()
        for index, each in enumerate(at(obj, "spec.drivers", ())):
            field, name, node = f"spec.drivers[{index}]", each.get("name", ""), each.get("nodeID", "")
            yield from driver_name_faults(f"{field}.name", name)
            if name in seen:
                yield duplicate(f"{field}.name", name)
            seen.add(name)
            if not node:
                yield required(f"{field}.nodeID", node)
            elif len(node) > _LONGEST_NODE_ID:
                yield invalid(f"{field}.nodeID", node, f"must be {_LONGEST_NODE_ID} characters or less")
            if (count := at(each, "allocatable.count")) is not None and count < 0:
                yield invalid(f"{field}.allocatable.count", count, "must be greater than or equal to 0")
            for key in each.get("topologyKeys") or ():
                yield from spelled(field, key, names.qualified_name(key))

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        before = {each.get("name"): each for each in at(old, "spec.drivers", ())}
        for each in at(obj, "spec.drivers", ()):
            was = before.get(each.get("name"))
            if was is not None and not same({**each, "allocatable": None}, {**was, "allocatable": None}):
                yield invalid("spec.drivers", each, "field is immutable")


class CsiStorageCapacityStrategy(Strategy):
    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        name = obj.get("storageClassName", "")
        yield from spelled("storageClassName", name, names.dns_subdomain(name))
        yield from selector_faults(obj.get("nodeTopology"), "nodeTopology")
        for field in ("capacity", "maximumVolumeSize"):
            if obj.get(field) is not None and parse_quantity(str(obj[field])).sign < 0:
                yield invalid(field, obj[field], "must be greater than or equal to 0")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        for name in ("nodeTopology", "storageClassName"):
            if not same(obj.get(name), old.get(name)):
                yield invalid(name, obj.get(name), "field is immutable")


class VolumeAttachmentStrategy(Strategy):
    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj.get("spec") or {}
        yield from driver_name_faults("spec.attacher", spec.get("attacher", ""))
        yield from spelled("spec.nodeName", spec.get("nodeName", ""), names.dns_subdomain(spec.get("nodeName", "")))
        source = spec.get("source") or {}
        name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
        if name is None and inline is None:
            yield required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
        elif name is not None and inline is not None:
            yield forbidden("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
        elif name == "":
            yield required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if not same(obj.get("spec"), old.get("spec")):
            yield invalid("spec", obj.get("spec"), "field is immutable")
