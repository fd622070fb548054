"""A quantity as Kubernetes holds it in memory: not only how much it is, but also how it was spelled and summed up.

The identity of a static pod is a hash over what is held, so that equal amounts which are held differently matter here.
"""

import re
from typing import Final, Self

from pykubelet.api.quantity import Format, Quantity

_PARTS: Final = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?(.*)", re.ASCII | re.DOTALL)
_POWERS_OF_TEN: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_POWERS_OF_TWO: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MOST_DIGITS: Final = 18
_NANO: Final = -9
_MILLI: Final = -3
_MAX: Final = 2**63 - 1


class HeldQuantity(Quantity):
    """`number` times ten to the power of `scale`: in a machine word, or, when `is_long`, in a number of any length."""

    __slots__ = ("is_long", "number", "scale", "spelled")

    def __init__(self, number: int, scale: int, format: Format, *, is_long: bool = False, spelled: str = "") -> None:
        super().__init__(_rescaled(number, scale, _NANO), format)
        self.number = number
        self.scale = scale
        self.is_long = is_long
        self.spelled = spelled
        """The text that it came from, where that is its canonical one."""

    def __add__(self, other: Quantity) -> Self:
        assert isinstance(other, HeldQuantity)
        scale = min(each.scale for each in (self, other) if each or each is self)
        number = _rescaled(self.number, self.scale, scale) + _rescaled(other.number, other.scale, scale)
        format = self._format if self else other._format
        return type(self)(number, scale, format, is_long=self.is_long or other.is_long or abs(number) > _MAX)

    def rounded_to_milli(self) -> Self:
        if not self.is_long and self.scale >= _MILLI:
            return self
        return type(self)(_rescaled(self.number, self.scale, _MILLI), _MILLI, self._format, is_long=self.is_long)

    def dump(self) -> str:
        word = (0, 0) if self.is_long else (self.number, self.scale)
        return (
            f"{{i:(resource.int64Amount){{value:(int64){word[0]} scale:(resource.Scale){word[1]}}}"
            f" d:(resource.infDecAmount){{Dec:(*inf.Dec){self._long() if self.is_long else '<nil>'}}}"
            f" s:(string){self.spelled} Format:(resource.Format){self._format}}}"
        )

    def _long(self) -> str:
        rest, words = abs(self.number), []
        while rest:
            words.append(str(rest & (1 << 64) - 1))
            rest >>= 64
        sign = str(self.number < 0).lower()
        unscaled = f"(big.Int){{neg:(bool){sign} abs:(big.nat)[{' '.join(words)}]}}"
        return f"{{unscaled:{unscaled} scale:(inf.Scale){-self.scale}}}"


def held_quantity(text: str) -> HeldQuantity:
    """The quantity that a valid text stands for."""
    text = text.strip()
    if text == "0":
        return HeldQuantity(0, 0, "DecimalSI", spelled=text)
    match = _PARTS.fullmatch(text)
    assert match is not None
    sign, digits, fraction, suffix = match[1], match[2] or "0", match[3] or "", match[4]
    factor = -1 if sign == "-" else 1
    if suffix in _POWERS_OF_TWO:
        return _binary(text, factor, digits, fraction, _POWERS_OF_TWO[suffix])
    format: Format = "DecimalSI" if suffix in _POWERS_OF_TEN else "DecimalExponent"
    power = _POWERS_OF_TEN[suffix] if suffix in _POWERS_OF_TEN else int(suffix[1:])
    spelled, scale = digits + fraction, power - len(fraction)
    if len(spelled) <= _MOST_DIGITS and scale >= _NANO:
        canonical = scale % 3 == 0 and not spelled.endswith("000") and spelled[0] != "0"
        return HeldQuantity(factor * int(spelled), scale, format, spelled=text if canonical else "")
    number = int(spelled)
    return _long(factor, _rescaled(number, scale, _NANO) if number else 0, _NANO if number else scale, format)


def _binary(text: str, factor: int, digits: str, fraction: str, power: int) -> HeldQuantity:
    number = int(digits + fraction)
    if not fraction and 14 - len(digits) - power * 3 // 10 >= 0:
        return HeldQuantity(factor * (number << power), 0, "BinarySI", spelled=text if number & 7 else "")
    nanos = _rescaled(number << power, -len(fraction), _NANO)
    if nanos > _MAX * 10**9:
        return _long(factor, _MAX, 0, "BinarySI")
    return _long(factor, nanos, _NANO, "DecimalSI" if 0 < nanos < 10**9 else "BinarySI")


def _long(factor: int, number: int, scale: int, format: Format) -> HeldQuantity:
    return HeldQuantity(factor * number, scale, format, is_long=True)


def _rescaled(number: int, scale: int, wanted: int) -> int:
    """The same amount in units of another scale, rounded away from zero."""
    if scale >= wanted:
        return number * int(10 ** (scale - wanted))
    unit = int(10 ** (wanted - scale))
    return -(-number // unit) if number >= 0 else number // unit
