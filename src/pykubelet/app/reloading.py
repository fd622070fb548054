"""A configuration that changes while the agent runs: what can be applied is, what cannot is named, and a bad one
changes nothing."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.config.agent import Config
from pykubelet.config.configz import put
from pykubelet.config.options import OPTIONS

log = logging.getLogger(__name__)

_LOOK: Final = 2.0
"""Seconds between two looks at the files."""

Signature = tuple[tuple[str, int, int, int], ...]


class ConfigFiles(Struct, frozen=True, kw_only=True):
    """What the agent was configured by. `load` reads it once more, and raises Invalid."""

    load: Callable[[], Config]
    file: str = ""
    folder: str = ""
    is_watched: bool = False
    """Whether a change is enough; else somebody has to say so."""

    def signature(self) -> Signature:
        """Other when a file is. What cannot be looked at is not there."""
        paths = [Path(self.file)] if self.file else []
        paths += sorted(Path(self.folder).rglob("*.conf")) if self.folder else []
        found = []
        for path in paths:
            try:
                seen = path.stat()
            except OSError:
                continue
            found.append((str(path), seen.st_mtime_ns, seen.st_size, seen.st_ino))
        return tuple(found)


class Reloaded(Struct, frozen=True, kw_only=True):
    applied: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """What is different in the files, and needs a restart."""

    def __str__(self) -> str:
        if not self.applied and not self.kept:
            return "the configuration is what it was"
        done = f"applied: {', '.join(self.applied)}" if self.applied else "nothing was applied"
        return f"{done}; takes a restart: {', '.join(self.kept)}" if self.kept else done


class Reloading:
    """`check` raises Invalid for what this machine cannot do; `apply` cannot fail. `unable` are fields that reload in
    general, but not here."""

    def __init__(
        self,
        config: Config,
        files: ConfigFiles,
        *,
        check: Callable[[Config], None],
        apply: Callable[[Config], None],
        unable: Collection[str],
    ) -> None:
        self._in_force: dict[str, Any] = dict(config.configuration)
        self._shown = config.configuration
        self._files = files
        self._check = check
        self._apply = apply
        self._unable = frozenset(unable)
        self._turn = asyncio.Lock()

    async def run(self, asked: asyncio.Event) -> None:
        """Until cancelled: when somebody asks, or when a file has changed and has come to rest."""
        before = await asyncio.to_thread(self._files.signature)
        while True:
            has_changed = False
            if self._files.is_watched:
                seen = await asyncio.to_thread(self._files.signature)
                has_changed = seen != before
                before = seen if has_changed and await self._is_at_rest(seen) else before
                has_changed = has_changed and before == seen
            if asked.is_set() or has_changed:
                asked.clear()
                await self._reload_and_tell()
            await _wait(asked, _LOOK)

    async def reload(self) -> Reloaded:
        """Raises Invalid, and then nothing has changed."""
        async with self._turn:
            new = await asyncio.to_thread(self._files.load)
            self._check(new)
            return self._applied(new)

    def _applied(self, new: Config) -> Reloaded:
        fields = [each for each in OPTIONS if each.field and not _same(each.field, self._in_force, new.configuration)]
        applied = tuple(each.field for each in fields if each.reloads and each.field not in self._unable)
        if applied:
            self._apply(new)
        for field in applied:
            for whole in (self._in_force, self._shown):
                put(whole, field, _value(field, new.configuration))  # type: ignore[arg-type]
        return Reloaded(applied=applied, kept=tuple(each.field for each in fields if each.field not in applied))

    async def _is_at_rest(self, seen: Signature) -> bool:
        await asyncio.sleep(_LOOK / 2)
        return await asyncio.to_thread(self._files.signature) == seen

    async def _reload_and_tell(self) -> None:
        try:
            told = await self.reload()
        except Invalid as error:
            log.error("the configuration is not reloaded, and nothing is changed: %s", error)
        else:
            log.info("the configuration was read again: %s", told)


async def _wait(asked: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await asked.wait()
    except TimeoutError:
        pass


def _value(field: str, whole: Mapping[str, Any]) -> Any:
    value: Any = whole
    for part in field.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _same(field: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(_value(field, one) == _value(field, other))
