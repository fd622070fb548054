"""The Streams port on this machine's kernel: commands with their input and output held open, attaching, and
connections to what a pod listens on."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.ports.server import Connection, Session, StreamUrl
from pykubelet.runtime.process import attach as attaching
from pykubelet.runtime.process import exec as execution
from pykubelet.runtime.process.assembly import Assembly
from pykubelet.runtime.process.attach import AttachSession
from pykubelet.runtime.process.exec import ExecSession
from pykubelet.runtime.process.listeners import listens
from pykubelet.runtime.process.spawner import Spawner
from pykubelet.runtime.process.table import Table

_CONNECTING: Final = 10.0
_CHUNK: Final = 65536
_LINGER: Final = 2.0
"""Seconds in which a pod may take what was sent to it last: one that never reads would be waited for forever."""
_HERE: Final = ("127.0.0.1", "::1")


class ProcessStreams:
    """`opened` is the runtime's own first look at the machine, after which the table is true."""

    def __init__(self, opened: Callable[[], Awaitable[Assembly]], table: Table, spawner: Spawner) -> None:
        self._opened = opened
        self._table = table
        self._spawner = spawner
        self._sessions: set[ExecSession | AttachSession] = set()

    async def exec(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> StreamUrl | Session:
        assembly = await self._opened()
        container = self._table.running(container_id)
        if not command:
            raise Invalid("there is no command to run")
        spec = await asyncio.to_thread(assembly.command, container, tuple(command))
        session = await execution.open_session(
            self._spawner,
            spec,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            tty=tty,
            container_ended=container.ended,
        )
        self._keep(session)
        return session

    async def attach(
        self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> StreamUrl | Session:
        await self._opened()
        container = self._table.running(container_id)
        folder = self._table.store.folder(container.record)
        session = await attaching.open_session(container, folder, stdin=stdin, stdout=stdout, stderr=stderr)
        self._keep(session)
        return session

    async def port_forward(self, sandbox_id: str, ports: Sequence[int]) -> StreamUrl | None:
        await self._opened()
        self._table.ready(sandbox_id)
        return None

    async def connect(self, sandbox_id: str, port: int) -> Connection:
        """Pods have this machine's network, so what they listen on is here, besides what others do."""
        await self._opened()
        sandbox = self._table.ready(sandbox_id)
        if not 0 < port < 65536:
            raise Invalid(f"port {port} does not exist: ports are from 1 to 65535")
        runs = [container.run for container in sandbox.containers if container.run is not None]
        monitors, mains = [run.monitor.pid for run in runs], [run.main.pid for run in runs]
        if not await asyncio.to_thread(listens, monitors, mains, port):
            why = "connection refused: no container of the pod listens there"
            raise Retry(f"failed to connect to localhost:{port} of sandbox {sandbox_id}: {why}")
        reasons = []
        for address in _HERE:
            try:
                async with asyncio.timeout(_CONNECTING):
                    return _Connection(*await asyncio.open_connection(address, port))
            except TimeoutError:
                reasons.append(f"{address}: no answer within {_CONNECTING:.0f} s")
            except OSError as error:
                reasons.append(f"{address}: {_why(error)}")
        raise Retry(f"failed to connect to localhost:{port} of sandbox {sandbox_id}: {'; '.join(reasons)}")

    async def checkpoint(self, container_id: str, location: str) -> None:
        raise Invalid("the embedded runtime cannot write checkpoints of containers: that takes a container runtime")

    async def close(self) -> None:
        """The agent ends: commands that somebody has open end with it, containers do not."""
        await asyncio.gather(*(session.close() for session in self._sessions), return_exceptions=True)
        self._sessions.clear()

    # --- inside

    def _keep(self, session: ExecSession | AttachSession) -> None:
        self._sessions = {each for each in self._sessions if not each.is_closed} | {session}


class _Connection:
    """The Connection port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK)
        except OSError:
            return b""

    async def send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise Retry(f"the connection into the pod is broken: {error}") from error

    async def end(self) -> None:
        with suppress(OSError, RuntimeError):
            self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(_LINGER):
                await self._writer.wait_closed()
        except TimeoutError:
            self._writer.transport.abort()
        except OSError:
            pass


def _why(error: OSError) -> str:
    return "connection refused" if isinstance(error, ConnectionRefusedError) else (error.strerror or str(error))
