"""TLS of the agent's HTTP API: its certificate and the authorities of its clients, always as the files are now.

The server gets one context, which hands every handshake on to the newest one: connections that are open stay, and
new ones see the new certificate. What cannot be used changes nothing, and is said once.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from msgspec import Struct

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.server.auth.client_certificates import is_issued_by
from pykubelet.server.settings import TlsSettings
from pykubelet.web import self_signed
from pykubelet.web.ciphers import Protocol

log = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 5.0
_SOON: Final = 0.5
"""While there is no certificate at all, and nobody can connect."""
_LARGEST_FILE: Final = 16 << 20

Stamps = tuple[tuple[str, int, int, int], ...]


class _Trust(Struct, frozen=True):
    """The authorities of clients."""

    pem: bytes
    authorities: tuple[x509.Certificate, ...]


class _Context(ssl.SSLContext):
    """A context that remembers by whose word it believes a client certificate."""

    trust: _Trust | None = None


class ServingTls:
    """`context()` is for the server; `run()` keeps it up to date, until cancelled."""

    def __init__(
        self,
        settings: TlsSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        look_again: float = _LOOK_AGAIN,
    ) -> None:
        if bool(settings.cert_file) != bool(settings.key_file):
            raise Invalid("tlsCertFile and tlsPrivateKeyFile belong together: give both, or neither")
        self._settings = settings
        self._now = now
        self._look_again = look_again
        self._protocol = Protocol(settings.min_version, settings.cipher_suites)
        self._current: _Context | None = None
        self._made_from: Stamps = ()
        self._complaint = ""

    def context(self) -> ssl.SSLContext:
        """For the server, for as long as it runs. Raises Invalid when the files cannot be used."""
        self._made_from, self._current = self._made()
        if self._current is None:
            log.info("the HTTP API refuses connections until its serving certificate is issued")
        front = self._bare()
        front.sni_callback = self._hand_on
        return front

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._look_again if self._current else min(_SOON, self._look_again))
            await self.refresh()

    async def refresh(self) -> None:
        """Look at the files now. Never raises for what is in them."""
        try:
            if await asyncio.to_thread(self._is_unchanged):
                return
            made_from, made = await asyncio.to_thread(self._made)
        except PykubeletError as error:
            if str(error) != self._complaint:
                log.warning("the former TLS files stay in force: %s", error)
            self._complaint = str(error)
            return
        self._made_from, self._complaint = made_from, ""
        if made is not None:
            self._current = made
            log.info("the HTTP API uses the new TLS files from now on")

    def client_certificate(self, tls: ssl.SSLObject) -> x509.Certificate | None:
        """What the other side of a connection has proven to be; None when it showed nothing.

        A handshake is believed for as long as the authorities are the same. When they have changed since, one of
        those of now has to have signed the certificate, else Invalid.
        """
        current = self._current
        if current is None or current.trust is None:
            return None
        der = tls.getpeercert(binary_form=True)
        if der is None:
            return None
        certificate = _parsed(der)
        seen_by = tls.context.trust if isinstance(tls.context, _Context) and not tls.session_reused else None
        if seen_by is not None and seen_by.pem == current.trust.pem:
            return certificate
        if is_issued_by(certificate, current.trust.authorities, self._now()):
            return certificate
        raise Invalid("the authorities have changed since the client certificate was seen: connect again")

    # --- inside

    def _hand_on(self, tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        tls.context = self._current
        return None

    def _made(self) -> tuple[Stamps, _Context | None]:
        """From the files of now; no context while no certificate was issued. Stamps first: a file may change while
        it is read."""
        pair = self._pair()
        stamps = _stamps(self._paths(pair))
        trust = _trust(self._settings.client_ca_file) if self._settings.client_ca_file else None
        if pair is None:
            return stamps, None
        context = self._bare()
        _add_pair(context, *pair)
        if trust is not None:
            context.load_verify_locations(cadata=trust.pem.decode("ascii"))
            context.trust = trust
        return stamps, context

    def _pair(self) -> tuple[Path, Path] | None:
        settings = self._settings
        if settings.issued:
            current = settings.cert_dir / "kubelet-server-current.pem"
            if current.exists():
                return current, current
        if settings.cert_file:
            return Path(settings.cert_file), Path(settings.key_file)
        if settings.issued:
            return None
        return self_signed.ensure(settings.cert_dir, settings.node_name, settings.addresses, self._now())

    def _paths(self, pair: tuple[Path, Path] | None) -> list[Path]:
        authorities = self._settings.client_ca_file
        return [*(pair or ()), *([Path(authorities)] if authorities else [])]

    def _is_unchanged(self) -> bool:
        return _stamps(self._paths(self._pair())) == self._made_from

    def _bare(self) -> _Context:
        """All but the files. A handshake takes these settings from the context that it begins with."""
        context = _Context(ssl.PROTOCOL_TLS_SERVER)
        self._protocol.apply(context)
        if self._settings.client_ca_file:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an authority need not be at the root of all
        context.set_alpn_protocols(["http/1.1"])
        # A resumed session would bring its client certificate along without anybody looking at it again.
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        return context


@lru_cache(maxsize=128)
def _parsed(der: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise Invalid("the client certificate cannot be read") from None


def _stamps(paths: Sequence[Path]) -> Stamps:
    """Change when a file does, also by a symbolic link that leads elsewhere."""
    found = []
    for path in paths:
        try:
            stat = path.stat()
        except OSError:
            found.append((str(path), 0, 0, 0))
        else:
            found.append((str(path), stat.st_ino, stat.st_mtime_ns, stat.st_size))
    return tuple(found)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST_FILE:
        raise Invalid(f"{path} is larger than {_LARGEST_FILE:,} bytes")
    return data


def _trust(path: str) -> _Trust:
    pem = _read(Path(path))
    try:
        authorities = tuple(x509.load_pem_x509_certificates(pem))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ValueError, ssl.SSLError):
        raise Invalid(f"clientCAFile: {path} holds no certificate that can be read: it has to be PEM") from None
    return _Trust(pem, authorities)


def _add_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """By way of memory: what is checked is what is used, even while somebody writes the files."""
    data = _read(certificate)
    if key != certificate:
        data += b"\n" + _read(key)
    descriptor = os.memfd_create("serving-certificate")
    where = str(certificate) if key == certificate else f"{certificate} and {key}"
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_passphrase)
    except _EncryptedKeyError:
        raise Invalid(f"{key}: the key is encrypted; give one without a passphrase") from None
    except ssl.SSLError as error:
        mixed_up = error.reason == "KEY_VALUES_MISMATCH"
        why = "do not belong together" if mixed_up else "are no certificate with its key that can be read; both are PEM"
        raise Invalid(f"{where} {why}") from None
    finally:
        os.close(descriptor)


class _EncryptedKeyError(Exception):
    """OpenSSL wants a passphrase; it would ask for it at the terminal."""


def _no_passphrase(*_: Any) -> str:
    raise _EncryptedKeyError
