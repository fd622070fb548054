"""The agent's own socket, for people on its machine: one question a connection (`journal UID`), one JSON answer.

Only the user that the agent runs as may connect: the file's mode says so.
"""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final

from pykubelet.api import codec
from pykubelet.base.errors import Invalid, Retry

log = logging.getLogger(__name__)

_LONGEST_QUESTION: Final = 4096
_REMEDY: Final = "start one with `pykubelet up`, or name its folder with --data or --root-dir"
_PATIENCE: Final = 5.0

Answers = Mapping[str, Callable[[str], Any]]
"""By the first word of the question; told the rest of it. One that takes a while gives an awaitable."""


@asynccontextmanager
async def control_socket(path: Path, answers: Answers) -> AsyncIterator[None]:
    """Answer questions by name until the end of the block. Raises Invalid when another agent has the socket."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                question = (await reader.readline()).decode(errors="replace").strip()[:_LONGEST_QUESTION]
                word, _, rest = question.partition(" ")
                answer = answers.get(word)
                value = answer(rest) if answer else {"error": f"there is no {word!r}; ask for {', '.join(answers)}"}
                value = await value if isawaitable(value) else value
                writer.write(codec.encode(_named(value)) + b"\n")
                await writer.drain()
        except (TimeoutError, ConnectionError, ValueError):
            log.debug("a question on the control socket was not brought to its end")
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    if await _is_alive(path):
        raise Invalid(f"another agent is running here: it answers at {path}")
    _clear(path)
    before = os.umask(0o177)
    try:
        server = await asyncio.start_unix_server(serve, path, limit=_LONGEST_QUESTION)
    except OSError as error:
        raise Invalid(f"{path}: cannot listen there: {error.strerror or error}") from None
    finally:
        os.umask(before)
    try:
        yield
    finally:
        server.close()
        _clear(path)


def _clear(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)


def _named(value: Any) -> Any:
    """Named tuples are told with their names, as Structs are."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _named(each) for name, each in value._asdict().items() if each is not None}
    return [_named(each) for each in value] if isinstance(value, tuple | list) else value


async def ask(path: Path, question: str) -> Any:
    """The answer of the agent at a socket. Raises Retry when there is none."""
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                writer.write(question.encode() + b"\n")
                data = await reader.read()
            finally:
                writer.close()
                await writer.wait_closed()
        return json.loads(data)
    except (OSError, TimeoutError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise Retry(f"no agent answers at {path}: {why}; {_REMEDY}") from None


async def _is_alive(path: Path) -> bool:
    try:
        await ask(path, "ping")
    except Retry:
        return False
    return True
