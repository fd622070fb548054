"""TLS versions and cipher suites as Kubernetes names them, in the words of OpenSSL."""

import logging
import ssl
from collections.abc import Sequence
from typing import Final

from pykubelet.base.errors import Invalid

log = logging.getLogger(__name__)

_VERSIONS: Final = {
    "": ssl.TLSVersion.TLSv1_2,
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
"""The versions before 1.2 are broken: whoever allows them gets 1.2 and a word about it."""
_BROKEN: Final = ("VersionTLS10", "VersionTLS11")

_ALWAYS_ON: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Those of TLS 1.3, which cannot be chosen."""

_SOUND: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
_WEAK: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}


class TlsPolicy:
    """What a handshake may agree on."""

    def __init__(self, min_version: str, suites: Sequence[str]) -> None:
        if min_version not in _VERSIONS:
            known = ", ".join(name for name in _VERSIONS if name)
            raise Invalid(f"tlsMinVersion: {min_version!r} does not exist; there are: {known}")
        if min_version in _BROKEN:
            log.warning("tlsMinVersion: %s is broken; the least that is spoken is VersionTLS12", min_version)
        self._version = _VERSIONS[min_version]
        self._ciphers = ":".join(dict.fromkeys(map(_translated, _known(suites))))
        if suites and not self._ciphers:
            self._version = ssl.TLSVersion.TLSv1_3  # all that was named belongs to it
        self.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def apply(self, context: ssl.SSLContext) -> None:
        """Raises Invalid when this machine's OpenSSL knows none of the suites any more."""
        context.minimum_version = self._version
        if self._ciphers and self._version < ssl.TLSVersion.TLSv1_3:
            try:
                context.set_ciphers(self._ciphers)
            except ssl.SSLError:
                raise Invalid(f"tlsCipherSuites: {ssl.OPENSSL_VERSION} offers none of {self._ciphers}") from None


def _known(suites: Sequence[str]) -> list[str]:
    for name in suites:
        if name not in _SOUND and name not in _WEAK and name not in _ALWAYS_ON:
            raise Invalid(f"tlsCipherSuites: {name!r} does not exist; the names are those of Go's crypto/tls")
        if name in _WEAK:
            log.warning("tlsCipherSuites: %s is insecure", name)
    return [name for name in suites if name not in _ALWAYS_ON]


def _translated(name: str) -> str:
    return _SOUND.get(name) or _WEAK[name]
