"""A command line as Go's kubelets take it: `--name=value`, `--name value`, truth values that may stand alone, dashes or
underscores. Decides which text belongs to which flag, and what is no flag at all."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pykubelet.base.errors import Invalid

_SHORT: Final = {"v": "v", "h": "help"}


class Given(NamedTuple):
    flag: str
    text: str


def parse(arguments: Sequence[str], alone: Mapping[str, str]) -> tuple[Given, ...]:
    """What was given, in its order. `alone` has every flag, and what it means without a value; empty for one that needs
    one. Raises Invalid."""
    return tuple(_parse(iter(arguments), alone))


def _parse(rest: Iterator[str], alone: Mapping[str, str]) -> Iterator[Given]:
    for argument in rest:
        if argument == "--":
            argument = next(rest, "")
            if not argument:
                return
            raise Invalid(f"unknown command {argument}")
        if argument.startswith("--"):
            yield _long(argument, rest, alone)
        elif argument.startswith("-") and argument != "-":
            yield from _short(argument, rest, alone)
        else:
            raise Invalid(f"unknown command {argument}")


def _long(argument: str, rest: Iterator[str], alone: Mapping[str, str]) -> Given:
    written, equals, text = argument[2:].partition("=")
    if not written or written[0] == "-":
        raise Invalid(f"bad flag syntax: {argument}")
    name = written.replace("_", "-")
    if name not in alone:
        raise Invalid(f"unknown flag: --{written}{_hint(name, alone)}")
    return Given(name, text if equals else _value(name, f"--{written}", rest, alone))


def _short(argument: str, rest: Iterator[str], alone: Mapping[str, str]) -> Iterator[Given]:
    """`-v4`, `-v=4`, `-v 4`, and letters together."""
    letters = argument[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter not in _SHORT:
            hint = _hint(argument[1:].partition("=")[0].replace("_", "-"), alone)
            raise Invalid(f"unknown shorthand flag: {letter!r} in {argument}{hint}")
        name = _SHORT[letter]
        if letters.startswith("="):
            text, letters = letters[1:], ""
        elif letters and not alone[name]:
            text, letters = letters, ""
        else:
            text = _value(name, f"-{letter}", rest, alone)
        yield Given(name, text)


def _hint(name: str, alone: Mapping[str, str]) -> str:
    from difflib import get_close_matches  # most flags are written well

    near = get_close_matches(name, alone, 1)
    return f"; did you mean --{near[0]}?" if near else ""


def _value(name: str, written: str, rest: Iterator[str], alone: Mapping[str, str]) -> str:
    if alone[name]:
        return alone[name]
    text = next(rest, None)
    if text is None:
        raise Invalid(f"flag needs an argument: {written}")
    return text
