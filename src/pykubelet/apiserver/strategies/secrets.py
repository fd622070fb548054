"""Secrets: what each type has to hold, and that the type stays."""

import base64
from collections.abc import Iterator
from typing import Final

import msgspec

from pykubelet.api.base64_text import with_canonical_bytes
from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.keyed_data import KeyedDataStrategy, decoded

_NEEDED: Final = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


class SecretStrategy(KeyedDataStrategy):
    selectable = {"type": "type"}

    def normal(self, obj: Object) -> Object:
        result = super().normal(with_canonical_bytes(obj, "data"))
        if plain := result.pop("stringData", None):
            encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
            result["data"] = {**result.get("data", {}), **encoded}
        result["type"] = result.get("type") or "Opaque"
        return result

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        if obj.get("type") != old.get("type"):
            yield invalid("type", obj.get("type"), "field is immutable")
        yield from super().validate_update(obj, old, subresource)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        yield from super().content_faults(obj)
        kind, data = obj["type"], obj.get("data", {})
        for key in _NEEDED.get(kind, ()):
            if key not in data:
                yield required(f"data[{key}]", "")
            elif "docker" in kind and not _is_json_object(decoded(data[key])):
                yield invalid(f"data[{key}]", "<secret contents redacted>", "is not a JSON object")
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
            yield required("data[username]", "")
            yield required("data[password]", "")
        account = "kubernetes.io/service-account.name"
        if kind == "kubernetes.io/service-account-token" and not at(obj, "metadata.annotations", {}).get(account):
            yield required(f"metadata.annotations[{account}]", "")


def _is_json_object(data: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(data), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
