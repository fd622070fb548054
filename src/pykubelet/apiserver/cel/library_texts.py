"""Functions on texts: searching, cutting, regular expressions, and `format`."""

import math
from collections.abc import Callable, Sequence
from typing import Final

from pykubelet.apiserver.cel.functions import by_size, function, member
from pykubelet.apiserver.cel.regex import BadPattern, compiled, matches
from pykubelet.apiserver.cel.values import (
    CelError,
    Duration,
    Timestamp,
    TypeValue,
    Value,
    double_text,
    size_of,
)

_MOST_DIGITS: Final = 100
_SUPERSCRIPT: Final = str.maketrans("0123456789-+", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺")


@member("string.contains(string): bool")
def _contains(text: str, part: str) -> bool:
    return part in text


member("string.startsWith(string): bool")(str.startswith)
member("string.endsWith(string): bool")(str.endswith)


# --- regular expressions


def _no_pattern(pattern: Value) -> str:
    try:
        compiled(pattern)
    except BadPattern as error:
        return f"invalid matches argument: {error}"
    return ""


def _no_find_pattern(pattern: Value) -> str:
    return _no_pattern(pattern).replace("invalid matches argument:", "program instantiation failed:")


def _matching(args: Sequence[Value]) -> int:
    return 1 + (len(args[0]) // 10 + 1) * (len(args[1]) // 4 + 1)


def _regex(pattern: str) -> Callable[[str], list[str]]:
    try:
        found = compiled(pattern)
    except BadPattern as error:
        raise CelError(str(error)) from None
    return lambda text: [each.group() for each in found.finditer(text)]


@function("matches(string, string): bool", cost=_matching, literal=_no_pattern)
@member("string.matches(string): bool", cost=_matching, literal=_no_pattern)
def _matches(text: str, pattern: str) -> bool:
    try:
        return matches(pattern, text)
    except BadPattern as error:
        raise CelError(str(error)) from None


@member("string.find(string): string", cost=_matching, literal=_no_find_pattern)
def _find(text: str, pattern: str) -> str:
    found = _regex(pattern)(text)
    return found[0] if found else ""


@member("string.findAll(string): list<string>", cost=_matching, literal=_no_find_pattern)
def _find_all(text: str, pattern: str) -> list[str]:
    return _regex(pattern)(text)


@member("string.findAll(string, int): list<string>", cost=_matching, literal=_no_find_pattern)
def _find_some(text: str, pattern: str, most: int) -> list[str]:
    found = _regex(pattern)(text)
    return found if most < 0 else found[:most]


# --- cutting and joining


def _checked(place: int, text: str) -> int:
    if not 0 <= place <= len(text):
        raise CelError(f"index out of range: {place}")
    return place


@member("string.charAt(int): string")
def _char_at(text: str, place: int) -> str:
    return text[_checked(place, text) : place + 1]


@member("string.indexOf(string): int", "string.indexOf(string, int): int")
def _index_of(text: str, part: str, start: int = 0) -> int:
    return text.find(part, _checked(start, text)) if part else start


@member("string.lastIndexOf(string): int")
def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part) if part else len(text)


@member("string.lastIndexOf(string, int): int")
def _last_index_before(text: str, part: str, start: int) -> int:
    return text.rfind(part, 0, _checked(start, text) + len(part)) if part else start


@member("string.substring(int): string")
def _substring(text: str, start: int) -> str:
    return text[_checked(start, text) :]


@member("string.substring(int, int): string")
def _part(text: str, start: int, end: int) -> str:
    if _checked(start, text) > _checked(end, text):
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


@member("string.trim(): string")
def _trim(text: str) -> str:
    return text.strip("\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
                      "\u2028\u2029\u202f\u205f\u3000")  # fmt: skip


@member("string.upperAscii(): string")
def _upper(text: str) -> str:
    return "".join(each.upper() if each.isascii() else each for each in text)


@member("string.lowerAscii(): string")
def _lower(text: str) -> str:
    return "".join(each.lower() if each.isascii() else each for each in text)


@member("string.reverse(): string")
def _reversed(text: str) -> str:
    return text[::-1]


def _replacing(args: Sequence[Value]) -> int:
    return by_size(args) + (len(args[0]) + 1) * len(args[2]) // 10


@member("string.replace(string, string): string", cost=_replacing)
@member("string.replace(string, string, int): string", cost=_replacing)
def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, most)


