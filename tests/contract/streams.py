"""What every runtime promises that holds a program's input and output open itself, rather than naming a server.

A runtime under test comes with its `Outside`, which starts containers that run shell scripts.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final, Protocol

import pytest

from kit.ports import free_port
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod.ports.runtime import Runtime
from pykubelet.pod.ports.server import Connection, Session, Streams, StreamUrl

DEADLINE: Final = 60.0
IDLE: Final = "while :; do sleep 1000 & wait; done"


class Dependencies(Protocol):
    @property
    def runtime(self) -> Runtime: ...

    @property
    def streams(self) -> Streams: ...

    async def start(self, script: str, **fields: Any) -> str:
        """A running container with a shell script. -> its id"""
        ...

    async def restarted(self) -> Runtime:
        """The agent is gone, and a new one looks at the same machine."""
        ...


Promise = Callable[[Dependencies], Awaitable[None]]


@asynccontextmanager
async def executed(
    outside: Dependencies, container_id: str, script: str, *, stdin: bool = False, tty: bool = False
) -> AsyncIterator[Session]:
    made = await outside.streams.exec(
        container_id, ("sh", "-c", script), stdin=stdin, stdout=True, stderr=not tty, tty=tty
    )
    async with _closing(made) as session:
        yield session


@asynccontextmanager
async def attached(
    outside: Dependencies, container_id: str, *, stdin: bool = False, tty: bool = False
) -> AsyncIterator[Session]:
    made = await outside.streams.attach(container_id, stdin=stdin, stdout=True, stderr=not tty, tty=tty)
    async with _closing(made) as session:
        yield session


@asynccontextmanager
async def _closing(made: StreamUrl | Session) -> AsyncIterator[Session]:
    assert not isinstance(made, StreamUrl)
    try:
        async with asyncio.timeout(DEADLINE):
            yield made
    finally:
        await made.close()


async def said(session: Session, *, until: bytes | None = None) -> dict[str, bytes]:
    """All that comes, or all until some words have come."""
    found = {"stdout": b"", "stderr": b""}
    async with aclosing(session.output()) as chunks:
        async for name, data in chunks:
            found[name] += data
            if until is not None and until in found["stdout"] + found["stderr"]:
                break
        else:
            assert until is None, (until, found)
    return found


# --- exec


async def both_outputs_and_the_exit_code_of_a_command_come_home(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    async with executed(outside, container_id, "printf out; printf err >&2; exit 3") as session:
        assert await said(session) == {"stdout": b"out", "stderr": b"err"}
        assert await session.exit_code() == 3
        await session.send(b"too late")


async def a_command_that_a_signal_ends_has_128_more(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    async with executed(outside, container_id, "kill -SEGV $$") as session:
        assert await session.exit_code() == 139


async def a_command_reads_what_is_sent_and_its_end(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    async with executed(outside, container_id, "cat; echo over", stdin=True) as session:
        await session.send(b"first\n")
        assert (await said(session, until=b"first\n"))["stdout"] == b"first\n"
        await session.send(b"second\n")
        await session.close_input()
        assert (await said(session))["stdout"] == b"second\nover\n"
        assert await session.exit_code() == 0


async def a_command_without_input_finds_it_empty(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    async with executed(outside, container_id, "cat; echo over") as session:
        assert (await said(session))["stdout"] == b"over\n"


async def a_terminal_controls_its_command_and_can_be_resized(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    script = "trap 'stty size; exit 5' WINCH; test -t 2 && tty && echo $TERM >/dev/tty; echo here >&2; " + IDLE
    async with executed(outside, container_id, script, stdin=True, tty=True) as session:
        words = (await said(session, until=b"here\r\n"))["stdout"].split()
        assert words[0].startswith(b"/dev/pts/")
        assert words[1:] == [b"xterm", b"here"]
        await session.resize(120, 41)
        assert (await said(session))["stdout"] == b"41 120\r\n"
        assert await session.exit_code() == 5


async def a_terminals_keys_interrupt_its_command(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    async with executed(outside, container_id, "echo here; exec sleep 1000", stdin=True, tty=True) as session:
        await said(session, until=b"here")
        await session.send(b"\x03")
        assert await session.exit_code() == 130


async def closing_ends_the_command(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    for tty in (False, True):
        async with executed(outside, container_id, f"echo $$.; {IDLE}", tty=tty) as session:
            words = await said(session, until=b".")
        pid = words["stdout"].decode().strip().rstrip(".")
        assert (await outside.runtime.exec_sync(container_id, ("sh", "-c", f"kill -0 {pid}"), 10)).exit_code != 0


async def closing_wakes_who_waits_for_output(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    async with executed(outside, container_id, IDLE) as session:
        waiting = asyncio.create_task(said(session))
        await asyncio.sleep(0)
        await session.close()
        assert await waiting == {"stdout": b"", "stderr": b""}
        assert await session.exit_code() == 137


async def a_command_waits_until_its_output_is_taken(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    async with executed(outside, container_id, "head -c 1000000 /dev/zero") as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await session.exit_code()
        assert len((await said(session))["stdout"]) == 1000000
        assert await session.exit_code() == 0


async def sending_waits_until_the_command_reads(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    async with executed(outside, container_id, "read line; head -c 999994 | wc -c", stdin=True) as session:
        waiting = asyncio.create_task(session.send(b"x" * 999999 + b"\n"))
        await asyncio.wait([waiting], timeout=0.1)
        await waiting
        await session.send(b"y" * 1000000)
        await session.close_input()
        assert int((await said(session))["stdout"]) == 999994
    async with executed(outside, container_id, "sleep 1000", stdin=True) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await session.send(b"x" * 1000000)


async def many_commands_run_side_by_side(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)

    async def one(number: int) -> bytes:
        async with executed(outside, container_id, "cat", stdin=True, tty=number % 2 == 1) as session:
            await session.send(f"number {number}.\n".encode())
            return (await said(session, until=b"."))["stdout"].split(b".")[0]

    answers = await asyncio.gather(*(one(number) for number in range(20)))
    assert answers == [f"number {number}".encode() for number in range(20)]


async def a_command_ends_with_its_container(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    async with executed(outside, container_id, IDLE) as session:
        await outside.runtime.stop_container(container_id, 0)
        assert await said(session) == {"stdout": b"", "stderr": b""}
        assert await session.exit_code() == 137


async def what_cannot_be_run_is_refused(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    for tty in (False, True):
        with pytest.raises(Invalid, match="no-such-program"):
            await outside.streams.exec(
                container_id, ("no-such-program",), stdin=False, stdout=True, stderr=True, tty=tty
            )
    await outside.runtime.stop_container(container_id, 0)
    with pytest.raises(Retry, match="does not run"):
        await _run(outside, container_id)
    with pytest.raises(NotFound):
        await _run(outside, "nobody")


async def _run(outside: Dependencies, container_id: str) -> None:
    async with executed(outside, container_id, "true"):
        pass


# --- attach


async def who_attaches_hears_everything_from_then_on(outside: Dependencies) -> None:
    container_id = await outside.start("echo before; cat; exit 4", stdin=True)
    async with (
        attached(outside, container_id, stdin=True) as first,
        attached(outside, container_id, stdin=True) as second,
    ):
        await second.send(b"half a line")
        assert b"half a line" in (await said(first, until=b"half a line"))["stdout"]
        await first.close()
        await second.send(b" and half")
        await said(second, until=b"and half")
        await outside.runtime.stop_container(container_id, 0)
        assert await said(second) == {"stdout": b"", "stderr": b""}
        assert await second.exit_code() == 137


async def only_what_runs_can_be_attached_to(outside: Dependencies) -> None:
    container_id = await outside.start(IDLE)
    await outside.runtime.stop_container(container_id, 0)
    with pytest.raises(Retry, match="does not run"):
        await _attach(outside, container_id)
    with pytest.raises(NotFound):
        await _attach(outside, "nobody")


async def _attach(outside: Dependencies, container_id: str) -> None:
    async with attached(outside, container_id):
        pass


async def the_last_words_of_a_container_are_heard(outside: Dependencies) -> None:
    container_id = await outside.start("read word; echo $word; printf bad >&2; exit 4", stdin=True)
    async with attached(outside, container_id, stdin=True) as session:
        await session.send(b"good\n")
        assert await session.exit_code() == 4
        assert await said(session) == {"stdout": b"good\n", "stderr": b"bad"}


async def input_that_is_given_once_ends_with_its_session(outside: Dependencies) -> None:
    container_id = await outside.start("cat; echo over", stdin=True, stdin_once=True)
    async with attached(outside, container_id, stdin=True) as session:
        await session.send(b"all of it\n" * 20000)
        await session.close_input()
        assert (await said(session))["stdout"] == b"all of it\n" * 20000 + b"over\n"
        assert await session.exit_code() == 0


async def a_later_agent_can_attach(outside: Dependencies) -> None:
    container_id = await outside.start("cat", stdin=True)
    async with attached(outside, container_id, stdin=True) as session:
        await session.send(b"early")
        await said(session, until=b"early")
    await outside.restarted()
    async with attached(outside, container_id, stdin=True) as session:
        await session.send(b"late")
        assert (await said(session, until=b"late"))["stdout"] == b"late"


async def a_containers_terminal_can_be_attached_to(outside: Dependencies) -> None:
    script = f"trap 'stty size; exit 6' WINCH; read word; echo got $word on $(tty); {IDLE}"
    container_id = await outside.start(script, stdin=True, tty=True)
    async with attached(outside, container_id, stdin=True, tty=True) as session:
        await session.send(b"this\r")
        assert b"got this on /dev/pts/" in (await said(session, until=b"/dev/pts/"))["stdout"]
    async with attached(outside, container_id, stdin=True, tty=True) as session:
        await session.resize(100, 50)
        assert (await said(session))["stdout"].endswith(b"50 100\r\n")
        assert await session.exit_code() == 6


# --- connections


async def a_connection_leads_to_what_the_pod_listens_on(outside: Dependencies) -> None:
    sandbox_id = await _sandbox_of(outside, await outside.start(IDLE))
    assert await outside.streams.port_forward(sandbox_id, [80]) is None
    for address in ("127.0.0.1", "::1"):
        port = free_port()
        program = f"exec python3 -c '{_UPPER}' {address} {port}"
        with pytest.raises(Retry, match=f"failed to connect to localhost:{port}.*refused"):
            await outside.streams.connect(sandbox_id, port)
        container = await outside.start(program)
        own = await _sandbox_of(outside, container)
        connection = await _connected(outside, own, port)
        await connection.send(b"hello")
        await connection.end()
        assert await connection.receive() == b"HELLO"
        assert await connection.receive() == b""
        await connection.close()
    with pytest.raises(NotFound):
        await outside.streams.connect("nobody", 80)


async def a_connection_never_leads_to_what_others_listen_on(outside: Dependencies) -> None:
    """The agent itself, for example: who may reach a pod may not thereby reach all that trusts this machine."""
    sandbox_id = await _sandbox_of(outside, await outside.start(IDLE))
    came = asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        writer.close()

    for address in ("127.0.0.1", "::1", "0.0.0.0"):
        server = await asyncio.start_server(answer, address, 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Retry, match="refused: no container of the pod listens there"):
            await outside.streams.connect(sandbox_id, port)
        server.close()
        await server.wait_closed()
    assert not came.is_set()


async def a_connection_leads_to_what_a_command_listens_on(outside: Dependencies) -> None:
    """Where a container's processes can be told from others: not a promise of all."""
    container_id, port = await outside.start(IDLE), free_port()
    sandbox_id = await _sandbox_of(outside, container_id)
    async with executed(outside, container_id, f"exec python3 -c '{_UPPER}' 127.0.0.1 {port}") as session:
        await said(session, until=b"listening")
        await (await outside.streams.connect(sandbox_id, port)).close()


