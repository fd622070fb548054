"""Exact resource quantities: `250m`, `1Gi`, `1e3`, `0.5`.

A quantity is a whole number of billionths, which is as fine as Kubernetes goes; anything finer is rounded up when read,
so that asking for a little never becomes asking for nothing. Python's integers make the arithmetic exact at any size.
"""

import functools
import re
from collections.abc import Mapping
from typing import Final, Literal, Self

Format = Literal["DecimalSI", "DecimalExponent", "BinarySI"]

_BILLION: Final = 10**9
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {0: ""} | {exponent // 10: suffix for suffix, exponent in _BINARY.items()}
_SYNTAX: Final = re.compile(
    r"([+-]?)0*([0-9]*)(?:(\.)([0-9]*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,6}))?", re.ASCII
)
_MAX_INT64: Final = 2**63 - 1
_LONGEST: Final = 1000  # characters and powers of ten: beyond any use, short of harm


class Quantity:
    """An immutable amount. Equal amounts are equal whatever their spelling: `1` == `1000m`."""

    __slots__ = ("_format", "_nanos", "_text")

    def __init__(self, nanos: int, format: Format = "DecimalSI", text: str = "") -> None:
        self._nanos = nanos
        self._format: Format = format
        self._text = text

    @classmethod
    def of(cls, whole: int, format: Format = "DecimalSI") -> Self:
        return cls(whole * _BILLION, format)

    @property
    def nanos(self) -> int:
        return self._nanos

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _round_up(self._nanos, _BILLION)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero."""
        return _round_up(self._nanos, 10**6)

    @property
    def sign(self) -> int:
        return (self._nanos > 0) - (self._nanos < 0)

    def rounded_to_milli(self) -> "Quantity":
        """The same amount without anything finer than a thousandth, rounded up."""
        return self if self._nanos % 10**6 == 0 else Quantity(self.milli * 10**6, self._format)

    def __str__(self) -> str:
        if not self._text:
            self._text = _canonical(self._nanos, self._format)
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __bool__(self) -> bool:
        return self._nanos != 0

    def __hash__(self) -> int:
        return hash(self._nanos)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self._nanos == other._nanos

    def __lt__(self, other: "Quantity") -> bool:
        return self._nanos < other._nanos

    def __le__(self, other: "Quantity") -> bool:
        return self._nanos <= other._nanos

    def __gt__(self, other: "Quantity") -> bool:
        return self._nanos > other._nanos

    def __ge__(self, other: "Quantity") -> bool:
        return self._nanos >= other._nanos

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self._nanos + other._nanos, self._format if self else other._format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self._nanos - other._nanos, self._format if self else other._format)

    def __mul__(self, times: int) -> "Quantity":
        return Quantity(self._nanos * times, self._format)

    def __neg__(self) -> "Quantity":
        return Quantity(-self._nanos, self._format)


ResourceList = Mapping[str, Quantity]


@functools.lru_cache(maxsize=4096)  # a node's pods repeat a few spellings thousands of times
def parse(text: str) -> Quantity:
    """Read a quantity. Raises ValueError with a sentence for the person who wrote it."""
    match = _SYNTAX.fullmatch(text) if len(text) <= _LONGEST else None  # a long text could keep the pattern busy
    if match is None or not text or text in ("+", "-"):
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise ValueError(
            f"{shown!r} is not a quantity: write a number with an optional suffix, such as 250m, 1.5, 512Mi or 1e3"
        )
    sign, digits, _, fraction, suffix, exponent = match.groups()
    digits, fraction = digits or "0", fraction or ""
    if suffix in _BINARY:
        return _parse_binary(text, -1 if sign == "-" else 1, digits, fraction, _BINARY[suffix])
    format: Format = "DecimalSI" if exponent is None else "DecimalExponent"
    power = _DECIMAL[suffix or ""] if exponent is None else int(exponent)
    if power > _LONGEST:
        raise ValueError(f"{text!r} is too large for a quantity")
    mantissa = int(digits + fraction)
    scale = power - len(fraction)
    nanos = mantissa * 10 ** (scale + 9) if scale >= -9 else _divide_up(mantissa, -9 - scale)
    exact = len(digits) + len(fraction) <= 18 and scale >= -9
    spelled = digits + fraction
    canonical = exact and scale % 3 == 0 and not spelled.endswith("000") and spelled[0] != "0"
    return Quantity(-nanos if sign == "-" else nanos, format, text if canonical else "")


def _parse_binary(text: str, sign: int, digits: str, fraction: str, power: int) -> Quantity:
    nanos = _divide_up(int(digits + fraction) << power, len(fraction) - 9)
    short = not fraction and 14 - len(digits) - power * 3 // 10 >= 0
    if short:
        return Quantity(sign * nanos, "BinarySI", text if int(digits) & 7 else "")
    nanos = min(nanos, _MAX_INT64 * _BILLION)  # as Kubernetes caps them
    return Quantity(sign * nanos, "DecimalSI" if 0 < nanos < _BILLION else "BinarySI")


def _divide_up(number: int, power: int) -> int:
    """number / 10**power, rounded up; what is too small to see counts as one."""
    if power <= 0:
        return number * int(10 ** (-power))
    if power > 2 * _LONGEST:
        return 1 if number else 0
    return -(-number // int(10**power))


def _round_up(nanos: int, unit: int) -> int:
    return -(-nanos // unit) if nanos >= 0 else nanos // unit


def _canonical(nanos: int, format: Format) -> str:
    if nanos == 0:
        return "0"
    if format == "BinarySI" and abs(nanos) >= 1024 * _BILLION and nanos % _BILLION == 0:
        amount, thousands = nanos // _BILLION, 0
        while thousands < 6 and abs(amount) >= 1024 and amount % 1024 == 0:
            amount, thousands = amount // 1024, thousands + 1
        return f"{amount}{_BINARY_SUFFIX[thousands]}"
    amount, exponent = nanos, -9
    while amount % 1000 == 0 and (format == "DecimalExponent" or exponent < 18):
        amount, exponent = amount // 1000, exponent + 3
    if format == "DecimalExponent":
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_DECIMAL_SUFFIX[exponent]}"
