"""The same agent again, from a recording: on the time of the recording, answered by it, and without touching anything.

Whatever it does is compared with what was recorded, line by line. Where the first line differs, the replay ends: what
comes after was answered to somebody else.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import NoneType
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.base.errors import Invalid
from pykubelet.base.stepped_loop import EndlessStep
from pykubelet.node.recording import lines
from pykubelet.node.recording.port_types import Method, capability_functions, capability_settings, fields
from pykubelet.node.recording.stage import ASKS, END, Stage
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.moments import Journal

_REMEMBERED: Final = 2000
"""Lines: among them is what led to a difference."""
_LED_TO_IT: Final = 12
_LATEST: Final = 1e10
"""Seconds that no machine has been up."""


class Line(Struct, frozen=True):
    """One that was recorded, and when."""

    number: int
    now: datetime
    text: bytes

    @property
    def value(self) -> dict[str, Any]:
        found = msgspec.json.decode(self.text)
        return found if isinstance(found, dict) else {}


class Difference(Struct, frozen=True, kw_only=True):
    """Where the replay does something else than was recorded."""

    at: Line
    """The line that was recorded; an empty one: nothing was."""
    replayed: bytes
    """What the replay does instead; empty: nothing."""
    before: tuple[Line, ...] = ()
    """What has happened to the same pod just before."""

    @property
    def pod(self) -> str:
        for text in (self.replayed, self.at.text):
            if text and isinstance(found := msgspec.json.decode(text), dict) and found.get("pod"):
                return str(found["pod"])
        return ""


class _Asked(Struct, frozen=True):
    question: str
    kind: Any


class Replay:
    """`lines` are those of a recording, without their ends; one that ends early is replayed as far as it goes. Raises
    Invalid for what cannot be replayed. `on_line` is shown each line that came out the same."""

    def __init__(self, recorded: Iterator[bytes], on_line: Callable[[Line], bool] = lambda line: True) -> None:
        """`on_line` returns False to end the replay there."""
        self._lines = enumerate(recorded, 1)
        self._on_line = on_line
        self._header = _checked_header(next(self._lines, (1, b""))[1])
        self._place = 1
        self._next_line: bytes | None = None
        self._before = lines.Remembered()
        self._asked: dict[int, _Asked] = {}
        self._seen: dict[str, Any] = {}
        self._recent: deque[Line] = deque(maxlen=_REMEMBERED)
        self.difference: Difference | None = None
        self.end = ""
        """Why the recording ends, if it says so."""
        self.steps = self.decisions = 0
        self.is_cut = False
        """Whoever looks on has seen enough."""
        self.is_over = False
        self._stage = Stage(self._header, self)

    @property
    def header(self) -> lines.Header:
        return self._header

    def run(self) -> Difference | None:
        """-> the first difference; None: all that was recorded came out the same."""
        journal: Journal = Journal(rule, now=lambda: self._stage.now)
        journal.read_by(self._stage.read)
        settings = {
            name: codec.decode(kind, self._header.settings[name])
            for name, kind in fields().settings.items()
            if name in self._header.settings
        }
        self._stage.open(self._stage.inside(self._header, settings, journal))
        try:
            while not self.is_over and (line := self._take()) is not None:
                self._replay(line)
        except (DecodeError, msgspec.DecodeError, EndlessStep) as error:
            raise Invalid(f"line {self._place}: {error}") from None
        finally:
            self._close()
        return self.difference

    def _replay(self, line: bytes) -> None:
        step = lines.step_of(line)
        if step is None:
            self._other(line)
            return
        if not self._stage.loop.time() <= step.t < _LATEST:
            raise DecodeError("time does not go that way", "t")
        self.steps += 1
        self._stage.begin_step(step.t, step.now)
        self._came_out(line)
        for each in step.inputs:
            self._deliver(each)
        self._stage.loop.run(lambda: self.is_over)

    def _other(self, line: bytes) -> None:
        """The agent has come to rest, and this is not the next step."""
        end = msgspec.json.decode(line)
        if isinstance(end, dict) and "end" in end:
            self.end, self.is_over = str(end["end"]), True
        else:
            self._differ(line, b"")

    def _deliver(self, given: lines.Input) -> None:
        if given.ask:
            if given.ask not in ASKS or self._stage.agent is None:
                raise DecodeError(f"nobody can be asked for {given.ask!r}")
            self._stage.ask(given.ask)
            return
        asked = self._asked.get(given.to)
        if asked is None:
            raise DecodeError(f"an answer to {given.to}, which was never asked")
        if given.end:
            self._stage.answer(given.to, END)
        elif given.cancelled:
            self._stage.cancelled(given.to)
        elif given.error is not UNSET:
            self._stage.answer(given.to, error=lines.as_error(codec.decode(lines.Failure, given.error)))
        else:
            self._stage.answer(given.to, lines.answered(self._before, asked.question, asked.kind, given))

    # --- beyond the stage

    @property
    def is_heard(self) -> bool:
        return not self.is_over

    def say(self, done: Mapping[str, Any]) -> None:
        if self.is_over:
            return
        line, recorded = lines.line_of(done), self._peek()
        if recorded is None:
            self.is_over = True  # the recording was cut off in the middle of a step
        elif recorded != line:
            self._differ(recorded, line)
        else:
            self._take()
            self._came_out(line)

    def begin(self, number: int, do: str, method: Method, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._asked[number] = _Asked(lines.question(do, args), method.gives)

    def cancel(self, number: int) -> None:
        pass

    def told(self, do: str, method: Method, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return None if method.gives is NoneType else self._given(method.gives)

    def make(self, do: str, method: Method) -> bool:
        return bool(self._given(bool))

    def look(self, do: str, method: Method) -> Any:
        if self._peek() == lines.line_of({"do": do}):
            self._take()
            self._seen[do] = self._given(method.gives)
        if do not in self._seen and not self.is_over:
            self._differ(self._peek() or b"", lines.line_of({"do": do}))
        return self._seen.get(do)

    def _given(self, kind: Any) -> Any:
        line = None if self.is_over else self._peek()
        if line is None or not line.startswith(b'{"is":'):
            self.is_over = True
            return None
        self._take()
        return codec.decode(kind, line[len(b'{"is":') : -1])

    # --- lines

    def _peek(self) -> bytes | None:
        if self._next_line is None:
            place, line = next(self._lines, (self._place, None))
            self._place, self._next_line = place, line
        return self._next_line

    def _take(self) -> bytes | None:
        line, self._next_line = self._peek(), None
        return line

    def _came_out(self, text: bytes) -> None:
        line = Line(self._place, self._stage.now, text)
        self._recent.append(line)
        self.decisions += not text.startswith(b'{"in"')
        if not self._on_line(line):
            self.is_cut = self.is_over = True

    def _differ(self, recorded: bytes, replayed: bytes) -> None:
        is_step = recorded.startswith(b'{"in"')
        at = Line(self._place, self._stage.now, b"" if is_step else recorded)
        found = Difference(at=at, replayed=replayed)
        self.difference = msgspec.structs.replace(found, before=self._led_to(found.pod))
        self.is_over = True

    def _led_to(self, pod: str) -> tuple[Line, ...]:
        """What came for the pod, and what was done to it."""
        numbers: set[Any] = set()
        found = []
        for line in self._recent:
            value = line.value
            inputs = value.get("in", ())
            if value.get("pod") == pod:
                numbers.add(value.get("call"))
                found.append(line)
            elif any(each.get("to") in numbers for each in inputs):
                found.append(line)
        return tuple(found[-_LED_TO_IT:])

    def _close(self) -> None:
        """Leave nobody waiting."""
        self.is_over = self._stage.is_over = True
        if self._stage.main is not None:
            self._stage.main.cancel()
            self._stage.loop.run()


def _checked_header(line: bytes) -> lines.Header:
    """Raises Invalid."""
    version = lines.version_of(line)
    if version is None:
        raise Invalid("this is no recording: it does not begin as one")
    if version > lines.FORMAT:
        raise Invalid(
            f"this recording has format {version}, which is newer than what this version can replay "
            f"({lines.FORMAT}): replay it with the version that has written it"
        )
    try:
        header = lines.header_of(line)
    except DecodeError as error:
        raise Invalid(f"line 1: {error}") from None
    known = fields()
    strange = {*header.parts} - known.ports.keys() - known.functions.keys() - known.groups.keys()
    strange |= {*header.port_maps} - known.port_maps.keys() | {*header.settings} - known.settings.keys()
    strange |= {*header.can} - capability_functions().keys() | {*header.capabilities} - capability_settings().keys()
    if strange:
        raise Invalid(f"line 1: this version knows nothing of {', '.join(sorted(strange))}")
    if missing := {"runtime", "host", "recorder", "node", "node_info"} - {*header.parts}:
        raise Invalid(f"line 1: there is no agent without {', '.join(sorted(missing))}")
    return header
