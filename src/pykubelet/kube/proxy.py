"""Which proxy a request goes through: the kubeconfig's, or else the environment's, read as Go programs read it."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from pykubelet.kube.errors import KubeconfigError

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Proxy:
    url: URL
    authorization: str = field(default="", repr=False)


def chosen_proxy(server: URL, proxy_url: str, environ: Mapping[str, str], origin: str) -> Proxy | None:
    """A proxy-url always counts; the environment's proxy not for loopback addresses nor for what NO_PROXY lists."""
    if proxy_url:
        return _parsed(proxy_url, f"{origin}: proxy-url")
    name = f"{server.scheme}_proxy"
    text = environ.get(name.upper()) or environ.get(name) or ""
    if not text or _is_exempt(server, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return _parsed(text if "://" in text else f"http://{text}", name.upper())


def _parsed(text: str, where: str) -> Proxy:
    try:
        url = URL(text)
    except ValueError:
        raise KubeconfigError(f"{where} is not a URL") from None
    if url.scheme not in _PORTS or not url.host:
        raise KubeconfigError(
            f"{where} has to be http://HOST:PORT or https://HOST:PORT; other kinds of proxy are not supported"
        )
    if url.user is None and url.password is None:
        return Proxy(url)
    authorization = aiohttp.encode_basic_auth(url.user or "", url.password or "")
    return Proxy(url.with_user(None), authorization)


def _is_exempt(server: URL, no_proxy: str) -> bool:
    host, port = (server.host or "").lower().rstrip("."), server.port
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_covers(entry.strip().lower(), host, port, address) for entry in no_proxy.split(","))


def _covers(
    entry: str, host: str, port: int | None, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None
) -> bool:
    if entry in ("", "*"):
        return entry == "*"
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, entry_port = entry.rpartition(":")
    if colon and entry_port.isdecimal() and (name.endswith("]") or ":" not in name):
        if int(entry_port) != port:
            return False
        entry = name
    entry = entry.strip("[]")
    if address is not None:
        return entry == str(address)
    if entry.startswith(("*.", ".")):
        return host.endswith(entry.removeprefix("*"))
    return host == entry or host.endswith(f".{entry}")
