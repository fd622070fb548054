"""An agent that is recorded: it lives on a stage, the real world is behind its stand-ins, and every line is written."""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from types import NoneType
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Raw

from pykubelet import __version__
from pykubelet.api import codec
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.base.stepped_loop import EndlessStep
from pykubelet.node.agent import Agent
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.hooks import RuntimeHooks
from pykubelet.node.probes import Attempts
from pykubelet.node.recording import lines
from pykubelet.node.recording.hiding import Hiding
from pykubelet.node.recording.port_types import Method, Way, capability_functions, capability_settings, fields, methods
from pykubelet.node.recording.stage import END, Stage
from pykubelet.pod.images.pull_messages import hidden
from pykubelet.pod.ports.runtime import PullCredentials

log = logging.getLogger(__name__)

_SURELY: Final = 2e-6
"""Seconds. Loops call a little too soon, by what their clocks cannot tell apart; then the timer would not be due."""
_LONGEST: Final = 0.005
"""Seconds that the rest of the program waits for the agent at a time."""


class Sink(Protocol):
    """Where lines go. Never waits and never fails."""

    def write(self, line: bytes) -> bool:
        """-> False: it takes no more."""
        ...


class _Asked(NamedTuple):
    question: str
    credentials: tuple[PullCredentials, ...]


class _Came(NamedTuple):
    number: int
    value: Any = None
    error: BaseException | None = None
    ask: str = ""
    done: Callable[["asyncio.Task[Any]"], None] = lambda task: None