@member("string.split(string): list<string>", "string.split(string, int): list<string>")
def _split(text: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if separator:
        return text.split(separator, most - 1 if most > 0 else -1)
    return list(text) if most < 0 or most >= len(text) else [*text[: most - 1], text[most - 1 :]]


def _joining(args: Sequence[Value]) -> int:
    between = len(args[1]) // 10 + 1 if len(args) > 1 else 0
    return size_of(args[0]) + int(between * len(args[0]))


@member("list<string>.join(): string", "list<string>.join(string): string", cost=_joining)
def _join(texts: list[str], separator: str = "") -> str:
    return separator.join(texts)


@function("strings.quote(string): string")
def _quote(text: str) -> str:
    for plain, escaped in (
        ("\\", "\\\\"), ("\a", "\\a"), ("\b", "\\b"), ("\f", "\\f"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"),
        ("\v", "\\v"), ('"', '\\"'),
    ):  # fmt: skip
        text = text.replace(plain, escaped)
    return f'"{text}"'


# --- format


def _formatting(args: Sequence[Value]) -> int:
    return by_size(args) + int(args[0].count("%") + 1) * size_of(args[1])


@member("string.format(list<A>): string", cost=_formatting)
def _format(pattern: str, values: list[Value]) -> str:
    out: list[str] = []
    place = used = 0
    while True:
        found = pattern.find("%", place)
        if found < 0:
            return "".join((*out, pattern[place:]))
        out.append(pattern[place:found])
        place = found + 1
        digits = ""
        if pattern[place : place + 1] == ".":
            end = place + 1
            while pattern[end : end + 1].isdigit():
                end += 1
            digits, place = pattern[place + 1 : end], end
        verb = pattern[place : place + 1]
        place += 1
        if verb == "%":
            out.append("%")
            continue
        if used >= len(values):
            raise CelError(f"index {used} out of range")
        if len(digits) > 3 or int(digits or "0") > _MOST_DIGITS:
            raise CelError(f"a precision of more than {_MOST_DIGITS} digits is not supported")
        out.append(_formatted(verb, values[used], int(digits) if digits else 6))
        used += 1


def _formatted(verb: str, value: Value, digits: int) -> str:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if verb == "s":
        return _shown(value)
    if verb == "d" and is_whole:
        return str(int(value))
    if verb in "fe" and isinstance(value, float | int) and not isinstance(value, bool):
        if math.isnan(value) or math.isinf(value):
            return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
        return f"{value:.{digits}f}" if verb == "f" else _scientific(value, digits)
    if verb in "oxX" and is_whole:
        return f"{value:{verb}}"
    if verb == "b" and isinstance(value, int):
        return f"{int(value):b}"
    if verb in "xX" and isinstance(value, str | bytes):
        text = (value.encode() if isinstance(value, str) else value).hex()
        return text.upper() if verb == "X" else text
    if verb in "dfeoxXb" and verb:
        raise CelError(f"error during formatting: %{verb} cannot be used with such a value")
    raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


def _scientific(value: float, digits: int) -> str:
    mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
    sign = "⁻" if exponent[0] == "-" else ""
    return f"{mantissa}\u00d710{sign}{exponent[1:].translate(_SUPERSCRIPT)}"


def _shown(value: Value, *, is_inner: bool = False) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return f"{value:.6f}" if is_inner else double_text(value)
    if isinstance(value, list):
        return f"[{', '.join(_shown(each, is_inner=True) for each in value)}]"
    if isinstance(value, dict):
        inner = sorted((_shown(key), _shown(each, is_inner=True)) for key, each in value.items())
        return f"{{{', '.join(f'{key}: {each}' for key, each in inner)}}}"
    if isinstance(value, Timestamp | Duration) and is_inner:
        return f'{"timestamp" if isinstance(value, Timestamp) else "duration"}("{value}")'
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, int | Timestamp | Duration):
        return str(value)
    raise CelError("error during formatting: no formatting function for such a value")
