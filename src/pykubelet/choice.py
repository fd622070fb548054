"""Which runtime `up` uses: a container runtime that is here and free for us, else the embedded one.

An agent clears away the pods that it does not know. So a runtime that already runs somebody's pods is left alone.
"""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import PykubeletError
from pykubelet.runtime.registry import EMBEDDED, RuntimeSettings, make_runtime

SOCKETS: Final = (Path("/run/containerd/containerd.sock"), Path("/run/crio/crio.sock"))
_PATIENCE: Final = 5.0


class Choice(Struct, frozen=True):
    endpoint: str
    why: str
    """A sentence for the person who started it."""


def choose_runtime(scratch: Path, sockets: Iterable[Path] = SOCKETS) -> Choice:
    """`scratch` is a folder for what the asking needs."""
    said = []
    for socket in sockets:
        if not socket.exists():
            continue
        if not os.access(socket, os.R_OK | os.W_OK):
            said.append(f"{socket} is there, but not for this user")
            continue
        found = asyncio.run(_ask(f"unix://{socket}", scratch))
        if isinstance(found, Choice):
            return found
        said.append(found)
    why = "; ".join(said) or "there is no container runtime here"
    return Choice(EMBEDDED, f"Containers are processes of this machine ({why}).")


async def _ask(endpoint: str, scratch: Path) -> Choice | str:
    """The choice of this runtime, or why it is none."""
    runtime = make_runtime(RuntimeSettings(endpoint=endpoint, root=scratch, log_root=scratch))
    try:
        async with asyncio.timeout(_PATIENCE):
            version, status, pods = await runtime.version(), await runtime.status(), await runtime.pods()
    except TimeoutError:
        return f"the runtime at {endpoint} does not answer"
    except PykubeletError as error:
        return f"the runtime at {endpoint} cannot be used: {error}"
    finally:
        await runtime.close()
    name = f"{version.name} {version.version}"
    if not status.ready or not status.network_ready:
        return f"{name} is not ready: {status.message or status.network_message}"
    if pods:
        return f"{name} runs {len(pods)} pods of somebody else, which must not be disturbed"
    return Choice(endpoint, f"Containers run on {name} at {endpoint}.")
