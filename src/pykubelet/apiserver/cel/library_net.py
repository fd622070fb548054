"""Addresses, networks and URLs in expressions."""

import ipaddress
from typing import ClassVar, Final
from urllib.parse import parse_qs, quote, urlsplit

import msgspec

from pykubelet.apiserver.cel.formats import BadUrl, check_url, is_url
from pykubelet.apiserver.cel.functions import function, member, reads
from pykubelet.apiserver.cel.values import CelError

_LONGEST_QUERY: Final = 1000


class Ip(msgspec.Struct, frozen=True):
    cel_name: ClassVar[str] = "net.IP"
    address: ipaddress.IPv4Address | ipaddress.IPv6Address


class Cidr(msgspec.Struct, frozen=True):
    cel_name: ClassVar[str] = "net.CIDR"
    interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _ip(text: str) -> Ip:
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise CelError(f'IP Address "{text}" parse error during conversion from string: {error}') from None
    if "%" in text:
        raise CelError(f'IP address "{text}" with zone value is not allowed')
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return Ip(address)


def _cidr(text: str) -> Cidr:
    address, slash, bits = text.partition("/")
    try:
        if not slash or not bits.isdecimal() or (bits[0] == "0" and bits != "0"):
            raise ValueError("it has no length of its prefix")
        interface = ipaddress.ip_interface(text)
    except ValueError as error:
        raise CelError(f'network address parse error during conversion from string: "{text}": {error}') from None
    _ip(address)
    return Cidr(interface)


function("ip(string): net.IP")(_ip)
function("cidr(string): net.CIDR")(_cidr)


function("isIP(string): bool")(reads(_ip))
function("isCIDR(string): bool")(reads(_cidr))


@function("ip.isCanonical(string): bool")
def _is_canonical(text: str) -> bool:
    return str(_ip(text).address) == text


@function("string(net.IP): string")
def _ip_text(of: Ip) -> str:
    return str(of.address)


@function("string(net.CIDR): string")
def _cidr_text(of: Cidr) -> str:
    return str(of.interface)


@member("net.IP.family(): int")
def _family(of: Ip) -> int:
    return of.address.version


@member("net.IP.isUnspecified(): bool")
def _is_unspecified(of: Ip) -> bool:
    return of.address.is_unspecified


@member("net.IP.isLoopback(): bool")
def _is_loopback(of: Ip) -> bool:
    return of.address.is_loopback


@member("net.IP.isLinkLocalMulticast(): bool")
def _is_local_multicast(of: Ip) -> bool:
    network = "224.0.0.0/24" if of.address.version == 4 else "ff02::/16"
    return of.address in ipaddress.ip_network(network)


@member("net.IP.isLinkLocalUnicast(): bool")
def _is_local_unicast(of: Ip) -> bool:
    return of.address.is_link_local


@member("net.IP.isGlobalUnicast(): bool")
def _is_global(of: Ip) -> bool:
    address = of.address
    is_all = address.version == 4 and int(address) == 2**32 - 1
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local or is_all
    )


@member("net.CIDR.containsIP(net.IP): bool")
def _contains_ip(of: Cidr, address: Ip) -> bool:
    return address.address in of.interface.network


@member("net.CIDR.containsIP(string): bool")
def _contains_ip_text(of: Cidr, text: str) -> bool:
    return _contains_ip(of, _ip(text))


@member("net.CIDR.containsCIDR(net.CIDR): bool")
def _contains_cidr(of: Cidr, other: Cidr) -> bool:
    outer, inner = of.interface.network, other.interface.network
    return outer.version == inner.version and inner.prefixlen >= outer.prefixlen and other.interface.ip in outer


@member("net.CIDR.containsCIDR(string): bool")
def _contains_cidr_text(of: Cidr, text: str) -> bool:
    return _contains_cidr(of, _cidr(text))


@member("net.CIDR.ip(): net.IP")
def _cidr_ip(of: Cidr) -> Ip:
    return Ip(of.interface.ip)


@member("net.CIDR.prefixLength(): int")
def _prefix_length(of: Cidr) -> int:
    return of.interface.network.prefixlen


@member("net.CIDR.masked(): net.CIDR")
def _masked(of: Cidr) -> Cidr:
    network = of.interface.network
    return Cidr(ipaddress.ip_interface(f"{network.network_address}/{network.prefixlen}"))


# --- URLs


class Url(msgspec.Struct, frozen=True):
    cel_name: ClassVar[str] = "kubernetes.URL"
    text: str


@function("url(string): kubernetes.URL")
def _url(text: str) -> Url:
    try:
        check_url(text)
    except BadUrl as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None
    return Url(text)


function("isURL(string): bool")(is_url)


@member("kubernetes.URL.getScheme(): string")
def _scheme(of: Url) -> str:
    return urlsplit(of.text).scheme


@member("kubernetes.URL.getHost(): string")
def _host(of: Url) -> str:
    return urlsplit(of.text).netloc.rpartition("@")[2]


@member("kubernetes.URL.getHostname(): string")
def _hostname(of: Url) -> str:
    host = _host(of)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


@member("kubernetes.URL.getPort(): string")
def _port(of: Url) -> str:
    return _host(of).rpartition("]")[2].partition(":")[2]


@member("kubernetes.URL.getEscapedPath(): string")
def _escaped_path(of: Url) -> str:
    return quote(urlsplit(of.text).path, safe="/%$&+,:;=@!~*'()-._[]")


@member("kubernetes.URL.getQuery(): map<string, list<string>>")
def _query(of: Url) -> dict[str, list[str]]:
    try:
        return parse_qs(urlsplit(of.text).query, keep_blank_values=True, max_num_fields=_LONGEST_QUERY)
    except ValueError as error:
        raise CelError(str(error)) from None
