"""A certificate and its key: as PEM, in files that nobody else reads, and in a TLS context."""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from pykubelet.base.errors import Invalid
from pykubelet.base.whole_files import write_whole

_LARGEST_FILE: Final = 16 << 20

Stamp = tuple[int, int, int] | None


@dataclass(frozen=True)
class KeyPair:
    """A certificate with its chain, and its key; PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def key_pem(key: PrivateKeyTypes) -> bytes:
    """In the form that kubelets write, which every reader of keys knows."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def stamp(path: Path) -> Stamp:
    """Changes when the file does, also by a symbolic link that leads elsewhere; None for one that is not there."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def read_pem(path: Path) -> bytes:
    """Raises Invalid when it cannot be read, or is too large to be one."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST_FILE:
        raise Invalid(f"{path} is larger than {_LARGEST_FILE:,} bytes")
    return data


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Whole or not at all. Its folder is made if need be. Raises Invalid."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data, mode)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}") from None


def add_key_pair(context: ssl.SSLContext, pair: KeyPair, where: str) -> None:
    """By way of memory: a key that came as data never touches a disk, and what is checked is what is used even while
    somebody writes the files. Raises Invalid, which names `where` the two are."""
    descriptor = os.memfd_create("key-pair")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(pair.certificate + b"\n" + pair.key)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_passphrase)
    except _EncryptedKeyError:
        raise Invalid(f"{where}: the key is encrypted: give one without a passphrase") from None
    except ssl.SSLError as error:
        mixed_up = error.reason == "KEY_VALUES_MISMATCH"
        why = "do not belong together" if mixed_up else "cannot be read: they have to be PEM"
        raise Invalid(f"{where} {why}") from None
    finally:
        os.close(descriptor)


class _EncryptedKeyError(Exception):
    """OpenSSL wants a passphrase; it would ask for it at the terminal."""


def _no_passphrase(*_: Any) -> str:
    raise _EncryptedKeyError
