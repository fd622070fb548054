"""What config maps and secrets have in common: keys that can be file names, a size limit, and being immutable."""

import base64
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid, too_long
from pykubelet.api.validation import names
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.base import Strategy

_MOST: Final = 1 << 20
_IMMUTABLE: Final = "field is immutable when `immutable` is set"


class KeyedDataStrategy(Strategy):
    parts: ClassVar[tuple[str, ...]] = ("data",)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        if old.get("immutable"):
            if not obj.get("immutable"):
                yield forbidden("immutable", _IMMUTABLE)
            for part in self.parts:
                if obj.get(part, {}) != old.get(part, {}):
                    yield forbidden(part, _IMMUTABLE)
        yield from self.content_faults(obj)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        size = 0
        for part in self.parts:
            for key, value in obj.get(part, {}).items():
                for fault in names.config_key(key):
                    yield invalid(f"{part}[{key}]", key, fault)
                size += names.size(value) if part == "data" and "binaryData" in self.parts else len(decoded(value))
        if size > _MOST:
            yield too_long("data" if len(self.parts) == 1 else "", _MOST)


def decoded(value: Any) -> bytes:
    return base64.b64decode(value or "")
