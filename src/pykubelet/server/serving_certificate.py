"""Which certificate the kubelet's HTTP API shows: the one that the API server's signers issued, the one that it was
given, or else one that it signs itself: better than no TLS, though nobody vouches.

The authority of the latter signs this one certificate, and its key is thrown away; both certificates are in the one
file, so that who has the file can verify the kubelet.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from pykubelet.base.errors import Invalid
from pykubelet.server.settings import TlsSettings
from pykubelet.web.authority import SKEW, Authority
from pykubelet.web.certificates import is_due
from pykubelet.web.ciphers import TlsPolicy
from pykubelet.web.key_pairs import KeyPair, write_private
from pykubelet.web.tls import ServingTls

_LIFETIME: Final = timedelta(days=365) - SKEW
"""It begins a little in the past."""
_LONGEST_NAME: Final = 64
_OURS: Final = re.compile(r".*-ca@\d+")
_LOOK_AGAIN: Final = 5.0


def kubelet_tls(settings: TlsSettings, *, look_again: float = _LOOK_AGAIN) -> ServingTls:
    """TLS of the HTTP API. Raises Invalid when the settings contradict each other."""
    if bool(settings.cert_file) != bool(settings.key_file):
        raise Invalid("tlsCertFile and tlsPrivateKeyFile belong together: give both, or neither")
    return ServingTls(
        lambda: certificate_and_key(settings, datetime.now(UTC)),
        Path(settings.client_ca_file) if settings.client_ca_file else None,
        policy=TlsPolicy(settings.min_version, settings.cipher_suites),
        look_again=look_again,
    )


def certificate_and_key(settings: TlsSettings, now: datetime) -> tuple[Path, Path] | None:
    """The files of now; None while there is none, for it still has to be issued."""
    if settings.issued:
        current = settings.cert_dir / "kubelet-server-current.pem"
        if current.exists():
            return current, current
    if settings.cert_file:
        return Path(settings.cert_file), Path(settings.key_file)
    if settings.issued:
        return None
    return self_signed(settings.cert_dir, settings.node_name, settings.addresses, now)


def self_signed(directory: Path, name: str, addresses: Sequence[str], now: datetime) -> tuple[Path, Path]:
    """The paths of certificate and key: those that are there, or new ones.

    Files that somebody else put there are never touched; our own are renewed in time.
    """
    certificate, key = directory / "kubelet.crt", directory / "kubelet.key"
    there = [path for path in (certificate, key) if path.exists()]
    if len(there) == 1:
        missing = key if there[0] == certificate else certificate
        raise Invalid(f"{there[0]} is there, but {missing} is not: put the other one back, or remove this one")
    if there and not _is_ours_and_old(certificate, now):
        return certificate, key
    made = signed_by_itself(name, addresses, now)
    write_private(key, made.key)
    write_private(certificate, made.certificate, 0o644)
    return certificate, key


def signed_by_itself(name: str, addresses: Sequence[str], now: datetime) -> KeyPair:
    """The certificate is followed by its authority's."""
    stamp = int(now.timestamp())
    short = name[: _LONGEST_NAME - len(f"-ca@{stamp}")]
    authority = Authority.make(now, name=f"{short}-ca@{stamp}", lifetime=_LIFETIME)
    pair = authority.server(f"{short}@{stamp}", (name, *addresses), now, _LIFETIME)
    return KeyPair(pair.certificate + authority.pem, pair.key)


def _is_ours_and_old(path: Path, now: datetime) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        issuers = certificate.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (OSError, ValueError):
        return False
    ours = bool(issuers) and isinstance(issuers[0].value, str) and bool(_OURS.fullmatch(issuers[0].value))
    return ours and is_due(certificate, now)
