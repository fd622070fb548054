"""Small files that are whole or not there: each is written beside the old one, and takes its place."""

import os
from pathlib import Path


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
