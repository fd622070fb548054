"""Runtime classes: the handler that each names stays the same."""

from collections.abc import Iterator
from typing import ClassVar

from pykubelet.api.codec import convert
from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.scheduling import Toleration
from pykubelet.api.validation import names
from pykubelet.api.validation.resources import validate_amount
from pykubelet.api.validation.rules import spelled
from pykubelet.api.validation.scheduling import validate_tolerations
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy


class RuntimeClassStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True
    updates_unconditionally: ClassVar[bool] = False

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        yield from spelled("handler", obj["handler"], names.dns_label(obj["handler"]))

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        scheduling, overhead = obj.get("scheduling") or {}, at(obj, "overhead.podFixed", {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            yield from spelled("scheduling.nodeSelector", key, names.qualified_name(key))
            yield from spelled("scheduling.nodeSelector", value, names.label_value(value))
        tolerations = convert(tuple[Toleration, ...], scheduling.get("tolerations") or [])
        yield from validate_tolerations(tolerations, "scheduling.tolerations.tolerations")
        for name, amount in overhead.items():
            yield from validate_amount(name, parse_quantity(str(amount)), f"overhead.limits[{name}]")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if obj.get("handler") != old.get("handler"):
            yield invalid("handler", obj.get("handler"), "field is immutable")
