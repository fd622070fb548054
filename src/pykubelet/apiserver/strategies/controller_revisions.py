"""Controller revisions: what they hold is written once."""

from collections.abc import Iterator

from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.api.validation.rules import not_negative
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies.base import Strategy


class ControllerRevisionStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        result.setdefault("revision", 0)
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        yield from not_negative("revision", obj.get("revision"))

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        data = obj.get("data")
        if not isinstance(data, dict):
            yield required("data", "data is mandatory" if data is None else "data must be a valid JSON object")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if not same(obj.get("data"), old.get("data")):
            yield invalid("data", obj.get("data"), "field is immutable")