async def closing_a_connection_does_not_wait_for_a_pod_that_never_reads(outside: Dependencies) -> None:
    port = free_port()
    listens = f'import socket, time; s = socket.create_server(("127.0.0.1", {port})); time.sleep(1000)'
    sandbox_id = await _sandbox_of(outside, await outside.start(f"exec python3 -c '{listens}'"))
    connection = await _connected(outside, sandbox_id, port)
    with suppress(TimeoutError):
        async with asyncio.timeout(2.0):
            while True:
                await connection.send(bytes(1 << 20))
    async with asyncio.timeout(15.0):
        await connection.close()


_UPPER: Final = (
    "import socket, sys; s = socket.create_server((sys.argv[1], int(sys.argv[2])), "
    'family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET); print("listening", flush=True)\n'
    "while True:\n"
    "  c, _ = s.accept(); data = b.join(iter(lambda: c.recv(99), b)) if (b := bytes()) is not None else None\n"
    "  c.sendall(data.upper()); c.close()"
)


async def _connected(outside: Dependencies, sandbox_id: str, port: int) -> Connection:
    """As soon as somebody listens."""
    async with asyncio.timeout(DEADLINE):
        while True:
            try:
                return await outside.streams.connect(sandbox_id, port)
            except Retry:
                await asyncio.sleep(0.05)


