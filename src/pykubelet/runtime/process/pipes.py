"""The agent's ends of pipes, terminals and sockets, read and written only as fast as somebody takes and the other side
does: nothing is kept in between."""

import asyncio
import contextlib
import os
import select
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal

Name = Literal["stdout", "stderr"]

_CHUNK: Final = 65536


class Pipe:
    """Both ends, each closed once."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def __getitem__(self, index: int) -> int:
        return (self._reader, self._writer)[index]

    def close_writer(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def close_reader(self) -> None:
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1

    def close(self) -> None:
        self.close_writer()
        self.close_reader()


@contextmanager
def pipes(count: int) -> Iterator[list[Pipe]]:
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            made.append(Pipe())
            stack.callback(made[-1].close)
        yield made


@contextmanager
def null(flags: int = os.O_RDONLY) -> Iterator[int]:
    descriptor = os.open(os.devnull, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Waiting:
    """Waits for descriptors to be ready, until they are to be closed: nobody may still look at one by then, since its
    number may mean another file at once."""

    def __init__(self) -> None:
        self.closing: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._count = 0
        self._nobody = asyncio.Event()

    def is_over(self) -> bool:
        return self.closing.done()

    async def end(self) -> None:
        """Wake all who wait, and return when none does any more."""
        if not self.closing.done():
            self.closing.set_result(None)
        if self._count:
            await self._nobody.wait()

    async def ready(
        self,
        reading: Collection[int] = (),
        writing: Collection[int] = (),
        *,
        unless: "asyncio.Future[object] | None" = None,
        within: float | None = None,
    ) -> bool:
        """Until something can be read from or written to one of them, or `unless` has come true.

        -> whether any of that happened in time
        """
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[object] = loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        self._count += 1
        for descriptor in reading:
            loop.add_reader(descriptor, wake)
        for descriptor in writing:
            loop.add_writer(descriptor, wake)
        try:
            awaited = {woken, self.closing} if unless is None else {woken, self.closing, unless}
            done, _ = await asyncio.wait(awaited, timeout=within, return_when=asyncio.FIRST_COMPLETED)
            return bool(done)
        finally:
            woken.cancel()
            for descriptor in reading:
                loop.remove_reader(descriptor)
            for descriptor in writing:
                loop.remove_writer(descriptor)
            self._count -= 1
            if not self._count and self.is_over():
                self._nobody.set()


async def output_of(
    sources: Mapping[int, Name], over: "asyncio.Future[object]", waiting: Waiting, *, trailing: float
) -> AsyncGenerator[tuple[Name, bytes], None]:
    """What comes out of them, until their other ends are closed; or the program is `over`, and what it has left behind
    says nothing for `trailing` seconds; or they are about to be closed."""
    still = dict(sources)
    while still and not waiting.is_over():
        was_over, silent = over.done(), True
        for descriptor, name in list(still.items()):
            if waiting.is_over():
                return
            data = read_some(descriptor)
            if data:
                silent = False
                yield name, data
            elif data is not None:
                del still[descriptor]
        if not silent:
            await asyncio.sleep(0)  # others want their turn too, also if this one never has to wait
        elif still:
            unless, within = (None, trailing) if was_over else (over, None)
            if not await waiting.ready(still, unless=unless, within=within):
                return


def is_hung_up(descriptor: int) -> bool:
    """A terminal that no program holds: what is written to it stays where it is."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def read_some(descriptor: int) -> bytes | None:
    """None: nothing yet. Empty: there is no more."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""  # a terminal that no program holds any more
