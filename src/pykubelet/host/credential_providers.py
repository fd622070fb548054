"""Credentials for images from the kubelet's credential provider plug-ins: programs in a folder, asked over their
standard input, as clouds have them for their registries.

A plug-in that fails leaves the pull without its credentials, and says so in the log; what it answered is never told.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.api.image import parse_image
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid
from pykubelet.pod.images.credential_providers import (
    Answer,
    Plugin,
    cache_keys,
    read_answer,
    read_plugins,
    request,
    without_secrets,
)
from pykubelet.pod.images.keyring import lookup
from pykubelet.pod.ports.runtime import PullCredentials

log = logging.getLogger(__name__)

TIMEOUT: Final = 60.0
_MOST_OUTPUT: Final = 1 << 20
_SUFFIXES: Final = (".json", ".yaml", ".yml")
_CHUNK: Final = 1 << 16


class CredentialProviderSettings(Struct, frozen=True, kw_only=True):
    config: str = ""
    """A file, or a folder of files, that says which plug-ins there are; empty: none."""
    bin_dir: str = ""
    """Where the plug-ins are."""


Entries = tuple[tuple[str, PullCredentials], ...]


def load_credential_providers(
    config: str, bin_dir: str, *, environ: Mapping[str, str] = os.environ, timeout: float = TIMEOUT
) -> "CredentialProviders":
    """From a file, or a folder of files. Raises Invalid with the place of what is wrong."""
    if not config:
        raise Invalid("--image-credential-provider-bin-dir needs --image-credential-provider-config, and has none")
    if not bin_dir:
        raise Invalid("--image-credential-provider-config needs --image-credential-provider-bin-dir, and has none")
    plugins = read_plugins([(str(path), _read(path)) for path in _files(Path(config))])
    if not Path(bin_dir).is_dir():
        raise Invalid(f"{bin_dir}: there is no such folder of credential provider plug-ins")
    return CredentialProviders(
        tuple(CachingPlugin(each, PluginProgram(each, _program(bin_dir, each), environ, timeout)) for each in plugins)
    )


def _files(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        files = sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES and not each.is_dir())
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from None
    if not files:
        raise Invalid(f"{path}: holds no file of credential providers; their names end with {', '.join(_SUFFIXES)}")
    return files


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from None


def _program(bin_dir: str, plugin: Plugin) -> str:
    path = os.path.join(bin_dir, plugin.name)
    if not os.path.isfile(path):
        raise Invalid(f"{path}: there is no such program, but provider {plugin.name} needs it")
    if not os.access(path, os.X_OK):
        raise Invalid(f"{path}: cannot be run; make it executable (chmod +x), for provider {plugin.name} needs it")
    return path


class CredentialProviders:
    """The Keyring of a node with plug-ins."""

    def __init__(self, plugins: "tuple[CachingPlugin, ...]") -> None:
        self._plugins = plugins

    async def credentials(self, image: str, pod: Pod) -> tuple[PullCredentials, ...]:
        try:
            repository = parse_image(image).repository
        except ValueError:
            return ()
        said = await asyncio.gather(*(each.entries(repository) for each in self._plugins))
        return lookup(repository, (entry for entries in said for entry in entries))


class _Turn:
    """Those who ask about one image now: the first one runs the plug-in, for all of them."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0
        self.answer: Entries | None = None
        """Of a run that ended while they waited."""