async def _sandbox_of(outside: Dependencies, container_id: str) -> str:
    pods = await outside.runtime.pods()
    return next(each.sandbox_id for pod in pods for each in pod.containers if each.id == container_id)


PROMISES: Final[tuple[Promise, ...]] = (
    both_outputs_and_the_exit_code_of_a_command_come_home,
    a_command_that_a_signal_ends_has_128_more,
    a_command_reads_what_is_sent_and_its_end,
    a_command_without_input_finds_it_empty,
    a_terminal_controls_its_command_and_can_be_resized,
    a_terminals_keys_interrupt_its_command,
    closing_ends_the_command,
    closing_wakes_who_waits_for_output,
    a_command_waits_until_its_output_is_taken,
    sending_waits_until_the_command_reads,
    many_commands_run_side_by_side,
    a_command_ends_with_its_container,
    what_cannot_be_run_is_refused,
    only_what_runs_can_be_attached_to,
    who_attaches_hears_everything_from_then_on,
    the_last_words_of_a_container_are_heard,
    input_that_is_given_once_ends_with_its_session,
    a_later_agent_can_attach,
    a_containers_terminal_can_be_attached_to,
    a_connection_leads_to_what_the_pod_listens_on,
    a_connection_never_leads_to_what_others_listen_on,
    closing_a_connection_does_not_wait_for_a_pod_that_never_reads,
)
