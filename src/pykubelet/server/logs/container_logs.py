"""`/containerLogs/{namespace}/{pod}/{container}`: what `kubectl logs` shows."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aiohttp import HttpVersion11, web

from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid, NotFound, PykubeletError
from pykubelet.pod.container.logs import BadQuery, LogOptions, Unprocessable, log_options, logged_container
from pykubelet.pod.container.sandbox_config import log_directory
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.ports.server import Inside
from pykubelet.server.application import Route, plain
from pykubelet.server.logs.log_files import LogFile
from pykubelet.server.logs.log_lines import Lines

_LOOK: Final = 0.1
"""How often a file that has come to its end is looked at again."""
_LOOK_AT_CONTAINER: Final = 1.0

Observe = Callable[[str], Awaitable[ObservedPod]]


class ContainerLogs:
    """`observe` shows what the runtime holds of a pod, by its uid."""

    def __init__(self, inside: Inside, observe: Observe, log_root: str, *, enabled: bool = True) -> None:
        self._inside = inside
        self._observe = observe
        self._log_root = log_root
        self._enabled = enabled

    def routes(self) -> tuple[Route, ...]:
        return (Route("GET", "/containerLogs/{namespace}/{pod}/{container}", self._serve),)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if not self._enabled:
            return plain(405, "Debug endpoints are disabled.\n")
        try:
            options = log_options(request.query, datetime.now(UTC))
        except BadQuery as error:
            return plain(400, f"Unable to decode query: {error}\n")
        except Unprocessable as error:
            return plain(422, f"Invalid request: {error}\n")
        pod, name = self._pod(request), request.match_info["container"]
        container_id = logged_container(pod, name, previous=options.previous)
        path = await self._path(pod, name, container_id)
        try:
            file = await asyncio.to_thread(LogFile, path, tail=options.tail)
        except OSError as error:
            raise Invalid(f"failed to open log file {path!r}: {error.strerror}") from None
        try:
            return await self._send(request, options, file, pod.metadata.uid, container_id)
        finally:
            file.close()

    async def _send(
        self, request: web.Request, options: LogOptions, file: LogFile, uid: str, container_id: str
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        if request.version >= HttpVersion11:  # before, the end of the connection is the end of the log
            response.enable_chunked_encoding()
        await response.prepare(request)
        lines = Lines(options)
        following = _Following(lambda: self._is_running(uid, container_id)) if options.follow else None
        while not lines.is_full:
            if text := await asyncio.to_thread(_next, file, lines):
                await response.write(text)
            elif text is None and (following is None or not await following.wait()):
                break
        if text := lines.end() if not lines.is_full else b"":
            await response.write(text)
        await response.write_eof()
        return response

    def _pod(self, request: web.Request) -> Pod:
        namespace, name, container = (request.match_info[part] for part in ("namespace", "pod", "container"))
        pod = self._inside.find_pod(namespace, name)
        if pod is None:
            raise NotFound(f'pod "{name}" does not exist\n')
        spec = pod.spec
        everyone = (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)
        if all(each.name != container for each in everyone):
            raise NotFound(f'container "{container}" not found in pod "{name}"\n')
        return pod

    async def _path(self, pod: Pod, name: str, container_id: str) -> str:
        seen = await self._observe(pod.metadata.uid)
        attempt = next((each.attempt for each in seen.containers if each.id == container_id), None)
        if attempt is None:
            raise Invalid(f"container {container_id} of pod {pod.metadata.name} is gone, and its log with it\n")
        return str(Path(log_directory(pod, self._log_root), name, f"{attempt}.log"))

    async def _is_running(self, uid: str, container_id: str) -> bool:
        """While nobody can say, it may well be."""
        try:
            seen = await self._observe(uid)
        except PykubeletError:
            return True
        state = next((each.state for each in seen.containers if each.id == container_id), State.EXITED)
        return state in (State.RUNNING, State.CREATED, State.UNKNOWN)


class _Following:
    """How long to wait for more."""

    def __init__(self, is_running: Callable[[], Awaitable[bool]]) -> None:
        self._is_running = is_running
        self._looked = asyncio.get_running_loop().time()
        self._is_last = False

    async def wait(self) -> bool:
        """-> whether there may be more to come. After the container's end the file is read once more, to its end."""
        if self._is_last:
            return False
        await asyncio.sleep(_LOOK)
        now = asyncio.get_running_loop().time()
        if now - self._looked >= _LOOK_AT_CONTAINER:
            self._looked = now
            self._is_last = not await self._is_running()
        return True


def _next(file: LogFile, lines: Lines) -> bytes | None:
    """Text, which may be empty; None when there is nothing more for now."""
    block = file.read() or file.read_on()
    return lines.feed(block) if block else None