class CachingPlugin:
    """One plug-in, and what it said that still holds. `run` asks the program; it raises ValueError."""

    def __init__(self, plugin: Plugin, run: Callable[[str], Awaitable[Answer]]) -> None:
        self._plugin = plugin
        self._run = run
        self._cache: dict[str, tuple[float, Entries]] = {}
        """By image, registry or everything: until when, on the loop's clock, and what."""
        self._turns: dict[str, _Turn] = {}

    async def entries(self, repository: str) -> Entries:
        """Never raises: a plug-in that fails has none."""
        if not self._plugin.covers(repository):
            return ()
        turn = self._turns.setdefault(repository, _Turn())
        turn.waiting += 1
        try:
            async with turn.lock:
                if turn.answer is None:
                    turn.answer = await self._ask(repository)
                return turn.answer
        finally:
            turn.waiting -= 1
            if not turn.waiting:  # who comes from now on asks anew
                del self._turns[repository]

    async def _ask(self, repository: str) -> Entries:
        now = asyncio.get_running_loop().time()
        for key in cache_keys(repository):
            until, entries = self._cache.get(key, (0.0, ()))
            if now < until:
                return entries
        try:
            answer = await self._run(repository)
        except ValueError as error:
            name = self._plugin.name
            log.warning("credential provider %s has no credentials for image %s: it %s", name, repository, error)
            return ()
        now = asyncio.get_running_loop().time()
        self._cache = {key: kept for key, kept in self._cache.items() if now < kept[0]}
        if answer.cache_for > 0:
            self._cache[answer.cache_key] = now + answer.cache_for, answer.entries
        return answer.entries


class PluginProgram:
    """Runs the program of a plug-in, with the agent's environment and what the configuration adds to it."""

    def __init__(self, plugin: Plugin, path: str, environ: Mapping[str, str], timeout: float = TIMEOUT) -> None:
        self._plugin = plugin
        self._path = path
        self._environ = environ
        self._timeout = timeout

    async def __call__(self, repository: str) -> Answer:
        """Raises ValueError with the end of a sentence about the program."""
        code, output, complaints = await self._run_to_end(request(self._plugin, repository))
        try:
            if code:
                raise ValueError(f"ended with code {code}")
            if len(output) > _MOST_OUTPUT:
                raise ValueError(f"printed more than {_MOST_OUTPUT >> 20} MiB")
            return read_answer(self._plugin, repository, output)
        except ValueError as error:
            said = without_secrets(self._plugin, complaints, output)
            raise ValueError(f"{error}; it complained: {said}" if said else str(error)) from None

    async def _run_to_end(self, question: bytes) -> tuple[int, bytes, bytes]:
        """-> its exit code, what it printed and what it complained of, neither much longer than it may be."""
        program = None
        try:
            async with asyncio.timeout(self._timeout):
                program = await asyncio.create_subprocess_exec(
                    self._path,
                    *self._plugin.args,
                    env={**self._environ, **dict(self._plugin.env)},
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    start_new_session=True,  # so that a program that forks can be ended whole
                )
                assert program.stdin
                assert program.stdout
                assert program.stderr
                output, complaints, _ = await asyncio.gather(
                    _read_bounded(program.stdout), _read_bounded(program.stderr), _tell(program.stdin, question)
                )
                return await program.wait(), output, complaints
        except TimeoutError:
            if program is not None and program.returncode is not None:
                _kill(program)  # it has ended, but not a child of it that holds its output open
            raise ValueError(f"did not finish within {self._timeout:g} s") from None
        except OSError as error:
            raise ValueError(f"cannot be run: {error.strerror}") from None
        finally:
            if program is not None:
                await _gone(program)


async def _tell(stdin: asyncio.StreamWriter, question: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # one that does not want to know may answer all the same
        stdin.write(question)
        await stdin.drain()
    stdin.close()
    with suppress(BrokenPipeError, ConnectionResetError):
        await stdin.wait_closed()


async def _read_bounded(stream: asyncio.StreamReader) -> bytes:
    """All that is printed, up to a little more than there may be. The rest is read and forgotten: a program that waits
    for its reader would never end."""
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        if len(kept) <= _MOST_OUTPUT:
            kept += chunk
    return bytes(kept)


def _kill(program: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)


async def _gone(program: asyncio.subprocess.Process) -> None:
    """Nothing of the program is left when it took too long, or when the caller was cancelled while it ran."""
    if program.returncode is None:
        _kill(program)
    program._transport.close()  # type: ignore[attr-defined]  # a child of it may hold the other ends for ever
    await program.wait()
