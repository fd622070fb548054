"""Priority classes: one of them at most is everybody's default, and the highest are the system's."""

from collections.abc import Iterator
from typing import Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid
from pykubelet.api.validation.rules import one_of
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Lookup, Strategy

_HIGHEST_PRIORITY: Final = 1_000_000_000
_SYSTEM_PREFIX: Final = "system-"
SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClassStrategy(Strategy):
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
            if SYSTEM_PRIORITIES.get(name) != obj["value"] or obj.get("globalDefault"):
                yield forbidden("metadata.name", "priority class names with 'system-' prefix are reserved")
        elif obj["value"] > _HIGHEST_PRIORITY:
            yield forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}")

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        yield from one_of("preemptionPolicy", obj["preemptionPolicy"], ("Never", "PreemptLowerPriority"))

    def count_generation(self, obj: Object, old: Object) -> None:
        """Nothing that matters can change."""
        obj["metadata"]["generation"] = at(old, "metadata.generation", 1)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if obj["value"] != old.get("value", 0):
            yield forbidden("value", "may not be changed in an update.")
        if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
            yield invalid("preemptionPolicy", obj.get("preemptionPolicy"), "field is immutable")
