"""Namespaces: each carries its own name as a label, and is kept by a finalizer until its content is gone."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.api.struct import rfc3339
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import spelled
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.strategies.base import Claims, Strategy, keep, keep_all_but

NAME_LABEL: Final = "kubernetes.io/metadata.name"
FINALIZER: Final = "kubernetes"
_STANDARD_FINALIZERS: Final = (FINALIZER, "foregroundDeletion", "orphan")
_IMMORTAL: Final = ("default", "kube-system", "kube-public")
_IN_PROGRESS: Final = (
    "The system is ensuring all content is removed from this namespace.  "
    "Upon completion, this namespace will automatically be purged by the system."
)


class NamespaceStrategy(Strategy):
    selectable = {"status.phase": "status.phase"}

    def name_faults(self, name: str) -> Iterable[str]:
        return names.dns_label(name)

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        if name := result.get("metadata", {}).get("name"):
            result["metadata"].setdefault("labels", {})[NAME_LABEL] = name
        return result

    def prepare_create(self, obj: Object, now: datetime) -> None:
        if name := obj["metadata"].get("name"):
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name
        spec = obj.setdefault("spec", {})
        finalizers = spec.setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        obj["status"] = {"phase": "Active"}

    async def after_create(self, obj: Object, claims: Claims) -> None:
        metadata = {"name": "default", "namespace": obj["metadata"]["name"]}
        await claims.claim("", "serviceaccounts", {"metadata": metadata})

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        match subresource:
            case "finalize":
                keep(obj, old, "status")
            case "status":
                keep_all_but(obj, old, ("status",))
            case _:
                keep(obj, old, "spec")
                keep(obj, old, "status")

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        field = "spec.finalizers"
        for name in at(obj, field, ()):
            yield from spelled(field, name, names.qualified_name(name))
            if "/" not in name and name not in _STANDARD_FINALIZERS:
                detail = "name is neither a standard finalizer name nor is it fully qualified"
                yield invalid(field, name, detail)

    def check_delete(self, name: str) -> None:
        if name in _IMMORTAL:
            raise status.forbidden("namespaces", name, "this namespace may not be deleted")

    def is_held(self, obj: Object) -> bool:
        """Also while its content is still to be removed."""
        return bool(at(obj, "spec.finalizers")) or super().is_held(obj)

    def marked(self, obj: Object, wanted: int | None, now: datetime, *, hold: str = "") -> tuple[Object, bool]:
        """It has no grace: it goes as soon as it is empty."""
        is_held = self.is_held(obj)
        if obj["metadata"].get("deletionTimestamp"):
            if is_held:
                raise status.conflict("namespaces", obj["metadata"]["name"], _IN_PROGRESS)
            return obj, True
        new = copied(obj)
        new["metadata"]["deletionTimestamp"] = rfc3339(now)
        new["status"] = {**new.get("status", {}), "phase": "Terminating"}
        return new, not is_held
