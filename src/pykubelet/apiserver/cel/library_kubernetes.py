"""The types that Kubernetes adds to the language: quantities, versions and named formats."""

import re
from collections.abc import Callable
from functools import total_ordering
from typing import ClassVar, Final

import msgspec

from pykubelet.api.quantity import Quantity
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.validation import names
from pykubelet.apiserver.cel.formats import FORMATS, BadUrl, check_url
from pykubelet.apiserver.cel.functions import function, member, reads
from pykubelet.apiserver.cel.values import INT_MAX, INT_MIN, NANOS, NONE, CelError, Optional

_SEMVER: Final = re.compile(
    r"(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
_DNS1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


# --- quantities


class Amount(msgspec.Struct, frozen=True):
    """A quantity; its amount is all that counts."""

    cel_name: ClassVar[str] = "kubernetes.Quantity"
    nanos: int


def _amount(text: str) -> Amount:
    return Amount(parse_quantity(text).nanos)


@function("quantity(string): kubernetes.Quantity")
def read_amount(text: str) -> Amount:
    try:
        return _amount(text)
    except ValueError as error:
        raise CelError(str(error)) from None


@function("isQuantity(string): bool")
def _is_quantity(text: str) -> bool:
    try:
        _amount(text)
    except ValueError:
        return False
    return True


@function("sign(kubernetes.Quantity): int")
@member("kubernetes.Quantity.sign(): int")
def _sign(of: Amount) -> int:
    return (of.nanos > 0) - (of.nanos < 0)


@member("kubernetes.Quantity.isGreaterThan(kubernetes.Quantity): bool")
def _is_greater(one: Amount, other: Amount) -> bool:
    return one.nanos > other.nanos


@member("kubernetes.Quantity.isLessThan(kubernetes.Quantity): bool")
def _is_less(one: Amount, other: Amount) -> bool:
    return one.nanos < other.nanos


@member("kubernetes.Quantity.compareTo(kubernetes.Quantity): int")
def _compared(one: Amount, other: Amount) -> int:
    return (one.nanos > other.nanos) - (one.nanos < other.nanos)


@member("kubernetes.Quantity.asApproximateFloat(): double")
def _as_float(of: Amount) -> float:
    return of.nanos / NANOS


@member("kubernetes.Quantity.isInteger(): bool")
def _is_integer(of: Amount) -> bool:
    return of.nanos % NANOS == 0 and INT_MIN <= of.nanos // NANOS <= INT_MAX


@member("kubernetes.Quantity.asInteger(): int")
def _as_integer(of: Amount) -> int:
    if not _is_integer(of):
        raise CelError("cannot convert value to integer")
    return of.nanos // NANOS


@member("kubernetes.Quantity.add(kubernetes.Quantity): kubernetes.Quantity")
def _add(one: Amount, other: Amount) -> Amount:
    return Amount(one.nanos + other.nanos)


@member("kubernetes.Quantity.add(int): kubernetes.Quantity")
def _add_whole(one: Amount, other: int) -> Amount:
    return Amount(one.nanos + other * NANOS)


@member("kubernetes.Quantity.sub(kubernetes.Quantity): kubernetes.Quantity")
def _sub(one: Amount, other: Amount) -> Amount:
    return Amount(one.nanos - other.nanos)


@member("kubernetes.Quantity.sub(int): kubernetes.Quantity")
def _sub_whole(one: Amount, other: int) -> Amount:
    return Amount(one.nanos - other * NANOS)


@function("string(kubernetes.Quantity): string")
def _quantity_text(of: Amount) -> str:
    return str(Quantity(of.nanos))


# --- versions


@total_ordering
class Semver(msgspec.Struct, frozen=True):
    cel_name: ClassVar[str] = "kubernetes.Semver"
    major: int
    minor: int
    patch: int
    pre: tuple[tuple[int, int, str], ...] = ()

    @property
    def rank(self) -> tuple[object, ...]:
        return self.major, self.minor, self.patch, not self.pre, self.pre

    def __lt__(self, other: "Semver") -> bool:
        return self.rank < other.rank


def read_semver(text: str) -> Semver:
    found = _SEMVER.fullmatch(text) if len(text) <= 256 else None
    if found is None:
        raise CelError(f'"{text[:100]}" is not a semantic version')
    pre = tuple(
        (0, int(each), "") if each.isdecimal() else (1, 0, each) for each in (found[4] or "").split(".") if each
    )
    return Semver(int(found[1]), int(found[2]), int(found[3]), pre)


def _lenient(text: str) -> Semver:
    """`v1` is 1.0.0, and `01.2` is 1.2.0."""
    core = re.match(r"v?([0-9.]*)", text)
    numbers = (core[1] if core else "").split(".")
    rest = text[core.end() :] if core else text
    whole = [each.lstrip("0") or "0" for each in numbers] + ["0"] * (3 - len(numbers))
    return read_semver(".".join(whole) + rest)


function("semver(string): kubernetes.Semver")(read_semver)
function("isSemver(string): bool")(reads(read_semver))


@function("semver(string, bool): kubernetes.Semver")
def _semver_of(text: str, is_lenient: bool) -> Semver:
    return _lenient(text) if is_lenient else read_semver(text)


@function("isSemver(string, bool): bool")
def _is_semver(text: str, is_lenient: bool) -> bool:
    return reads(_lenient if is_lenient else read_semver)(text)


@member("kubernetes.Semver.isGreaterThan(kubernetes.Semver): bool")
def _is_newer(one: Semver, other: Semver) -> bool:
    return one > other


@member("kubernetes.Semver.isLessThan(kubernetes.Semver): bool")
def _is_older(one: Semver, other: Semver) -> bool:
    return one < other


@member("kubernetes.Semver.compareTo(kubernetes.Semver): int")
def _version_order(one: Semver, other: Semver) -> int:
    return (one > other) - (one < other)


@member("kubernetes.Semver.major(): int")
def _major(of: Semver) -> int:
    return of.major


@member("kubernetes.Semver.minor(): int")
def _minor(of: Semver) -> int:
    return of.minor


@member("kubernetes.Semver.patch(): int")
def _patch(of: Semver) -> int:
    return of.patch


# --- named formats


class Format(msgspec.Struct, frozen=True):
    cel_name: ClassVar[str] = "kubernetes.NamedFormat"
    name: str


def _dns1035(text: str) -> list[str]:
    if len(text) > 63:
        return ["must be no more than 63 characters"]
    if _DNS1035.fullmatch(text):
        return []
    return [
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation "
        "is '[a-z]([-a-z0-9]*[a-z0-9])?')"
    ]


def _prefix(faults: Callable[[str], object]) -> Callable[[str], list[str]]:
    def of_prefix(text: str) -> list[str]:
        found = faults(text[:-1] + "a" if text.endswith("-") else text)
        return [str(each) for each in found]  # type: ignore[attr-defined]

    return of_prefix


def _is(name: str, fault: str) -> Callable[[str], list[str]]:
    return lambda text: [] if FORMATS[name](text) else [fault]


def _no_uri(text: str) -> list[str]:
    try:
        check_url(text)
    except BadUrl as error:
        return [str(error)]
    return []


_FORMATS: Final[dict[str, Callable[[str], list[str]]]] = {
    "dns1123Label": lambda text: list(names.dns_label(text)),
    "dns1123Subdomain": lambda text: list(names.dns_subdomain(text)),
    "dns1035Label": _dns1035,
    "qualifiedName": lambda text: list(names.qualified_name(text)),
    "dns1123LabelPrefix": _prefix(names.dns_label),
    "dns1123SubdomainPrefix": _prefix(names.dns_subdomain),
    "dns1035LabelPrefix": _prefix(_dns1035),
    "labelValue": lambda text: list(names.label_value(text)),
    "uri": _no_uri,
    "uuid": _is("uuid", "does not match the UUID format"),
    "byte": _is("byte", "invalid base64"),
    "date": _is("date", "invalid date"),
    "datetime": _is("datetime", "invalid datetime"),
}


def _enter_format(name: str) -> None:
    @function(f"format.{name}(): kubernetes.NamedFormat")
    def _() -> Format:
        return Format(name)


for _name in _FORMATS:
    _enter_format(_name)


@function("format.named(string): optional_type<kubernetes.NamedFormat>")
def _named(name: str) -> Optional:
    return Optional(Format(name)) if name in _FORMATS else NONE


@member("kubernetes.NamedFormat.validate(string): optional_type<list<string>>")
def _validate(of: Format, text: str) -> Optional:
    faults = _FORMATS[of.name](text)
    return Optional(faults) if faults else NONE
