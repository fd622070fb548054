"""Where an agent lives that is recorded or replayed: on a stepped loop, with stand-ins for the outside world.

Whatever reaches the agent comes in a step; whatever it does is said. What is beyond the stage, the real world or a
recording of it, makes no difference to anybody on it: that is why a replay comes out the same.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from types import NoneType, SimpleNamespace
from typing import Any, Final, Protocol, cast

from pykubelet.base.journal import Noted
from pykubelet.base.stepped_loop import stepped_loop
from pykubelet.node.agent import Agent
from pykubelet.node.dependencies import Dependencies
from pykubelet.node.recording.lines import Header
from pykubelet.node.recording.port_types import Method, Way, capability_functions, fields, methods
from pykubelet.node.recording.shown import arguments, whose
from pykubelet.pod.moments import Journal, Moment
from pykubelet.pod.ports.runtime import Capabilities

END: Final = object()
"""What a stream answers that has ended."""
ASKS: Final[Mapping[str, Callable[[Agent], Awaitable[Any]]]] = {
    "look": lambda agent: agent.pleg.look(),
    "stop_pods": lambda agent: agent.stop_pods(),
}
"""What the agent is asked from outside that takes its time."""


class Outside(Protocol):
    """What is beyond the stage. No method waits."""

    @property
    def is_heard(self) -> bool:
        """Whether what is said is of interest to anybody."""
        ...

    def say(self, done: Mapping[str, Any]) -> None:
        """The agent has done something."""
        ...

    def begin(self, number: int, do: str, method: Method, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Something is asked; `Stage.answer` brings the answer. Of a stream that is open: the next element."""
        ...

    def cancel(self, number: int) -> None:
        """The answer is not waited for any more. There has to be one all the same, once nothing goes on any more."""
        ...

    def told(self, do: str, method: Method, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Something is told, or answered at once."""
        ...

    def make(self, do: str, method: Method) -> bool:
        """A port is made. -> whether there is one."""
        ...

    def look(self, do: str, method: Method) -> Any:
        """What is the case now."""
        ...


class Stage:
    def __init__(self, header: Header, outside: Outside) -> None:
        self.loop = stepped_loop(seed=header.seed, now=header.t)
        self.now = header.now
        self.agent: Agent | None = None
        """From the first step on."""
        self.main: asyncio.Task[None] | None = None
        self.is_over = False
        """There is nothing beyond the stage any more: nobody answers."""
        self._outside = outside
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._asked: set[asyncio.Task[Any]] = set()

    def open(self, inside: Dependencies) -> None:
        self.main = self.loop.create_task(self._live(inside))

    async def _live(self, inside: Dependencies) -> None:
        async with asyncio.TaskGroup() as tasks:
            self.agent = Agent(tasks, inside)
            self.agent.start()
            await self.loop.create_future()

    # --- what comes

    def begin_step(self, t: float, now: datetime) -> None:
        self.loop.begin(t)
        self.now = now

    def cancelled(self, number: int) -> None:
        """What was asked has ended, since nobody waited for it any more."""
        if (waiting := self._waiting.pop(number, None)) is not None:
            waiting.cancel()

    def answer(self, number: int, value: Any = None, error: BaseException | None = None) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is None or waiting.done():
            return
        if error is not None:
            waiting.set_exception(error)
        else:
            waiting.set_result(value)

    def ask(self, name: str, done: Callable[["asyncio.Task[Any]"], None] = lambda task: None) -> None:
        assert self.agent is not None
        task = self.loop.create_task(cast(Any, ASKS[name](self.agent)))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        task.add_done_callback(done)

    # --- what the agent has instead of the outside world

    def inside(self, header: Header, settings: Mapping[str, Any], journal: Journal) -> Dependencies:
        known, has = fields(), frozenset(header.parts)
        parts: dict[str, Any] = dict(settings)
        parts |= {name: self._port(name, kind) for name, kind in known.ports.items() if name in has}
        parts |= {name: self._function(name, method) for name, method in known.functions.items() if name in has}
        for name, each in header.port_maps.items():
            parts[name] = {key: self._port(f"{name}.{key}", known.port_maps[name]) for key in each}
        for name, kind in reversed(known.groups.items()):  # those inside of others come first
            if name in has:
                parts[name] = kind(**_taken(parts, f"{name}."))
            else:
                _taken(parts, f"{name}.")
        can: dict[str, Any] = dict(header.capabilities)
        can |= {name: self._function(f"can.{name}", capability_functions()[name]) for name in header.can}
        parts["runtime"].capabilities = Capabilities(**can)
        return Dependencies(**parts, journal=journal, now=lambda: self.now)

    def _port(self, name: str, kind: Any) -> SimpleNamespace:
        made = {each: self._function(f"{name}.{each}", method) for each, method in methods(kind).items()}
        return SimpleNamespace(**made)

    def _function(self, do: str, method: Method) -> Callable[..., Any]:
        match method.way:
            case Way.CALL:
                return partial(self._call, do, method)
            case Way.STREAM:
                return partial(self._listen, do, method)
            case Way.SAY:
                return partial(self._tell, do, method)
            case Way.LOOK:
                return partial(self._outside.look, do, method)
            case Way.MAKE:
                return partial(self._make, do, method)

    async def _call(self, do: str, method: Method, /, *args: Any, **kwargs: Any) -> Any:
        number = self._begin(do, method, args, kwargs)
        return await self._answered(number, partial(self._outside.begin, number, do, method, args, kwargs))

    async def _listen(self, do: str, method: Method, /, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        number = self._begin(do, method, args, kwargs)
        begin = partial(self._outside.begin, number, do, method, args, kwargs)
        try:
            while (item := await self._answered(number, begin)) is not END:
                yield item
        finally:
            await self._call("close", Method(Way.CALL, NoneType, ("stream",)), number)

    async def _answered(self, number: int, begin: Callable[[], None]) -> Any:
        """Whoever is cancelled waits until what was asked has ended, as if it were a part of the waiting task."""
        if self.is_over:
            raise asyncio.CancelledError
        self._waiting[number] = waiting = self.loop.create_future()
        begin()
        while True:
            try:
                return await waiting
            except asyncio.CancelledError:
                if number not in self._waiting or self.is_over:
                    raise
                self._outside.say({"cancel": number})
                self._waiting[number] = waiting = self.loop.create_future()
                self._outside.cancel(number)

    def _tell(self, do: str, method: Method, /, *args: Any, **kwargs: Any) -> Any:
        if self._outside.is_heard:
            shown = arguments(method.parameters, args, kwargs)
            self._outside.say({"do": do, "pod": str(whose(args, shown)), "with": shown})
        return self._outside.told(do, method, args, kwargs)

    def _make(self, do: str, method: Method) -> Any:
        self._outside.say({"do": do, "pod": "", "with": {}})
        return self._port(do, method.gives) if self._outside.make(do, method) else None

    def _begin(self, do: str, method: Method, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
        number = next(self._numbers)
        if self._outside.is_heard:
            shown = arguments(method.parameters, args, kwargs)
            self._outside.say({"call": number, "do": do, "pod": str(whose(args, shown)), "with": shown})
        return number

    def read(self, noted: Noted[Moment]) -> None:
        """A reader of the journal. What others note is not the agent's doing."""
        if self.loop.is_stepping and self._outside.is_heard:
            self._outside.say({"note": noted.moment, "pod": str(noted.about)})


def _taken(parts: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Out of `parts`: those of a group, by their own names."""
    return {name.removeprefix(prefix): parts.pop(name) for name in list(parts) if name.startswith(prefix)}
