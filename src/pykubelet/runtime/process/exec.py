"""Running a command in a container and bringing home what it said."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.ports import ExecResult
from pykubelet.runtime.process.spawner import Answer, Spawner, read_to_end

if TYPE_CHECKING:
    from pykubelet.runtime.process.shim.spec import ExecSpec

_MOST_OUTPUT: Final = 16 * 1024 * 1024
_STARTING: Final = 30.0
_ENDING: Final = 5.0
_TRAILING: Final = 0.5  # for output of what the command left in the background


async def run(spawner: Spawner, spec: "ExecSpec", timeout: float) -> ExecResult:
    """The shim kills it when we let go of the lifeline: at the timeout, when cancelled, when the agent dies."""
    command = " ".join(spec["program"]["argv"])
    with _pipes(3) as (out, err, lifeline), _null() as null:
        stdout, stderr = _Kept(), _Kept()
        readers = [
            asyncio.create_task(read_to_end(out[0], stdout.feed)),
            asyncio.create_task(read_to_end(err[0], stderr.feed)),
        ]
        answer = Answer()
        asking = asyncio.create_task(
            spawner.ask(
                "exec",
                spec,
                descriptors=(lifeline[0], null, out[1], err[1]),
                answer=answer,
                within=timeout + _STARTING + _ENDING,
            )
        )
        try:
            done, _ = await asyncio.wait([asking], timeout=timeout)
            if not done:
                raise Retry(f"command {command!r} timed out after {timeout:g} s")
            await asking
            out.close_writer()
            err.close_writer()
            await asyncio.wait(readers, timeout=_TRAILING)
        finally:
            lifeline.close_writer()
            await _ended(asking)
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
    if answer.failure:
        raise Invalid(f"command {command!r} cannot be run: {answer.failure}")
    facts = answer.get("ended")
    if facts is None:
        raise Retry(f"command {command!r} was lost")
    return ExecResult(exit_code=facts["exit_code"], stdout=stdout.data, stderr=stderr.data)


async def _ended(asking: "asyncio.Task[Answer]") -> None:
    await asyncio.wait([asking], timeout=_ENDING)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


class _Kept:
    """What is said beyond the limit is lost."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data[: _MOST_OUTPUT - len(self._data)]

    @property
    def data(self) -> bytes:
        return bytes(self._data)


class _Pipe:
    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def __getitem__(self, index: int) -> int:
        return (self._reader, self._writer)[index]

    def close_writer(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def close(self) -> None:
        self.close_writer()
        os.close(self._reader)


@contextmanager
def _pipes(count: int) -> Iterator[list[_Pipe]]:
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            made.append(_Pipe())
            stack.callback(made[-1].close)
        yield made


@contextmanager
def _null() -> Iterator[int]:
    descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
