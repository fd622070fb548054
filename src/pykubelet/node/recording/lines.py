"""The lines of a recording, each one JSON object.

The first says who writes and what the agent is made of. Then, again and again: a step, with the time and what had come
by then (`in`), and after it everything that the agent did about it, in its order: what it asked of the outside world
(`call`, with a number that the answer comes back `to`), what it told others (`do`), what it noted (`note`), what it was
answered at once (`is`).
"""

from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from pykubelet.api import codec
from pykubelet.base.errors import PykubeletError

FORMAT: Final = 1
LONGEST_LINE: Final = 64 << 20
_MOST_REMEMBERED: Final = 4096


class Header(Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    recording: int
    """The version of the format."""
    by: str = ""
    seed: int = 0
    t: float = 0.0
    now: datetime
    parts: tuple[str, ...] = ()
    """Ports, functions and groups of them that the agent has."""
    port_maps: Mapping[str, tuple[str, ...]] = {}
    capabilities: Mapping[str, Any] = {}
    """Of the runtime: plain ones."""
    can: tuple[str, ...] = ()
    """Of the runtime: what it can be asked besides."""
    settings: Mapping[str, Raw] = {}


class Input(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something has come from outside."""

    to: int = 0
    """The number of what was asked."""
    is_: Raw | UnsetType = field(name="is", default=UNSET)
    same: bool = False
    """The answer is the same as the last time that this was asked."""
    parts: tuple[Raw, ...] | UnsetType = UNSET
    """Of a list: an element of the last answer, by its place, or another one."""
    error: Raw | UnsetType = UNSET
    cancelled: bool = False
    end: bool = False
    """Of a stream."""
    ask: str = ""
    """The agent was asked to do something, by its name."""


class StepLine(Struct, frozen=True, kw_only=True):
    t: float
    """On the clock of the event loop."""
    now: datetime
    inputs: tuple[Input, ...] = field(name="in", default=())


class Failure(Struct, frozen=True, omit_defaults=True):
    """An exception."""

    types: tuple[str, ...]
    """Its class and those that it is made from."""
    text: str
    more: Mapping[str, str | float | int | bool | None] = {}
    cause: "Failure | None" = None


def failure_of(error: BaseException) -> Failure:
    kinds = [each.__name__ for each in type(error).__mro__ if issubclass(each, PykubeletError)]
    more = {name: each for name, each in vars(error).items() if each is None or isinstance(each, str | float | int)}
    cause = error.__cause__
    return Failure(
        tuple(kinds) or ("Exception",),
        str(error),
        more,
        failure_of(cause) if isinstance(cause, PykubeletError) else None,
    )


def as_error(failure: Failure, depth: int = 0) -> Exception:
    known = _known_errors()
    kind = next((known[name] for name in failure.types if name in known), None)
    if kind is None:
        return Exception(failure.text)
    error = kind.__new__(kind)
    error.args = (failure.text,)
    vars(error).update(failure.more)
    if failure.cause is not None and depth < 10:
        error.__cause__ = as_error(failure.cause, depth + 1)
    return error


def _known_errors() -> dict[str, type[PykubeletError]]:
    found: dict[str, type[PykubeletError]] = {}
    waiting: list[type[PykubeletError]] = [PykubeletError]
    while waiting:
        kind = waiting.pop()
        found[kind.__name__] = kind
        waiting += kind.__subclasses__()
    return found


class Remembered:
    """The last answers to questions that are asked again and again. The longest unasked is forgotten first: whoever
    writes and whoever reads forget the same."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, Any] = OrderedDict()

    def last(self, question: str) -> Any:
        return self._answers.get(question)

    def keep(self, question: str, answer: Any) -> None:
        self._answers[question] = answer
        self._answers.move_to_end(question)
        if len(self._answers) > _MOST_REMEMBERED:
            self._answers.popitem(last=False)


def answer(before: Remembered, question: str, number: int, value: Any) -> Input:
    """As short as the last answer to the same question allows."""
    if isinstance(value, tuple):
        return _list_answer(before, question, number, value)
    text = codec.encode_canonical(value)
    if before.last(question) == text:
        return Input(to=number, same=True)
    before.keep(question, text)
    return Input(to=number, is_=Raw(text))


def _list_answer(before: Remembered, question: str, number: int, value: tuple[Any, ...]) -> Input:
    last: dict[bytes, int] = before.last(question) or {}
    texts = [codec.encode_canonical(each) for each in value]
    before.keep(question, {text: place for place, text in enumerate(texts)})
    return Input(to=number, parts=tuple(Raw(str(last[text]).encode() if text in last else text) for text in texts))


def answered(before: Remembered, question: str, kind: Any, given: Input) -> Any:
    """Raises DecodeError."""
    if given.same:
        return before.last(question)
    if given.parts is not UNSET:
        last = before.last(question) or ()
        element = get_args(kind)[0] if get_origin(kind) is tuple else Any
        value: Any = tuple(_element(element, last, each) for each in given.parts)
    elif given.is_ is not UNSET:
        value = codec.decode(kind, given.is_)
    else:
        return None
    before.keep(question, value)
    return value


def _element(kind: Any, last: tuple[Any, ...], given: Raw) -> Any:
    text = bytes(given)
    if not text.isdigit():
        return codec.decode(kind, text)
    place = int(text[:9])
    if place < len(last):
        return last[place]
    raise codec.DecodeError(f"the answer before had no element {place}")


def question(do: str, args: tuple[Any, ...]) -> str:
    return f"{do} {args[0]}" if args and isinstance(args[0], str) else do


def line_of(value: object) -> bytes:
    """Equal values give equal lines."""
    return codec.encode_canonical(value)


def step_of(line: bytes) -> StepLine | None:
    """None: it is another line. Raises DecodeError."""
    return codec.decode(StepLine, line) if line.startswith(b'{"in"') else None


def header_of(line: bytes) -> Header:
    """Raises DecodeError."""
    return codec.decode(Header, line)


def version_of(line: bytes) -> int | None:
    """The version of the format; None: it is no recording."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    version = found.get("recording") if isinstance(found, dict) else None
    return version if isinstance(version, int) else None
