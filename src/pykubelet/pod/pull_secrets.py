"""Which credentials to try for an image, from the pull secrets of a pod."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.image import parse_image
from pykubelet.api.objects import Secret
from pykubelet.pod.ports import Registry

_KINDS: Final = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}


def credentials_for(image: str, secrets: Iterable[Secret]) -> tuple[Registry, ...]:
    """The credentials that fit an image's registry and path, the most specific first, then in the order of the secrets.

    A secret of another kind, or one that cannot be read, has none to offer.
    """
    try:
        repository = parse_image(image).repository
    except ValueError:
        return ()
    found = [
        (len(_normal(server)), _registry(server, entry))
        for secret in secrets
        for server, entry in _entries(secret).items()
        if isinstance(entry, Mapping) and _covers(_normal(server), repository)
    ]
    found.sort(key=lambda each: -each[0])
    return tuple(registry for _, registry in found if registry is not None)


def _entries(secret: Secret) -> Mapping[str, Any]:
    key = _KINDS.get(secret.type)
    data = secret.data.get(key) if key else None
    if data is None:
        return {}
    try:
        value = codec.decode_any(data)
    except DecodeError:
        return {}
    if isinstance(value, dict) and secret.type.endswith("dockerconfigjson"):
        value = value.get("auths")
    return value if isinstance(value, dict) else {}


def _normal(server: str) -> str:
    """`https://index.docker.io/v1/` and `registry.example/team` as image names spell them."""
    name = server.partition("://")[2] if "://" in server else server
    name = name.removesuffix("/").removesuffix("/v1").removesuffix("/v2")
    return "docker.io" if name in ("index.docker.io", "docker.io", "registry-1.docker.io") else name


def _covers(server: str, repository: str) -> bool:
    """Host by host (`*.example.com` stands for one part), then the path as a prefix of whole parts."""
    host, _, path = server.partition("/")
    wanted, _, inside = repository.partition("/")
    parts, others = host.split("."), wanted.split(".")
    same_host = len(parts) == len(others) and all(a in ("*", b) for a, b in zip(parts, others, strict=True))
    return same_host and (not path or inside == path or inside.startswith(f"{path}/"))


def _registry(server: str, entry: Mapping[str, Any]) -> Registry | None:
    user, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    if entry.get("auth"):
        try:
            decoded = base64.b64decode(str(entry["auth"]), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError, ValueError):
            return None
        user, _, password = decoded.partition(":")
        password = password.strip("\0")
    token = str(entry.get("identitytoken") or "")
    if not (user or password or token):
        return None
    return Registry(username=user, password=password, token=token, server=server)
