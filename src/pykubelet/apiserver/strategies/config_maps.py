"""Config maps: a key stands for text or for bytes, never for both."""

from collections.abc import Iterator

from pykubelet.api.base64_text import with_canonical_bytes
from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.keyed_data import KeyedDataStrategy


class ConfigMapStrategy(KeyedDataStrategy):
    parts = ("data", "binaryData")

    def normal(self, obj: Object) -> Object:
        return super().normal(with_canonical_bytes(obj, "binaryData"))

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        for key in obj.get("data", {}):
            if key in obj.get("binaryData", {}):
                yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        yield from super().content_faults(obj)
