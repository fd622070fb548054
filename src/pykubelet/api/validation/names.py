"""The spelling rules of Kubernetes. Each function returns what is wrong with a text: one sentence for each fault.

Lengths count bytes of UTF-8, as the API does.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from typing import Final

Faults = Sequence[str]
Rule = Callable[[str], Faults]

LABEL_LENGTH: Final = 63
SUBDOMAIN_LENGTH: Final = 253
_LOOKED_AT: Final = 4096  # characters of what is too long anyway: a look at millions takes long
_LONGEST_ISCSI_NAME: Final = 4096  # far beyond the standard's 223: a bound for the search below
WHITESPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_LABEL_OR_SERVICE = "_?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_OLD_LABEL: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_DNS_LABEL: Final = re.compile(_LABEL)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_SEARCH_DOMAIN: Final = re.compile(rf"{_LABEL_OR_SERVICE}(?:\.{_LABEL_OR_SERVICE})*")
_QUALIFIED: Final = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_CONFIG_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_PORT_NAME: Final = re.compile(r"[-a-z0-9]+")
_HEADER: Final = re.compile(r"[-A-Za-z0-9]+")
_PRINTABLE_BUT_EQUALS: Final = re.compile(r"[ -<>-~]*")
_SYSCTL_PART = "[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = re.compile(rf"(?:{_SYSCTL_PART}[./])*{_SYSCTL_PART}")
_IQN: Final = re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[0-9A-Za-z.-]+:[^,;*&$|\t\n\f\r ]+\Z")
_EUI: Final = re.compile(r"eui.[0-9A-Za-z]{16}")
_NAA: Final = re.compile(r"naa.[0-9A-Za-z]{32}")
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9A-Fa-f])0+(?=[0-9A-Fa-f])")
_HOST_PORT: Final = re.compile(r"(?:[^\[\]:]*|\[[^\[\]]*\]):[^\[\]:]*")


def size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def dns_label(value: str) -> Faults:
    faults = _too_long(value, LABEL_LENGTH)
    if len(value) > _LOOKED_AT or _DNS_LABEL.fullmatch(value):
        return faults
    if _DNS_SUBDOMAIN.fullmatch(value):
        return [*faults, "must not contain dots: use '-' instead"]
    return [*faults, "must be lower case letters, digits and '-', with a letter or digit at both ends, such as my-name"]


def dns_1035_label(value: str) -> Faults:
    """Of what began as a name in the old sense: versions, resources."""
    if len(value) > LABEL_LENGTH or _OLD_LABEL.fullmatch(value):
        return _too_long(value, LABEL_LENGTH)
    return ["must be lower case letters, digits and '-', with a letter first and no '-' last, such as my-name"]


def dns_subdomain(value: str) -> Faults:
    faults = _too_long(value, SUBDOMAIN_LENGTH)
    if len(value) <= _LOOKED_AT and not _DNS_SUBDOMAIN.fullmatch(value):
        faults.append(
            "must be lower case letters, digits, '-' and '.', with a letter or digit at both ends, such as my.name"
        )
    return faults


def search_domain(value: str) -> Faults:
    """A DNS subdomain that may also have underscores, as service records do."""
    faults = _too_long(value, SUBDOMAIN_LENGTH)
    if len(value) <= _LOOKED_AT and not _SEARCH_DOMAIN.fullmatch(value):
        faults.append("must be lower case letters, digits, '-', '_' and '.', such as _tcp.example.com")
    return faults


def name_prefix(value: str) -> Faults:
    """A DNS subdomain to which something will be appended, so that it may end with a dash."""
    return dns_subdomain(value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value)


def qualified_name(value: str) -> Faults:
    """A label key and its like: a name, with an optional DNS subdomain and a slash before it."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return ["must have at most one '/', between a DNS subdomain and a name, such as example.com/my-name"]
    faults: list[str] = []
    if slash and not prefix:
        faults.append("must have a DNS subdomain before the '/', such as example.com/my-name")
    elif slash:
        faults.extend(f"has a wrong part before the '/': it {fault}" for fault in dns_subdomain(prefix))
    if not name:
        faults.append("must have a name, such as my-name or example.com/my-name")
    elif size(name) > LABEL_LENGTH:
        faults.append(f"must have a name of at most {LABEL_LENGTH} characters")
    if not _QUALIFIED.fullmatch(name):
        faults.append("must have a name of letters, digits, '-', '_' and '.', with a letter or digit at both ends")
    return faults


def label_value(value: str) -> Faults:
    faults = _too_long(value, LABEL_LENGTH)
    if value and not _QUALIFIED.fullmatch(value):
        faults.append("must be empty, or letters, digits, '-', '_' and '.', with a letter or digit at both ends")
    return faults


def env_name(value: str) -> Faults:
    return [] if _PRINTABLE_BUT_EQUALS.fullmatch(value) else ["must be printable ASCII characters other than '='"]


def config_key(value: str) -> Faults:
    faults = _too_long(value, SUBDOMAIN_LENGTH)
    if not _CONFIG_KEY.fullmatch(value):
        faults.append("must be letters, digits, '-', '_' and '.', such as app.conf")
    if value == "." or value.startswith(".."):
        faults.append("must not be '.', nor start with '..'")
    return faults


def port_name(value: str) -> Faults:
    faults = _too_long(value, 15)
    if not _PORT_NAME.fullmatch(value):
        faults.append("must be lower case letters, digits and '-'")
    if not re.search("[a-z]", value):
        faults.append("must have at least one letter")
    if "--" in value:
        faults.append("must not have two '-' in a row")
    if value.startswith("-") or value.endswith("-"):
        faults.append("must not start or end with '-'")
    return faults


def port_number(value: int) -> Faults:
    return between(value, 1, 65535)


def between(value: int, low: int, high: int) -> Faults:
    return [] if low <= value <= high else [f"must be between {low} and {high}"]


def user_or_group_id(value: int) -> Faults:
    return between(value, 0, 2**31 - 1)


def http_header(value: str) -> Faults:
    return [] if _HEADER.fullmatch(value) else ["must be letters, digits and '-', such as X-Header-Name"]


def sysctl(value: str) -> Faults:
    if size(value) <= SUBDOMAIN_LENGTH and _SYSCTL.fullmatch(value):
        return []
    return ["must be at most 253 lower case letters, digits, '-' and '_' in parts parted by '.' or '/'"]


def iscsi_name(value: str) -> Faults:
    shapes = {"iqn": _IQN.search, "eui": _EUI.fullmatch, "naa": _NAA.fullmatch}
    match = shapes.get(value[:3])
    if len(value) > _LONGEST_ISCSI_NAME:
        return [f"must be at most {_LONGEST_ISCSI_NAME} characters"]
    if match is None:
        return ["must start with iqn, eui or naa"]
    return [] if match(value) else ["must be an iSCSI name, such as iqn.2001-04.com.example:disk1"]


def ip_address(value: str) -> Faults:
    """Any IPv4 or IPv6 address without a zone. Leading zeros are decimal, as they always were for Kubernetes."""
    try:
        if "%" in value:
            raise ValueError
        ipaddress.ip_address(_LEADING_ZEROS.sub("", value))
    except ValueError:
        return ["must be an IP address, such as 10.9.8.7 or 2001:db8::ffff"]
    return []


def host_port(value: str) -> bool:
    return _HOST_PORT.fullmatch(value) is not None


def _too_long(value: str, limit: int) -> list[str]:
    return [f"must be at most {limit} characters"] if size(value) > limit else []
