"""Runtime classes: the handler that each names stays the same."""

from collections.abc import Iterator
from typing import ClassVar

from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.api.validation import names
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.base import Strategy


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
