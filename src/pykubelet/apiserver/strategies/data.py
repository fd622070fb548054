"""Config maps and secrets: what keys may look like, how much they may hold, and what immutable means."""

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Final

import msgspec

from pykubelet.api.codec import DecodeError
from pykubelet.api.field_errors import FieldError, forbidden, invalid, required, too_long
from pykubelet.api.validation import names
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy

_MOST: Final = 1 << 20
_IMMUTABLE: Final = "field is immutable when `immutable` is set"
_NEEDED: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


class _DataStrategy(Strategy):
    parts: ClassVar[tuple[str, ...]] = ("data",)

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        yield from self.data_faults(obj)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        if old.get("immutable"):
            if not obj.get("immutable"):
                yield forbidden("immutable", _IMMUTABLE)
            for part in self.parts:
                if obj.get(part, {}) != old.get(part, {}):
                    yield forbidden(part, _IMMUTABLE)
        yield from self.data_faults(obj)

    def data_faults(self, obj: Object) -> Iterator[FieldError]:
        size = 0
        for part in self.parts:
            for key, value in obj.get(part, {}).items():
                for fault in names.config_key(key):
                    yield invalid(f"{part}[{key}]", key, fault)
                size += names.size(value) if part == "data" and "binaryData" in self.parts else len(_bytes(value))
        if size > _MOST:
            yield too_long("data" if len(self.parts) == 1 else "", _MOST)


class ConfigMapStrategy(_DataStrategy):
    parts = ("data", "binaryData")

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        _check_base64(result, "binaryData")
        return result

    def data_faults(self, obj: Object) -> Iterator[FieldError]:
        for key in obj.get("data", {}):
            if key in obj.get("binaryData", {}):
                yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        yield from super().data_faults(obj)


class SecretStrategy(_DataStrategy):
    selectable = {"type": "type"}

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        _check_base64(result, "data")
        if plain := result.pop("stringData", None):
            encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
            result["data"] = {**result.get("data", {}), **encoded}
        result["type"] = result.get("type") or "Opaque"
        return result

    def prepare_create(self, obj: Object, now: datetime) -> None:
        super().prepare_create(obj, now)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        if obj.get("type") != old.get("type"):
            yield invalid("type", obj.get("type"), "field is immutable")
        yield from super().validate_update(obj, old, subresource)

    def data_faults(self, obj: Object) -> Iterator[FieldError]:
        yield from super().data_faults(obj)
        kind, data = obj["type"], obj.get("data", {})
        for key in _NEEDED.get(kind, ()):
            if key not in data:
                yield required(f"data[{key}]", "")
            elif "docker" in kind and not _is_json_object(_bytes(data[key])):
                yield invalid(f"data[{key}]", "<secret contents redacted>", "is not a JSON object")
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
            yield required("data[username]", "")
            yield required("data[password]", "")
        account = "kubernetes.io/service-account.name"
        if kind == "kubernetes.io/service-account-token" and not at(obj, "metadata.annotations", {}).get(account):
            yield required(f"metadata.annotations[{account}]", "")


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value or "")


def _check_base64(obj: Object, part: str) -> None:
    for key, value in obj.get(part, {}).items():
        try:
            base64.b64decode(value or "", validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise DecodeError("illegal base64 data", f"{part}.{key}") from None


def _is_json_object(data: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(data), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
