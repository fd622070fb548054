"""Where log lines go and what they look like: one line each, for people by default, JSON for machines."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

LogFormat = Literal["text", "json"]

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


def configure_logging(*, verbosity: int = 0, format: LogFormat = "text", stream: TextIO | None = None) -> None:
    """Verbosity as kubelets count it: 0 to 3 tell what happens, 4 and above show how."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if format == "json" else _TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    set_verbosity(verbosity)


def set_verbosity(verbosity: int) -> None:
    logging.getLogger("pykubelet").setLevel(logging.DEBUG if verbosity >= 4 else logging.INFO)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
