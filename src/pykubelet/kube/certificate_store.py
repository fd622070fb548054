"""Where certificates from the API server are kept: one file for each, with its key, and a link to the one in force.

Names and form are those of Kubernetes: `kubelet-client-2026-01-31-12-00-00.pem`, `kubelet-client-current.pem`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from pykubelet.base.errors import Invalid
from pykubelet.web.key_pairs import write_private

CLIENT: Final = "kubelet-client"
SERVING: Final = "kubelet-server"


@dataclass(frozen=True)
class StoredPair:
    """A certificate with its chain, and its key."""

    leaf: x509.Certificate
    chain: tuple[x509.Certificate, ...]
    key: bytes = field(repr=False)
    """PEM."""

    @property
    def begins(self) -> datetime:
        return self.leaf.not_valid_before_utc

    @property
    def expires(self) -> datetime:
        """When the first of the chain does."""
        return min(each.not_valid_after_utc for each in (self.leaf, *self.chain))


class CertificateStore:
    """All of it does file work: for a thread, outside of the start."""

    def __init__(
        self, directory: Path, prefix: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._directory = directory.absolute()
        self._prefix = prefix
        self._now = now

    @property
    def current_path(self) -> Path:
        return self._path("current")

    def current(self) -> StoredPair | None:
        """The one in force, valid or expired; None when there is none. Raises Invalid when it cannot be read."""
        path, updated = self.current_path, self._path("updated")
        try:
            if not path.exists() and updated.is_symlink():
                updated.replace(path)  # somebody was stopped between two steps
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Invalid(f"{path} cannot be read: {error.strerror}") from None
        return parsed_pair(data, data, str(path))

    def update(self, certificate: bytes, key: bytes) -> StoredPair:
        """Put a new pair into force. Raises Invalid when the two do not fit, or cannot be written."""
        pair = parsed_pair(certificate, key, "the issued certificate")
        path = self._path(f"{self._now():%Y-%m-%d-%H-%M-%S}")
        try:
            if self.current_path.exists() and not self.current_path.is_symlink():
                raise Invalid(f"{self.current_path} has to be a symbolic link: move the file elsewhere")
            write_private(path, b"".join(map(_pem, (pair.leaf, *pair.chain))) + pair.key)
            updated = self._path("updated")
            updated.unlink(missing_ok=True)
            updated.symlink_to(path)
            updated.replace(self.current_path)
        except OSError as error:
            raise Invalid(f"{error.filename or path} cannot be written: {error.strerror}") from None
        return pair

    def _path(self, what: str) -> Path:
        return self._directory / f"{self._prefix}-{what}.pem"


def parsed_pair(certificate: bytes, key: bytes, where: str) -> StoredPair:
    """From PEM; both may be in one text. Raises Invalid when something is missing or does not fit."""
    try:
        leaf, *chain = x509.load_pem_x509_certificates(certificate)
    except ValueError:
        raise Invalid(f"{where}: there is no certificate in it that can be read: it has to be PEM") from None
    try:
        private = serialization.load_pem_private_key(_key_block(key), password=None)
    except (ValueError, TypeError):
        raise Invalid(f"{where}: its key cannot be read: it has to be PEM, without a passphrase") from None
    if private.public_key() != leaf.public_key():
        raise Invalid(f"{where}: certificate and key do not belong together")
    return StoredPair(leaf, tuple(chain), _key_block(key))


def _key_block(data: bytes) -> bytes:
    """The key out of a text that may hold certificates too."""
    lines, inside = [], False
    for line in data.splitlines():
        if line.startswith(b"-----BEGIN ") and line.rstrip().endswith(b"PRIVATE KEY-----"):
            inside = True
        if inside:
            lines.append(line)
        if inside and line.startswith(b"-----END "):
            break
    return b"\n".join(lines) + b"\n"


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
