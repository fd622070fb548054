"""Config maps: a key stands for text or for bytes, never for both."""

from collections.abc import Iterator

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.keyed_data import KeyedDataStrategy, check_base64


class ConfigMapStrategy(KeyedDataStrategy):
    parts = ("data", "binaryData")

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        check_base64(result, "binaryData")
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        for key in obj.get("data", {}):
            if key in obj.get("binaryData", {}):
                yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        yield from super().content_faults(obj)
