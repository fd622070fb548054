"""Whom we trust and who we are on the wire: SSL contexts from a kubeconfig, made anew when one of its files changes.

A new context makes the HTTP session open new connections, so a rotated certificate is used from the next request on.
Private keys pass through memory only: a key that came as data never touches a disk.
"""

import base64
import binascii
import logging
import ssl
from pathlib import Path

from pykubelet.base.errors import Invalid
from pykubelet.kube.errors import CredentialsError, KubeconfigError
from pykubelet.kube.kubeconfig import ClientConfig
from pykubelet.web.key_pairs import KeyPair, Stamp, add_key_pair, read_pem, stamp
from pykubelet.web.unverified import unverified_context

_log = logging.getLogger(__name__)


class Pem:
    """One PEM of a kubeconfig: its data if it has that, else its file."""

    def __init__(self, data: str, path: str, where: str) -> None:
        self.path = "" if data else path
        self._data = _decoded(data, where) if data else b""

    def __bool__(self) -> bool:
        return bool(self.path or self._data)

    def stamp(self) -> Stamp:
        """Changes when the file does; None for data, and for a file that is not there."""
        return stamp(Path(self.path)) if self.path else None

    def read(self) -> bytes:
        if not self.path:
            return self._data
        try:
            return read_pem(Path(self.path))
        except Invalid as error:
            raise CredentialsError(str(error)) from None


class TlsFiles:
    """The SSL context for a kubeconfig entry, kept up to date with its files."""

    def __init__(self, config: ClientConfig) -> None:
        cluster, user, origin = config.cluster, config.user, config.origin
        self.authority = Pem(
            cluster.certificate_authority_data, cluster.certificate_authority, f"{origin}: certificate-authority-data"
        )
        self._certificate = Pem(
            user.client_certificate_data, user.client_certificate, f"{origin}: client-certificate-data"
        )
        self._key = Pem(user.client_key_data, user.client_key, f"{origin}: client-key-data")
        self._insecure = cluster.insecure_skip_tls_verify
        if self._insecure and self.authority:
            raise KubeconfigError(
                f"{origin}: insecure-skip-tls-verify and a certificate-authority contradict each other; remove one"
            )
        if bool(self._certificate) != bool(self._key):
            raise KubeconfigError(f"{origin}: a client-certificate needs a client-key, and the other way round")
        self._context: ssl.SSLContext | None = None
        self._made_from: tuple[object, ...] = ()
        self._complaint = ""

    @property
    def has_certificate(self) -> bool:
        return bool(self._certificate)

    def context(self, own: KeyPair | None = None) -> ssl.SSLContext:
        """The context of now. `own` is a certificate from elsewhere, used when the kubeconfig has none."""
        made_from = (self.authority.stamp(), self._certificate.stamp(), self._key.stamp(), own)
        if self._context is None or made_from != self._made_from:
            try:
                self._context = self._made(own)
            except CredentialsError as error:
                # In the middle of a rotation the files do not fit each other: the next request looks again.
                if self._context is None or self._made_from[3] != own:
                    raise
                if str(error) != self._complaint:  # once, not with every request
                    _log.warning("keeping the former certificates: %s", error)
                self._complaint = str(error)
            else:
                self._made_from, self._complaint = made_from, ""
        return self._context

    def _made(self, own: KeyPair | None) -> ssl.SSLContext:
        context = unverified_context() if self._insecure else _trusting(self.authority)
        context.set_alpn_protocols(["http/1.1"])
        if self._certificate:
            _add(context, KeyPair(self._certificate.read(), self._key.read()), self._certificate.path)
        elif own is not None:
            _add(context, own)
        return context


def _decoded(data: str, where: str) -> bytes:
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        raise KubeconfigError(f"{where} is not base64") from None


def _trusting(authority: Pem) -> ssl.SSLContext:
    if not authority:
        context = ssl.create_default_context()
    else:
        try:
            context = ssl.create_default_context(cadata=authority.read().decode("ascii", "replace"))
        except (ssl.SSLError, ValueError):
            where = authority.path or "certificate-authority-data"
            raise CredentialsError(f"{where} holds no certificate that can be read: it has to be PEM") from None
    # Many clusters' own authorities lack extensions that strict checking asks for; Go programs accept them too.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _add(context: ssl.SSLContext, pair: KeyPair, path: str = "") -> None:
    try:
        add_key_pair(context, pair, f"the client certificate {path or '(data)'} and its key")
    except Invalid as error:
        raise CredentialsError(str(error)) from None
