"""Storage classes: fixed once they are made, since volumes were made by them."""

from collections.abc import Iterator

from pykubelet.api.field_errors import FieldError, forbidden, required
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.base import Strategy


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
