"""Which credentials to try for an image, from the pull secrets of a pod."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.image import parse_image
from pykubelet.api.objects import Secret
from pykubelet.pod.images.keyring import lookup
from pykubelet.pod.ports.runtime import PullCredentials

PULL_SECRET_KEYS: Final = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
"""By the type of a secret: where in it the credentials are."""


def credentials_for(image: str, secrets: Iterable[Secret]) -> tuple[PullCredentials, ...]:
    """The credentials that fit an image's registry and path, the most specific first, then in the order of the secrets.

    A secret of another kind, or one that cannot be read, has none to offer.
    """
    try:
        repository = parse_image(image).repository
    except ValueError:
        return ()
    return lookup(repository, (each for secret in secrets for each in _entries(secret)))


def _entries(secret: Secret) -> Iterator[tuple[str, PullCredentials]]:
    key = PULL_SECRET_KEYS.get(secret.type)
    data = secret.data.get(key) if key else None
    if data is None:
        return
    try:
        value = codec.decode_any(data)
    except DecodeError:
        return
    if isinstance(value, dict) and secret.type.endswith("dockerconfigjson"):
        value = value.get("auths")
    for server, entry in value.items() if isinstance(value, dict) else ():
        registry = _registry(entry) if isinstance(entry, Mapping) else None
        if registry is not None:
            yield server, registry


def _registry(entry: Mapping[str, Any]) -> PullCredentials | None:
    """Without the server's address: runtimes take that for the only host that may be shown the credentials, and want
    it as a URL, which most secrets do not have."""
    user, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if entry.get("auth"):
        try:
            decoded = _decoded(str(entry["auth"]))
        except (binascii.Error, UnicodeError, ValueError):
            return None
        user, colon, password = decoded.partition(":")
        if not colon:
            return None
    token = str(entry.get("identitytoken") or "")
    if not (user or password or token):
        return None
    return PullCredentials(username=user, password=password, token=token)


def _decoded(text: str) -> str:
    """Base64 with or without its padding."""
    text = text.strip().replace("\n", "").replace("\r", "")
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode()
