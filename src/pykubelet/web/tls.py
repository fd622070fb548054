"""TLS of a server: its certificate and the authorities of its clients, always as the files are now.

The server gets one context, which hands every handshake on to the newest one: connections that are open stay, and
new ones see the new certificate. What cannot be used changes nothing, and is said once.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from msgspec import Struct

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.web.certificates import client_certificate, holds, is_issued_by
from pykubelet.web.ciphers import TlsPolicy
from pykubelet.web.key_pairs import KeyPair, Stamp, add_key_pair, read_pem, stamp

log = logging.getLogger(__name__)

_SOON: Final = 0.5
"""While there is no certificate at all, and nobody can connect."""

Stamps = Mapping[Path, Stamp]


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
        pair: Callable[[], tuple[Path, Path] | None],
        client_ca: Path | None = None,
        *,
        policy: TlsPolicy | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        look_again: float,
    ) -> None:
        """`pair`: where certificate and key are, in two files or in one; None while there are none. It is asked in a
        thread, each time that it is looked whether something has changed, and may make them. Without `client_ca`
        nobody is asked for a certificate."""
        self._pair = pair
        self._client_ca = client_ca
        self._policy = policy or TlsPolicy("", ())
        self._now = now
        self._look_again = look_again
        self._current: _Context | None = None
        self._made_from: Stamps = {}
        self._complaint = ""

    def context(self) -> ssl.SSLContext:
        """For the server, for as long as it runs. Raises Invalid when the files cannot be used."""
        self._made_from, self._current = self._made()
        if self._current is None:
            log.info("connections are refused until the serving certificate is issued")
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
            log.info("new connections use the new TLS files from now on")

    def client_certificate(self, tls: ssl.SSLObject) -> x509.Certificate | None:
        """What the other side of a connection has proven to be; None when it showed nothing.

        A handshake is believed for as long as the authorities are the same. When they have changed since, one of
        those of now has to have signed the certificate, else Invalid.
        """
        current = self._current
        if current is None or current.trust is None:
            return None
        certificate = client_certificate(tls)
        if certificate is None:
            return None
        seen_by = tls.context.trust if isinstance(tls.context, _Context) and not tls.session_reused else None
        if seen_by is not None and seen_by.pem == current.trust.pem:
            return certificate
        now = self._now()
        if any(holds(each, now) and is_issued_by(certificate, each) for each in current.trust.authorities):
            return certificate
        raise Invalid("the authorities have changed since the client certificate was seen: connect again")

    def certificate(self) -> x509.Certificate | None:
        """The one that is shown, from its file; None while there is none that can be read."""
        try:
            pair = self._pair()
            return x509.load_pem_x509_certificate(read_pem(pair[0])) if pair else None
        except (PykubeletError, ValueError):
            return None

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
        stamps = self._stamps(pair)
        trust = _trust(self._client_ca) if self._client_ca else None
        if pair is None:
            return stamps, None
        certificate, key = pair
        context = self._bare()
        data = KeyPair(read_pem(certificate), read_pem(key) if key != certificate else b"")
        add_key_pair(context, data, f"{certificate} and {key}" if key != certificate else str(certificate))
        if trust is not None:
            context.load_verify_locations(cadata=trust.pem.decode("ascii"))
            context.trust = trust
        return stamps, context

    def _stamps(self, pair: tuple[Path, Path] | None) -> Stamps:
        return {path: stamp(path) for path in (*(pair or ()), self._client_ca) if path is not None}

    def _is_unchanged(self) -> bool:
        return self._stamps(self._pair()) == self._made_from

    def _bare(self) -> _Context:
        """All but the files. A handshake takes these settings from the context that it begins with."""
        context = _Context(ssl.PROTOCOL_TLS_SERVER)
        self._policy.apply(context)
        if self._client_ca:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an authority need not be at the root of all
        context.set_alpn_protocols(["http/1.1"])
        # A resumed session would bring its client certificate along without anybody looking at it again.
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        return context


def _trust(path: Path) -> _Trust:
    pem = read_pem(path)
    try:
        authorities = tuple(x509.load_pem_x509_certificates(pem))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_verify_locations(cadata=pem.decode("ascii"))
    except (ValueError, ssl.SSLError):
        raise Invalid(f"the client CA file {path} holds no certificate that can be read: it has to be PEM") from None
    return _Trust(pem, authorities)
