"""Stateful sets: what they are by default, and the few things that may change."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from pykubelet.api.codec import convert
from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported
from pykubelet.api.validation import names
from pykubelet.api.validation.claims import validate_claim_spec
from pykubelet.api.validation.rules import not_negative, spelled
from pykubelet.api.volume_sources import PersistentVolumeClaimSpec
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies.workloads import (
    WorkloadStrategy,
    amount_faults,
    amount_of,
    percent_faults,
    pods_faults,
    selector_faults,
)

_RETAIN: Final = "Retain"
_KEPT: Final = ("Retain", "Delete")
_CHANGEABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)


class StatefulSetStrategy(WorkloadStrategy):
    counts: ClassVar[tuple[str, ...]] = (
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    )
    always_counted: ClassVar[tuple[str, ...]] = ("replicas", "availableReplicas")

    def fill(self, obj: Object) -> None:
        spec = obj["spec"]
        spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            strategy["rollingUpdate"].setdefault("partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for name in ("whenDeleted", "whenScaled"):
            retention[name] = retention.get(name) or _RETAIN
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim["apiVersion"], claim["kind"] = claim.get("apiVersion") or "v1", "PersistentVolumeClaim"
            claim.setdefault("metadata", {})
            claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
            claim.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_create(self, obj: Object, now: Any) -> None:
        super().prepare_create(obj, now)
        _drop_ungated(obj, None)

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        _drop_ungated(obj, old)
        super().prepare_update(obj, old, subresource)

    def name_faults(self, name: str) -> Iterable[str]:
        return names.dns_label(name)

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        spec = obj["spec"]
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            path = f"spec.volumeClaimTemplates[{index}].spec"
            yield from validate_claim_spec(convert(PersistentVolumeClaimSpec, claim.get("spec") or {}), path)
        if service := spec.get("serviceName"):
            yield from spelled("spec.serviceName", service, names.dns_label(service))

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
            text = "must be 'OrderedReady' or 'Parallel'"
            yield invalid("spec.podManagementPolicy", spec.get("podManagementPolicy"), text)
        yield from _strategy_faults(spec.get("updateStrategy") or {})
        for name, value in (spec.get("persistentVolumeClaimRetentionPolicy") or {}).items():
            if value not in _KEPT:
                yield not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{name}", value, _KEPT)
        yield from not_negative("spec.replicas", spec.get("replicas"))
        yield from not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        yield from not_negative("spec.ordinals.start", at(spec, "ordinals.start"))
        yield from selector_faults(spec, "statefulset")
        yield from pods_faults({**spec, "template": _as_made(spec)}, "StatefulSet")

    def change_faults(self, obj: Object, old: Object) -> Iterator[FieldError]:
        new, was = ({k: v for k, v in each["spec"].items() if k not in _CHANGEABLE} for each in (obj, old))
        if not same(new, was):
            text = (
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
                "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
                "'minReadySeconds' are forbidden"
            )
            yield forbidden("spec", text)


def _as_made(spec: dict[str, Any]) -> dict[str, Any]:
    """The template with the volumes that each pod gets; its names are given to it later."""
    template = spec.get("template") or {}
    inner = {k: v for k, v in (template.get("spec") or {}).items() if k not in ("hostname", "subdomain")}
    own = [at(each, "metadata.name", "") for each in spec.get("volumeClaimTemplates") or ()]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in own]
    volumes += [each for each in inner.get("volumes") or () if each.get("name") not in own]
    return {**template, "spec": {**inner, **({"volumes": volumes} if volumes else {})}}


def _strategy_faults(strategy: dict[str, Any]) -> Iterator[FieldError]:
    rolling, path = strategy.get("rollingUpdate"), "spec.updateStrategy.rollingUpdate"
    match strategy.get("type"):
        case "OnDelete":
            if rolling is not None:
                yield invalid(path, rolling, "only allowed for updateStrategy 'RollingUpdate'")
        case "RollingUpdate":
            if rolling is None:
                return
            yield from not_negative(f"{path}.partition", rolling.get("partition"))
            if (fewer := rolling.get("maxUnavailable")) is not None:
                yield from amount_faults(f"{path}.maxUnavailable", fewer)
                if amount_of(fewer) == 0:
                    yield invalid(f"{path}.maxUnavailable", fewer, "cannot be 0")
                yield from percent_faults(f"{path}.maxUnavailable", fewer)
        case _:
            yield invalid("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'")


def _drop_ungated(obj: Object, old: Object | None) -> None:
    """How many pods may be missing during an update is nobody's feature yet: it is always one."""
    rolling = at(obj, "spec.updateStrategy.rollingUpdate")
    if rolling and at(old or {}, "spec.updateStrategy.rollingUpdate.maxUnavailable") is None:
        rolling.pop("maxUnavailable", None)
