"""Namespaces: each carries its own name as a label, and is kept by a finalizer until its content is gone."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from pykubelet.api.field_errors import FieldError
from pykubelet.api.validation import names
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Lookup, Strategy, keep, keep_all_but

NAME_LABEL: Final = "kubernetes.io/metadata.name"
FINALIZER: Final = "kubernetes"


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

    async def created(self, obj: Object, lookup: Lookup) -> None:
        metadata = {"name": "default", "namespace": obj["metadata"]["name"]}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        await lookup.claim("", "serviceaccounts", account)

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        match subresource:
            case "finalize":
                keep(obj, old, "status")
            case "status":
                keep_all_but(obj, old, ("status",))
            case _:
                keep(obj, old, "spec")
                keep(obj, old, "status")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)

    @staticmethod
    def is_held(obj: Object) -> bool:
        """Whether its content is still to be removed."""
        return bool(at(obj, "spec.finalizers"))
