"""Where a registry's images are asked for: at the registry itself, over TLS, unless `registries.yaml` says otherwise or
it is on this machine. The file is a part of the one that k3s has, with the same words."""

import ipaddress
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from pykubelet.base.errors import Invalid

_HUB: Final = "docker.io"
_HUBS_HOST: Final = "registry-1.docker.io"


class _Mirror(Struct, frozen=True, forbid_unknown_fields=True):
    endpoint: tuple[str, ...] = ()


class _Tls(Struct, frozen=True, forbid_unknown_fields=True):
    ca_file: str = ""
    insecure_skip_verify: bool = False


class _Host(Struct, frozen=True, forbid_unknown_fields=True):
    tls: _Tls = _Tls()


class Registries(Struct, frozen=True, forbid_unknown_fields=True):
    """`mirrors` by registry: where to ask first; `configs` by host: whose certificates to trust."""

    mirrors: Mapping[str, _Mirror] = {}
    configs: Mapping[str, _Host] = {}


class Endpoint(Struct, frozen=True, kw_only=True):
    url: str
    """Scheme and host, without a slash at the end."""
    is_own: bool
    """Whether it is the registry itself, which alone is shown its credentials."""
    ca_file: str = ""
    verified: bool = True

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def tls(self) -> ssl.SSLContext | bool:
        """For the client; True: whom this machine trusts."""
        if not self.verified:
            return False
        try:
            return ssl.create_default_context(cafile=self.ca_file) if self.ca_file else True
        except OSError as error:
            raise Invalid(f"{self.ca_file}: cannot be read as certificates: {error}") from None


def read_registries(path: Path) -> Registries:
    """No file is an empty one. Raises Invalid with the place of what is wrong."""
    try:
        return msgspec.yaml.decode(path.read_bytes() or b"{}", type=Registries)
    except FileNotFoundError:
        return Registries()
    except (OSError, msgspec.DecodeError) as error:
        raise Invalid(f"{path}: {error}") from None


def endpoints(registry: str, registries: Registries) -> tuple[Endpoint, ...]:
    """In the order in which they are asked. `registry` is the first part of an image's full name."""
    mirror = registries.mirrors.get(registry) or registries.mirrors.get("*") or _Mirror()
    host = _HUBS_HOST if registry == _HUB else registry
    found = []
    for url in mirror.endpoint:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or "@" in parts.netloc:
            raise Invalid(f"registries.yaml: mirrors of {registry}: {url!r} is not http:// or https:// and a host")
        found.append(_endpoint(f"{parts.scheme}://{parts.netloc}", host, registries))
    if not any(each.is_own for each in found):
        found.append(_endpoint(f"{'http' if is_local(host) else 'https'}://{host}", host, registries))
    return tuple(found)


def _endpoint(url: str, host: str, registries: Registries) -> Endpoint:
    place = urlsplit(url).netloc
    tls = registries.configs.get(place, _Host()).tls
    return Endpoint(url=url, is_own=place == host, ca_file=tls.ca_file, verified=not tls.insecure_skip_verify)


def is_local(host: str) -> bool:
    """Whether nobody but this machine can listen in, as all who pull images see it."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