class RecordedAgent:
    """Made inside of the event loop that everything else runs on. Raises Invalid for an agent that cannot be recorded.

    `made` is the agent, once it is; `run` keeps it until it is cancelled.
    """

    def __init__(self, outside: Dependencies, sink: Sink) -> None:
        if outside.runtime.capabilities.syncer is not None:
            raise Invalid("a runtime that runs whole pods in its own way cannot be recorded: leave --record out")
        self._real = asyncio.get_running_loop()
        self._outside = changed(
            outside,
            asking=outside.asking or Attempts(outside.runtime),
            hooks=outside.hooks or RuntimeHooks(outside.runtime),
        )
        self._sink = sink
        self._hiding = Hiding(secrets.token_bytes(32))
        self._functions = _functions(self._outside)
        self._before = lines.Remembered()
        self._asked: dict[int, _Asked] = {}
        self._streams: dict[int, Any] = {}
        self._running: dict[int, asyncio.Task[Any]] = {}
        self._came: list[_Came] = []
        self._seen: dict[str, Any] = {}
        self._is_recording = True
        self._is_outside = False
        self._is_in_step = False
        """A step was interrupted to let others do something."""
        self._context = copy_context()
        """Every step's: what it begins must not work for the pod whose answer happens to come first."""
        self._next: asyncio.Handle | None = None
        self._is_next_now = False
        self._ended = asyncio.Event()
        header = self._header()
        self._stage = Stage(header, self)
        settings = {name: _part(outside, name) for name in _present(outside, fields().settings)}
        self.say(header)
        outside.journal.read_by(self._stage.read)
        self._stage.open(self._stage.inside(header, settings, outside.journal))

    async def made(self) -> Agent:
        """From outside it may be looked at; what it is to do, it is asked with `ask`."""
        self._wake()
        while self._stage.agent is None:  # noqa: ASYNC110
            await asyncio.sleep(0)
        return self._stage.agent

    async def run(self) -> None:
        """Until cancelled. Then the agent is gone, and its pods go on."""
        main = self._stage.main
        assert main is not None
        main.add_done_callback(lambda task: self._ended.set())
        try:
            await self._ended.wait()
            main.result()
        finally:
            self._finish("the agent was stopped")
            main.cancel()
            self._wake()
            await self._ended.wait()

    async def ask(self, name: str) -> Any:
        """What comes of one of the `stage.ASKS`."""
        answer: asyncio.Future[Any] = self._real.create_future()

        def done(task: "asyncio.Task[Any]") -> None:
            if answer.done():
                return
            if task.cancelled():
                answer.cancel()
            elif (error := task.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(task.result())

        self._came.append(_Came(0, ask=name, done=done))
        self._wake()
        return await answer

    # --- beyond the stage

    def say(self, done: object) -> None:
        if not self._is_recording:
            return
        try:
            line = self._hiding.line(lines.line_of(done))
        except Exception:  # the boundary: what cannot be written down has to be done all the same
            self._give_up()
        else:
            self._is_recording = self._sink.write(line)

    def _give_up(self) -> None:
        log.exception("the recording ends here, since something cannot be written down; the agent goes on without it")
        self._finish("something could not be written down")

    @property
    def is_heard(self) -> bool:
        return self._is_recording and not self._is_outside

    def begin_call(self, number: int, work: Coroutine[Any, Any, Any]) -> None:
        self._running[number] = task = self._real.create_task(work)
        task.add_done_callback(partial(self._done, number))

    def begin(self, number: int, do: str, method: Method, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if do == "close":
            stream = self._streams.pop(args[0], None)
            work = stream.aclose() if stream is not None else None
            self.begin_call(number, _awaited(work))
            return
        # The one question that others ask back: what the runtime holds.
        args = tuple(partial(self.ask, "look") if callable(each) else each for each in args)
        credentials = tuple(each for each in (*args, *kwargs.values()) if isinstance(each, PullCredentials))
        self._asked[number] = _Asked(lines.question(do, args), credentials)
        if method.way is Way.STREAM:
            if number not in self._streams:
                self._streams[number] = self._functions[do](*args, **kwargs)
            self.begin_call(number, _element(self._streams[number]))
        else:
            self.begin_call(number, _awaited(self._functions[do](*args, **kwargs)))

    def cancel(self, number: int) -> None:
        if (task := self._running.get(number)) is not None:
            task.cancel()

    def told(self, do: str, method: Method, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        value = self._at_once(partial(self._functions[do], *args, **kwargs))
        if method.gives is not NoneType:
            self.say({"is": self._hiding.value(value)})
        return value

    def make(self, do: str, method: Method) -> bool:
        made = self._at_once(self._functions[do])
        if made is not None:
            self._functions |= {f"{do}.{each}": getattr(made, each) for each in methods(method.gives)}
        self.say({"is": made is not None})
        return made is not None

    def look(self, do: str, method: Method) -> Any:
        value = self._at_once(self._functions[do])
        if do not in self._seen or (self._seen[do] is not value and self._seen[do] != value):
            self.say({"do": do})
            self.say({"is": self._hiding.value(value)})
        self._seen[do] = value
        return value

    def _at_once(self, work: Callable[[], Any]) -> Any:
        """What others note meanwhile is not the agent's doing."""
        self._is_outside = True
        try:
            return work()
        finally:
            self._is_outside = False

    # --- steps

    def _done(self, number: int, task: "asyncio.Task[Any]") -> None:
        del self._running[number]
        if task.cancelled():
            self._came.append(_Came(number, error=asyncio.CancelledError()))
        elif (error := task.exception()) is not None:
            self._came.append(_Came(number, error=error))
        else:
            self._came.append(_Came(number, task.result()))
        self._wake()

    def _wake(self) -> None:
        if not self._is_next_now:
            if self._next is not None:
                self._next.cancel()
            self._next, self._is_next_now = self._real.call_soon(self._step, context=self._context), True

    def _step(self) -> None:
        """A plain callback, never a task: tasks of two loops must not run inside of each other."""
        self._next, self._is_next_now = None, False
        loop, enough = self._stage.loop, time.perf_counter() + _LONGEST
        if not self._is_in_step:
            self._begin_step()
        try:
            self._is_in_step = not loop.run(lambda: time.perf_counter() > enough)
        except EndlessStep:  # somebody waits for time to pass, which it does only from step to step
            self._give_up()
            self._is_in_step = False
            self._wake()
        if self._is_in_step or self._came:
            self._wake()
        elif (due := loop.due) is not None and not self._is_next_now:
            self._next = self._real.call_at(due + _SURELY, self._step, context=self._context)

    def _begin_step(self) -> None:
        t, now = math.ceil(self._real.time() * 1e6) / 1e6, self._outside.now()
        came, self._came = self._came, []
        if self._is_recording:
            self._record_step(t, now, came)
        self._stage.begin_step(t, now)
        for each in came:
            if each.ask:
                self._stage.ask(each.ask, each.done)
            elif isinstance(each.error, asyncio.CancelledError):
                self._stage.cancelled(each.number)
            else:
                self._stage.answer(each.number, each.value, each.error)

    def _record_step(self, t: float, now: datetime, came: list[_Came]) -> None:
        try:
            inputs = tuple(map(self._input, came))
        except Exception:  # the boundary, as above
            self._give_up()
        else:
            self.say(lines.StepLine(t=t, now=now, inputs=inputs))

    def _input(self, came: _Came) -> lines.Input:
        number = came.number
        if came.ask:
            return lines.Input(ask=came.ask)
        asked = self._asked.get(number, _Asked("", ()))
        if number not in self._streams:
            self._asked.pop(number, None)
        if came.value is END:
            return lines.Input(to=number, end=True)
        if isinstance(came.error, asyncio.CancelledError):
            return lines.Input(to=number, cancelled=True)
        if came.error is not None:
            failure = lines.failure_of(came.error)
            failure = changed(failure, text=hidden(failure.text, asked.credentials))
            return lines.Input(to=number, error=Raw(codec.encode_canonical(failure)))
        return lines.answer(self._before, asked.question, number, self._hiding.value(came.value))

    def _finish(self, why: str) -> None:
        self.say({"end": why})
        self._is_recording = False

    def _header(self) -> lines.Header:
        known, outside = fields(), self._outside
        can = outside.runtime.capabilities
        settings = {name: self._hiding.value(_part(outside, name)) for name in _present(outside, known.settings)}
        return lines.Header(
            recording=lines.FORMAT,
            by=f"pykubelet {__version__}",
            seed=secrets.randbits(48),
            t=self._real.time(),
            now=outside.now().astimezone(UTC),
            parts=tuple(
                name
                for name in _present(outside, (*known.ports, *known.functions, *known.groups))
                if _part(outside, name) is not None
            ),
            port_maps={name: tuple(getattr(outside, name)) for name in known.port_maps},
            capabilities={name: getattr(can, name) for name in capability_settings()},
            can=tuple(name for name in capability_functions() if getattr(can, name) is not None),
            settings={name: Raw(codec.encode(each)) for name, each in settings.items()},
        )


def _functions(outside: Dependencies) -> dict[str, Callable[..., Any]]:
    """All that can be asked, by the names that lines have for it."""
    known, found = fields(), dict[str, Callable[..., Any]]()
    ports = {name: (_part(outside, name), kind) for name, kind in known.ports.items()}
    for name, kind in known.port_maps.items():
        ports |= {f"{name}.{key}": (each, kind) for key, each in getattr(outside, name).items()}
    for name, (port, kind) in ports.items():
        if port is not None:
            found |= {f"{name}.{each}": getattr(port, each) for each in methods(kind)}
    found |= {name: _part(outside, name) for name in known.functions}
    can = outside.runtime.capabilities
    return found | {f"can.{name}": getattr(can, name) for name in capability_functions()}


def _present(outside: Dependencies, names: Iterable[str]) -> list[str]:
    """Without those whose group is not there."""
    return [name for name in names if "." not in name or _part(outside, name.rpartition(".")[0]) is not None]


def _part(outside: Any, name: str) -> Any:
    """By its name, also inside of a group; None: there is none."""
    for each in name.split("."):
        outside = getattr(outside, each, None)
    return outside


async def _awaited(work: Any) -> Any:
    return await work if work is not None else None


async def _element(stream: Any) -> Any:
    return await anext(stream, END)
