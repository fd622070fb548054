"""`/logs/?query=SERVICE`: what a service of this machine has written into the journal, for those who may read logs and
have no other way in. Decides what may be asked for; journalctl answers."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from aiohttp import web
from multidict import MultiMapping

from pykubelet.base.errors import Invalid

_JOURNAL: Final = "journalctl"
_OPTIONS: Final = ("sinceTime", "untilTime", "tailLines", "boot", "pattern")
_UNSAFE: Final = re.compile(r"[^a-zA-Z\-_.:0-9@]")
_MOST_SERVICES: Final = 4
_LONGEST_NAME: Final = 256
_MOST_LINES: Final = 100_000
_SECONDS: Final = 30.0
_PART: Final = 64 << 10


class LogQuery(NamedTuple):
    services: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    lines: int | None = None
    boot: int | None = None
    pattern: str = ""

    @property
    def has_options(self) -> bool:
        return self[2:] != LogQuery()[2:]

    def arguments(self) -> list[str]:
        """Of journalctl. Each value is part of a word that begins with its option: none can pass for another one."""
        found = ["--utc", "--no-pager", "--output=short-precise"]
        if self.since is not None:
            found.append(f"--since={self.since:%Y-%m-%d %H:%M:%S} UTC")
        if self.until is not None:
            found.append(f"--until={self.until:%Y-%m-%d %H:%M:%S} UTC")
        if self.lines is not None:
            found += ["--pager-end", f"--lines={self.lines}"]
        found += [f"--unit={service}" for service in self.services]
        if self.pattern:
            found.append(f"--grep={self.pattern}")
        if self.boot is not None:
            found.append(f"--boot={self.boot}")
        return found


def parsed(query: MultiMapping[str]) -> LogQuery | None:
    """None when nothing is asked for. Raises Invalid for what cannot be read."""
    if "query" not in query and not any(query.get(name) for name in _OPTIONS):
        return None
    asked = [each for each in query.getall("query", []) if each.strip()]
    if "query" in query and not asked:
        raise Invalid("query: may not be empty\n")
    return LogQuery(
        services=tuple(each for each in asked if "/" not in each and "\\" not in each),
        files=tuple(each.replace("\\", "/") for each in asked if "/" in each or "\\" in each),
        since=_time(query, "sinceTime"),
        until=_time(query, "untilTime"),
        lines=_number(query, "tailLines"),
        boot=_number(query, "boot"),
        pattern=query.get("pattern", ""),
    )


def problems(asked: LogQuery) -> Iterator[str]:
    """What is wrong with it, although it can be read."""
    for service in asked.services:
        if len(service) > _LONGEST_NAME or _UNSAFE.search(service):
            yield f"query: {service[:40]!r} is not the name of a service"
    if len(asked.services) > _MOST_SERVICES:
        yield f"query: must not name more than {_MOST_SERVICES} services"
    if not asked.services and not asked.files:
        yield "query: cannot be empty with options"
    if asked.files and (asked.services or len(asked.files) > 1):
        yield "query: cannot name a file and anything else"
    if asked.files and asked.has_options:
        yield "query: cannot name a file with options"
    if asked.since and asked.until and asked.since > asked.until:
        yield "untilTime: must be after sinceTime"
    if asked.boot is not None and asked.boot > 0:
        yield "boot: must be less than 1"
    if asked.lines is not None and not 0 <= asked.lines <= _MOST_LINES:
        yield f"tailLines: must be from 0 to {_MOST_LINES}"
    if "\0" in asked.pattern:
        yield "pattern: must be text"


async def known_services(services: tuple[str, ...]) -> tuple[str, ...]:
    """Those that the journal has something of."""
    text = b"".join([part async for part in _said(["--field", "_SYSTEMD_UNIT"])])
    units = set(text.decode(errors="replace").split())
    return tuple(each for each in services if each in units or f"{each}.service" in units)


async def send_journal(request: web.Request, asked: LogQuery) -> web.StreamResponse:
    headers = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    async for part in _said(asked.arguments()):
        await response.write(part)
    return response


async def _said(arguments: list[str]) -> AsyncIterator[bytes]:
    """What journalctl says, for as long as it may take; nothing where there is none."""
    try:
        process = await asyncio.create_subprocess_exec(
            *(_JOURNAL, *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError:
        return
    assert process.stdout is not None
    deadline = asyncio.get_running_loop().time() + _SECONDS
    try:
        while part := await asyncio.wait_for(process.stdout.read(_PART), deadline - asyncio.get_running_loop().time()):
            yield part
    except TimeoutError:
        yield b"\nit takes too long: ask for less\n"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _time(query: MultiMapping[str], name: str) -> datetime | None:
    text = query.get(name, "")
    try:
        found = datetime.fromisoformat(text) if text else None
        if found is not None and found.tzinfo is None:
            raise ValueError
    except ValueError:
        raise Invalid(f"{name}: {text[:40]!r} is not a time such as 2026-01-02T15:04:05Z\n") from None
    return found.astimezone(UTC) if found else None


def _number(query: MultiMapping[str], name: str) -> int | None:
    text = query.get(name, "")
    try:
        return int(text) if text else None
    except ValueError:
        raise Invalid(f"{name}: {text[:40]!r} is not a whole number\n") from None
