"""Our side of the program that unpacks layers: it is fed, and asked what came of it."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.api.codec import DecodeError, decode
from pykubelet.base.errors import Invalid, Retry

_COMMAND: Final = (sys.executable, "-I", "-m", "pykubelet.runtime.process.images.unpack")
_LONGEST_ANSWER: Final = 32 << 20
_ENVIRONMENT: Final = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


class Unpacked(Struct, frozen=True, kw_only=True):
    diff_id: str = ""
    size: int = 0
    devices: int = 0
    """Device nodes that were left out."""
    implied: tuple[str, ...] = ()
    """Folders that the layer does not mention, but has something in."""
    error: str = ""


async def unpack(chunks: AsyncIterator[bytes], folder: Path) -> Unpacked:
    """A layer, packed as it comes, into a folder. Raises Invalid for one that cannot be unpacked as it is, Retry for
    what may work later, and whatever `chunks` raises; then the folder holds a part of it."""
    try:
        process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            str(folder),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_ENVIRONMENT,
            limit=_LONGEST_ANSWER,
        )
    except OSError as error:
        raise Retry(f"no program can be started to unpack an image: {error.strerror}") from None
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):  # it has said why it does not want more
            async for data in chunks:
                process.stdin.write(data)
                await process.stdin.drain()
            process.stdin.close()
            await process.stdin.wait_closed()
        answer = await process.stdout.read(_LONGEST_ANSWER)
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        unpacked = decode(Unpacked, answer)
    except DecodeError:
        raise Retry(f"the program that unpacks images ended with code {code} and said nothing") from None
    if unpacked.error:
        raise Invalid(f"a layer of it is refused: {unpacked.error}")
    return unpacked
