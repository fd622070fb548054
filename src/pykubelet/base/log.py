"""Where log lines go and what they look like: one line each, for people by default, JSON for machines."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TextIO

_OURS: Final = "pykubelet"

LogFormat = Literal["text", "json"]


class LogSettings(NamedTuple):
    verbosity: int = 0
    format: LogFormat = "text"
    modules: Mapping[str, int] = MappingProxyType({})
    """The verbosity of single ones."""


_BREAKS: Final = {
    each: repr(chr(each))[1:-1] for each in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029) if chr(each) != "\t"
}
"""What could begin a new line or drive a terminal, and how it is shown instead."""
_JSON_BREAKS: Final = {each: f"\\u{each:04x}" for each in _BREAKS}


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("pykubelet."),
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False).translate(_JSON_BREAKS)


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # A message may carry text from outside: it must not be able to forge a second line.
        message = record.getMessage().translate(_BREAKS)
        lines = [f"{_time(record)} {record.levelname:<7} {record.name.removeprefix('pykubelet.')}: {message}"]
        if record.exc_info:  # an error's own text may have line breaks too: what is indented is no line of ours
            lines += [f"    {each.translate(_BREAKS)}" for each in self.formatException(record.exc_info).split("\n")]
        return "\n".join(lines)


class _ModuleLevels(logging.Filter):
    """Lets through of each module what its own verbosity asks for, and of all others what everybody's does."""

    def __init__(self, level: int, modules: Mapping[str, int]) -> None:
        super().__init__()
        self.level = level
        self._modules = {pattern: _level(verbosity) for pattern, verbosity in modules.items()}

    def filter(self, record: logging.LogRecord) -> bool:
        path = record.name.replace(".", "/")
        for pattern, level in self._modules.items():
            if fnmatchcase(path if "/" in pattern else record.module, pattern):
                return record.levelno >= level
        return record.levelno >= self.level or not record.name.startswith(_OURS)


def configure_logging(
    *,
    verbosity: int = 0,
    format: LogFormat = "text",
    modules: Mapping[str, int] = MappingProxyType({}),
    stream: TextIO | None = None,
) -> None:
    """Verbosity as kubelets count it: 0 to 3 tell what happens, 4 and above show how. Single `modules` may have their
    own, by a pattern of their name or, with a slash in it, of their path."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if format == "json" else _TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    if modules:
        handler.addFilter(_ModuleLevels(_level(verbosity), modules))
        verbosity = max(verbosity, *modules.values())
    logging.getLogger(_OURS).setLevel(_level(verbosity))


def set_verbosity(verbosity: int) -> None:
    """Of all modules but those that have their own."""
    filters = [each for handler in logging.getLogger().handlers for each in handler.filters]
    for levels in (each for each in filters if isinstance(each, _ModuleLevels)):
        levels.level = _level(verbosity)
        verbosity = 4  # single ones may want to be heard
    logging.getLogger(_OURS).setLevel(_level(verbosity))


def _level(verbosity: int) -> int:
    return logging.DEBUG if verbosity >= 4 else logging.INFO


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
