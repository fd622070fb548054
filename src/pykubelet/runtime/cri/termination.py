"""What a container said of its end: in the file that it was given for that, or else, where its pod wants so, in the
last lines of its log."""

import os
import posixpath
import stat
from typing import Final

from pykubelet.pod.container.labels import TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_POLICY
from pykubelet.runtime.cri._gen import cri_pb2 as cri

_LONGEST: Final = 4096
_LONGEST_FROM_LOG: Final = 2048
_LINES_FROM_LOG: Final = 80
_LOG_TAIL: Final = 64 * 1024
"""Lines of a log carry a time and a stream, so more has to be read than is shown."""


def termination_message(status: cri.ContainerStatus) -> str:
    """Blocks; never fails: who cannot be read has said nothing."""
    wanted = status.annotations.get(TERMINATION_MESSAGE_PATH, "")
    path = posixpath.join("/", wanted)
    file = next((mount.host_path for mount in status.mounts if wanted and mount.container_path == path), "")
    said = _end_of(file, _LONGEST).decode(errors="replace") if file else ""
    failed = status.exit_code != 0 and status.reason != "ContainerCannotRun"
    if said or not failed or status.annotations.get(TERMINATION_MESSAGE_POLICY) != "FallbackToLogsOnError":
        return said
    return log_tail(_end_of(status.log_path, _LOG_TAIL)) if status.log_path else ""


def log_tail(log: bytes) -> str:
    """The text of the last lines: each is `time stream tag text`, and a tag of P says that the line goes on."""
    texts: list[bytes] = []
    for line in log.removesuffix(b"\n").split(b"\n")[-_LINES_FROM_LOG:]:  # programs may write other ends of lines
        parts = line.split(b" ", 3)
        if len(parts) == 4:
            texts.append(parts[3] if parts[2].startswith(b"P") else parts[3] + b"\n")
    return b"".join(texts)[-_LONGEST_FROM_LOG:].decode(errors="replace")


def _end_of(path: str, most: int) -> bytes:
    """Only of a plain file: a container must not make the agent wait or read what is not its own."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        facts = os.fstat(file)
        return os.pread(file, most, max(facts.st_size - most, 0)) if stat.S_ISREG(facts.st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(file)
