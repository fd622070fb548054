"""A clock to turn, and what lies in the folder of certificates and keys."""

import stat
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime:
        return self.time


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())
