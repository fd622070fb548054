"""From the lines of a log file (`time stream tag text`) to what somebody who asked for a log gets to see.

Fast, since somebody may follow a container that writes as fast as it can: whole blocks of lines at a time, and a closer
look only at lines that need one.
"""

from datetime import datetime

from pykubelet.pod.container.logs import LogOptions

_FULL = b"F"


class Lines:
    """Blocks of a file in, text out, in any pieces. `is_full` once the limit is reached: then nothing more comes."""

    def __init__(self, options: LogOptions) -> None:
        self.is_full = False
        self._timestamps = options.timestamps
        self._since = options.since
        self._stream = options.stream
        self._left = options.limit
        self._rest = b""
        self._is_new_line = True

    def feed(self, block: bytes) -> bytes:
        if not block:
            return b""
        head, newline, rest = block.rpartition(b"\n")
        if not newline:
            self._rest += block
            return b""
        lines = (self._rest + head).split(b"\n")
        self._rest = rest
        return self._limited(self._text(lines))

    def end(self) -> bytes:
        """The last line may have no end, when its writer was killed."""
        rest, self._rest = self._rest, b""
        return self._limited(self._text([rest])) if rest else b""

    def _text(self, lines: list[bytes]) -> bytes:
        parts = [line.split(b" ", 3) for line in lines]
        if self._since is None and self._is_new_line and all(len(part) == 4 and part[2] == _FULL for part in parts):
            if self._stream:
                parts = [part for part in parts if part[1] == self._stream]
            if not parts:
                return b""
            if self._timestamps:
                return b"\n".join([b"%b %b" % (part[0], part[3]) for part in parts]) + b"\n"
            return b"\n".join([part[3] for part in parts]) + b"\n"
        return b"".join(filter(None, map(self._one, parts)))

    def _one(self, part: list[bytes]) -> bytes:
        """A line that is no line of a log is left out."""
        if len(part) < 3 or part[1] not in (b"stdout", b"stderr"):
            return b""
        if self._since is not None:
            moment = _moment(part[0])
            if moment is None or moment < self._since:
                return b""
            self._since = None  # what follows is younger
        if self._stream and part[1] != self._stream:
            return b""
        text = part[3] if len(part) == 4 else b""
        is_full = part[2].split(b":", 1)[0] == _FULL
        prefix = part[0] + b" " if self._timestamps and self._is_new_line else b""
        self._is_new_line = is_full
        return prefix + text + (b"\n" if is_full else b"")

    def _limited(self, text: bytes) -> bytes:
        if self._left is None:
            return text
        text = text[: self._left]
        self._left -= len(text)
        self.is_full = self._left == 0
        return text


def _moment(stamp: bytes) -> datetime | None:
    try:
        found = datetime.fromisoformat(stamp.decode("ascii"))
    except ValueError:
        return None
    return found if found.tzinfo else None
