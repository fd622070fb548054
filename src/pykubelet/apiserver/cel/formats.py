"""The formats of texts that a schema may ask for, and expressions too: whether a text is of one."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final

from pykubelet.apiserver.cel.values import parse_duration, parse_timestamp

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*", re.ASCII)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_HOSTNAME: Final = re.compile(
    r"([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(\.([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?))*\.?"
)
_MAC: Final = re.compile(
    r"([0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){7}|[0-9A-Fa-f]{4}(\.[0-9A-Fa-f]{4}){2,3})"
)
_WHOLE: Final = {
    "uuid": r"[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}",
    "uuid3": r"[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?3[0-9A-Fa-f]{3}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}",
    "uuid4": r"[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?4[0-9A-Fa-f]{3}-?[89abAB][0-9A-Fa-f]{3}-?[0-9A-Fa-f]{12}",
    "uuid5": r"[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?5[0-9A-Fa-f]{3}-?[89abAB][0-9A-Fa-f]{3}-?[0-9A-Fa-f]{12}",
    "bsonobjectid": r"[0-9A-Fa-f]{24}",
    "hexcolor": r"#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})",
    "creditcard": r"[0-9]{13,19}",
    "ssn": r"\d{3}[- ]?\d{2}[- ]?\d{4}",
    "k8s-short-name": r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
    "k8s-long-name": r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
}
_COLOUR: Final = re.compile(r"rgb\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)", re.ASCII)
_LONGEST: Final = 2048
"""Characters of a text of which a format is asked that is not read from end to end in one go."""


class BadUrl(ValueError):
    """The message says what is wrong with it."""


def check_url(text: str) -> None:
    """That it is an address or an absolute path, by Go's rules for requests. Raises BadUrl."""

    def fault(why: str) -> BadUrl:
        return BadUrl(f'parse "{text[:200]}": {why}')

    if not text:
        raise BadUrl('parse "": empty url')
    if any(each < " " or each == "\x7f" for each in text):
        raise fault("net/url: invalid control character in URL")
    scheme, colon, rest = text.partition(":")
    if text[0] == ":":
        raise fault("missing protocol scheme")
    if not colon or not _SCHEME.fullmatch(scheme):
        if text[0] != "/":
            raise fault(
                "invalid URI for request"
                if not colon or "/" in scheme
                else "first path segment in URL cannot contain colon"
            )
        rest, scheme = text, ""
    elif not rest.startswith("/"):
        return
    path = rest
    if rest.startswith("//") and scheme:
        host, slash, path = rest[2:].partition("/")
        _check_host(host.partition("?")[0], fault)
        path = slash + path
    if _BAD_ESCAPE.search(path.partition("?")[0]):
        raise fault("invalid URL escape")


def _check_host(place: str, fault: Callable[[str], BadUrl]) -> None:
    host = place.rpartition("@")[2]
    if host.startswith("["):
        inner, bracket, port = host[1:].partition("]")
        if not bracket:
            raise fault("missing ']' in host")
    else:
        inner, colon, port = host.partition(":")
        port = colon + port
        if any(each in ' <>"{}|\\^`' for each in inner):
            raise fault(f'invalid character "{next(each for each in inner if each in _BAD_HOST)}" in host name')
    if port and not re.fullmatch(r":\d*", port, re.ASCII):
        raise fault(f'invalid port "{port}" after host')


_BAD_HOST: Final = ' <>"{}|\\^`'


def is_url(text: str) -> bool:
    try:
        check_url(text)
    except BadUrl:
        return False
    return True


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _holds(read: Callable[[str], object]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return holds


def _cidr(text: str) -> None:
    if "/" not in text or not text.rpartition("/")[2].isdecimal():
        raise ValueError
    ipaddress.ip_interface(text)


def _is_email(text: str) -> bool:
    name, at, domain = text.rpartition("@")
    if name.endswith('"') or "<" in text:
        return bool(at)
    return bool(at) and bool(name) and " " not in name and bool(_HOSTNAME.fullmatch(domain))


def _is_hostname(text: str) -> bool:
    return len(text) <= 255 and bool(_HOSTNAME.fullmatch(text))


def _is_isbn(text: str, lengths: tuple[int, ...] = (10, 13)) -> bool:
    digits = text.replace("-", "").replace(" ", "")
    if len(digits) not in lengths or not digits[:-1].isdecimal():
        return False
    if len(digits) == 13:
        return digits.isdecimal() and sum(int(each) * (1, 3)[place % 2] for place, each in enumerate(digits)) % 10 == 0
    last = 10 if digits[-1] in "xX" else int(digits[-1]) if digits[-1].isdecimal() else -1
    return last >= 0 and (sum(int(each) * (place + 1) for place, each in enumerate(digits[:9])) + 10 * last) % 11 == 0


def _is_colour(text: str) -> bool:
    found = _COLOUR.fullmatch(text)
    return found is not None and all(int(each) < 256 for each in found.groups())


def _is_strong(text: str) -> bool:
    return True


def _is_duration(text: str) -> bool:
    """Go's, or a number with a word: 3 weeks."""
    if re.fullmatch(r"\s*\d{1,18}(\.\d+)?\s*(nanoseconds?|microseconds?|milliseconds?|seconds?|secs?|minutes?|mins?"
                    r"|hours?|hrs?|days?|weeks?|wks?|[hdw])\s*", text, re.ASCII):  # fmt: skip
        return True
    return _holds(parse_duration)(text)


def _made(pattern: str) -> Callable[[str], bool]:
    found = re.compile(pattern, re.ASCII)
    return lambda text: len(text) <= _LONGEST and found.fullmatch(text) is not None


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    **{name: _made(pattern) for name, pattern in _WHOLE.items()},
    "byte": _is_base64,
    "cidr": _holds(_cidr),
    "date": _is_date,
    "datetime": _holds(parse_timestamp),
    "date-time": _holds(parse_timestamp),
    "duration": _is_duration,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _holds(ipaddress.IPv4Address),
    "ipv6": _holds(ipaddress.IPv6Address),
    "isbn": _is_isbn,
    "isbn10": lambda text: _is_isbn(text, (10,)),
    "isbn13": lambda text: _is_isbn(text, (13,)),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "password": _is_strong,
    "rgbcolor": _is_colour,
    "uri": is_url,
}
"""By the names that a CustomResourceDefinition may use; any other format is a word to readers and checks nothing."""
