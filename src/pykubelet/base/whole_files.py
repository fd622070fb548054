"""Small files that are whole or not there: each is written beside the old one, and takes its place. And what becomes
of one that cannot be used."""

import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)


def draft_of(path: Path) -> Path:
    """Where a file is until it is whole. Who is stopped meanwhile leaves it behind, and the next one takes it away."""
    return path.with_name(f".{path.name}.new")


def write_whole(path: Path, data: bytes, mode: int = 0o600, *, outlives_power: bool = True) -> None:
    """The file has the old content or the new, never a part, and at no moment more readers than `mode` gives it. Where
    it outlives a power cut, that takes as long as the disk does. Blocks. Raises OSError."""
    draft = draft_of(path)
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        if outlives_power:
            os.fsync(descriptor)
    draft.replace(path)


def put_aside(path: Path, error: Exception, so: str) -> None:
    """It is kept as `.bad`, for who wants to know what was in it, and told of; `so` says what that means. Blocks."""
    aside = path.with_name(f"{path.name}.bad")
    log.error("%s cannot be used: %s; it is kept as %s, and %s", path, error, aside.name, so)
    try:
        path.replace(aside)
    except OSError as trouble:
        log.error("%s cannot be put aside: %s", path, trouble.strerror)
