"""exec and attach, served by ourselves: a session's input and output on a client's SPDY or WebSocket connection.

Both kinds become a `Line`, which the one session loop speaks on. What a program's end looks like to kubectl is decided
here, too: a Status on the error stream.
"""

import asyncio
import json
import logging
import math
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any, Final

from aiohttp import web

from pykubelet.api.struct import changed
from pykubelet.base.errors import PykubeletError
from pykubelet.pod.ports.server import Session
from pykubelet.server.streaming.channels import Channels
from pykubelet.server.streaming.session_lines import (
    SPDY_PROTOCOLS,
    WEB_SOCKET_PROTOCOLS,
    ChannelsLine,
    Line,
    Receiver,
    SpdyLine,
    wanted,
)
from pykubelet.server.streaming.spdy import negotiated, spdy_carrier
from pykubelet.web.upgrade import surely, switched, until_silent, wait_for_all, wants_upgrade, web_socket

log = logging.getLogger(__name__)

_LONGEST_RESIZE: Final = 4096


async def serve_session(
    request: web.Request, session: Session, *, tty: bool, idle: float, attached: bool = False
) -> web.StreamResponse:
    """Until the program ends, the client goes, or neither says anything for `idle` seconds. Closes the session."""
    async with AsyncExitStack() as stack:
        try:
            streams, socket = changed(wanted(request), tty=tty), None
            line: Line
            if wants_upgrade(request, "websocket"):
                socket = await web_socket(request, WEB_SOCKET_PROTOCOLS)
                line = ChannelsLine(Channels(request, socket), streams)
            else:
                protocol = negotiated(request, SPDY_PROTOCOLS)
                line = SpdyLine(await stack.enter_async_context(spdy_carrier(request, protocol)), protocol, streams)
            has_ended = await _hold(line, session, idle, attached)
        finally:
            await surely(_close(session))
        await line.close(patience=(idle or math.inf) if has_ended else 0.0)
    return socket or switched()


async def _close(session: Session) -> None:
    try:
        await session.close()
    except PykubeletError as error:
        log.warning("a session could not be closed: %s", error)


# --- the session loop


async def _hold(line: Line, session: Session, idle: float, attached: bool) -> bool:
    """-> whether the program has ended; else the client has gone, or said nothing"""
    heard = asyncio.create_task(line.run())
    spoken = asyncio.create_task(_spoken(line, session, attached))
    listening = asyncio.create_task(_listen(line, session))
    either = asyncio.ensure_future(asyncio.wait([heard, spoken], return_when=asyncio.FIRST_COMPLETED))
    try:
        await until_silent(either, lambda: line.count, idle, line.nudge)
        return spoken.done()
    except ConnectionError:
        log.info("a client has gone without a word")
        return False
    finally:
        for task in (heard, spoken, listening, either):
            task.cancel()
        await surely(wait_for_all(heard, spoken, listening, either))


async def _spoken(line: Line, session: Session, attached: bool) -> None:
    """What the program says, and at last how it ended."""
    try:
        async with aclosing(session.output()) as output:
            async for name, data in output:
                await line.say(name, data)
        code = await session.exit_code()
        status = _success() if attached or code == 0 else _failure(code)
    except ConnectionError:
        raise
    except Exception as error:  # the boundary: the client is told, whatever it is
        if not isinstance(error, PykubeletError):
            log.exception("a session broke")
        what = str(error) if isinstance(error, PykubeletError) else "the agent's log has more"
        status = _internal_error(f"error {'attaching to' if attached else 'executing command in'} container: {what}")
    if line.is_structured:
        await line.say("error", json.dumps(status, separators=(",", ":")).encode())
    elif status["status"] != "Success":
        await line.say("error", status["message"].encode())
    await line.end()


async def _listen(line: Line, session: Session) -> None:
    async with asyncio.TaskGroup() as together:
        together.create_task(_type_in(line, session))
        together.create_task(_resize(line, session))


async def _type_in(line: Line, session: Session) -> None:
    if line.stdin is None:
        return
    try:
        while data := await line.stdin.receive():
            await session.send(data)
        await session.close_input()
    except (PykubeletError, ConnectionError) as error:
        log.info("a program takes no more input: %s", error)
        await _read_over(line.stdin)


async def _resize(line: Line, session: Session) -> None:
    """Sizes are JSON objects in a row. What cannot be read ends it; the session goes on with the size that it has."""
    if line.resizes is None:
        return
    text = b""
    try:
        while data := await line.resizes.receive():
            for at in range(0, len(data), _LONGEST_RESIZE):
                text += data[at : at + _LONGEST_RESIZE]
                while size := _next_size(text):
                    width, height, text = size
                    if width > 0 and height > 0:
                        await session.resize(width, height)
                if len(text) > _LONGEST_RESIZE:
                    raise ValueError("it does not end")
                await asyncio.sleep(0)  # a flood of sizes is no reason to keep everybody waiting
    except (PykubeletError, ConnectionError, ValueError) as error:
        log.info("a terminal keeps its size: %s", error)
        await _read_over(line.resizes)


async def _read_over(receiver: Receiver) -> None:
    """What nobody wants must not be in the way of the rest."""
    with suppress(ConnectionError):
        while await receiver.receive():
            pass


def _next_size(text: bytes) -> tuple[int, int, bytes] | None:
    """-> width, height, and the text after it; None when the text does not hold a whole size yet"""
    text = text.lstrip()
    end = text.find(b"}") + 1
    if not end:
        return None
    fields = {name.lower(): value for name, value in json.loads(text[:end]).items()}
    width, height = fields.get("width", 0), fields.get("height", 0)
    if not all(isinstance(each, int) and 0 <= each < 65536 for each in (width, height)):
        raise ValueError("a terminal has no such size")
    return width, height, text[end:]


# --- how it ended


def _success() -> dict[str, Any]:
    return {"metadata": {}, "status": "Success"}


def _failure(code: int) -> dict[str, Any]:
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _internal_error(message: str) -> dict[str, Any]:
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {message}",
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }
