"""Which runtime `up` uses: a container runtime that is here and free for us, else the embedded one.

An agent clears away the pods that it does not know. So a runtime that already runs somebody's pods is left alone.
"""

import asyncio
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.pod.ports.runtime import RuntimeStatus
from pykubelet.runtime.endpoints import EMBEDDED, make_runtime, plugin
from pykubelet.runtime.settings import RuntimeSettings

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
        if not os.path.exists(socket):  # nor when its folder is not for us to look into
            continue
        if not os.access(socket, os.R_OK | os.W_OK):
            said.append(f"{socket} is there, but not for this user")
            continue
        try:
            return asyncio.run(_free(f"unix://{socket}", scratch, must_be_ready=True))
        except Invalid as error:
            said.append(str(error))
    why = "; ".join(said) or "there is no container runtime here"
    return Choice(EMBEDDED, f"Containers are processes of this machine ({why}).")


def isolation_of(endpoint: str, scratch: Path) -> str:
    """How the pods of the embedded runtime are kept apart, in a sentence; empty: another one knows. Raises Invalid when
    they cannot be, and nobody has said that they need not."""
    if endpoint.partition("://")[0] not in ("", EMBEDDED):
        return ""
    with tempfile.TemporaryDirectory(prefix="asked-", dir=scratch) as root:
        status = asyncio.run(_status(endpoint, Path(root)))
    if not status.ready:
        raise Invalid(status.message)
    return status.isolation


async def _status(endpoint: str, scratch: Path) -> RuntimeStatus:
    runtime = make_runtime(RuntimeSettings(endpoint=endpoint, root=scratch, log_root=scratch))
    try:
        return await runtime.status()
    finally:
        await runtime.close()


def check_runtime(endpoint: str, scratch: Path) -> str:
    """For a runtime that somebody names. -> a sentence for them. Raises Invalid for one that does not answer or is not
    free: who wants the pods gone that are on it has to say so with `run`."""
    if not endpoint.startswith(("unix://", "/")):
        if endpoint.partition("://")[0] != EMBEDDED:
            plugin(endpoint)
        return ""  # the agent knows what else can be said of it
    try:
        return asyncio.run(_free(endpoint, scratch, must_be_ready=False)).why
    except Invalid as error:
        raise Invalid(f"{error}; name another with --container-runtime-endpoint") from None


async def _free(endpoint: str, scratch: Path, *, must_be_ready: bool) -> Choice:
    """The choice of this runtime. Raises Invalid with why it is none."""
    runtime = make_runtime(RuntimeSettings(endpoint=endpoint, root=scratch, log_root=scratch))
    try:
        async with asyncio.timeout(_PATIENCE):
            version, status, pods = await runtime.version(), await runtime.status(), await runtime.pods()
    except TimeoutError:
        raise Invalid(f"the runtime at {endpoint} does not answer") from None
    except PykubeletError as error:
        raise Invalid(f"the runtime at {endpoint} cannot be used: {error}") from None
    finally:
        await runtime.close()
    name = f"{version.name} {version.version}"
    if must_be_ready and not (status.ready and status.network_ready):
        raise Invalid(f"{name} is not ready: {status.message or status.network_message}")
    if pods:
        raise Invalid(f"{name} runs {len(pods)} pods of somebody else, which must not be disturbed")
    return Choice(endpoint, f"Containers run on {name} at {endpoint}.")
