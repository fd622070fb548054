"""The folder of certificates and keys: made at the first start, renewed in time, readable by nobody else.

The files have the names that other tools for clusters give them. Blocking: call from a thread, or before the loop runs.
"""

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pykubelet.apiserver.requests.users import KUBELET_CLIENT, MASTERS, NODE_PREFIX, NODES
from pykubelet.base.errors import Invalid, Retry
from pykubelet.web.authority import Authority, AuthorityKey, general_name
from pykubelet.web.certificates import hosts, is_due, is_issued_by, is_of_key
from pykubelet.web.key_pairs import KeyPair, key_pem, read_pem, write_private

_SHORTEST_TOKEN: Final = 32
ADMIN: Final = "kubernetes-admin"
FRONT_PROXY: Final = "front-proxy-client"


class Pki:
    """`open()` it once; every method gives what is in the files, or makes it."""

    def __init__(self, folder: Path, authority: Authority, now: Callable[[], datetime]) -> None:
        self.folder = folder
        self.authority = authority
        self._now = now

    @classmethod
    def open(cls, folder: Path, now: Callable[[], datetime]) -> "Pki":
        """Raises Invalid when the folder cannot be used, or when what is in it does not fit together."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)
        except OSError as error:
            raise Invalid(f"{folder}: the keys cannot be kept there: {error.strerror}") from None
        return cls(folder, _authority(folder / "ca.crt", folder / "ca.key", now()), now)

    @property
    def authority_file(self) -> Path:
        return self.folder / "ca.crt"

    def serving(self, names: Sequence[str]) -> tuple[Path, Path]:
        """Of the API server; made anew when a name is missing in it, too."""
        return self._server("apiserver", "kube-apiserver", names)

    def admin(self) -> tuple[Path, Path]:
        return self._keep("admin", lambda now: self.authority.client(ADMIN, (MASTERS,), now))

    def kubelet_client(self) -> tuple[Path, Path]:
        """With which the API server comes to kubelets: it may do there what it passes on, and nothing anywhere else.
        One that would make its holder a master, as was once given, is replaced."""
        return self._keep(
            "apiserver-kubelet-client",
            lambda now: self.authority.client(KUBELET_CLIENT, (), now),
            lambda certificate: not certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME),
        )

    def front_proxy(self) -> tuple[Path, Path]:
        """With which the API server comes to other API servers, who believe of it whom it speaks for: of an authority
        of its own, so that nobody else's certificate can do that."""
        authority = self.front_proxy_authority()
        return self._keep(
            FRONT_PROXY, lambda now: authority.client(FRONT_PROXY, (), now), authority=authority.certificate
        )

    def front_proxy_authority(self) -> Authority:
        name = "front-proxy-ca"
        return _authority(self.folder / f"{name}.crt", self.folder / f"{name}.key", self._now(), name)

    def node(self, name: str) -> tuple[Path, Path]:
        """For a kubelet on this machine, which needs not ask for one."""
        user = f"{NODE_PREFIX}{name}"
        return self._keep(f"node-{name}", lambda now: self.authority.client(user, (NODES,), now))

    def node_serving(self, name: str, names: Sequence[str]) -> tuple[Path, Path]:
        """For the HTTP API of a kubelet on this machine, which needs not ask for one."""
        return self._server(f"node-{name}-serving", f"{NODE_PREFIX}{name}", names)

    def service_account_key(self) -> ec.EllipticCurvePrivateKey:
        """Signs the tokens of service accounts: a new one would make all of them worthless."""
        path = self.folder / "sa.key"
        if not path.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            write_private(path, key_pem(key))
            return key
        try:
            found = serialization.load_pem_private_key(read_pem(path), password=None)
        except (ValueError, TypeError):
            found = None
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise Invalid(f"{path} holds no elliptic curve key: put the right one back, or remove it to get a new one")
        return found

    def admin_token(self) -> str:
        """For clients that cannot show a certificate; as good as the admin's."""
        path = self.folder / "admin.token"
        if not path.exists():
            write_private(path, secrets.token_urlsafe(32).encode())
        token = read_pem(path).decode("ascii", "replace").strip()
        if len(token) < _SHORTEST_TOKEN:
            raise Invalid(f"{path} holds no token of {_SHORTEST_TOKEN} characters or more: remove it to get a new one")
        return token

    def _server(self, file: str, user: str, names: Sequence[str]) -> tuple[Path, Path]:
        wanted = frozenset(map(general_name, names))
        return self._keep(
            file,
            lambda now: self.authority.server(user, names, now),
            lambda certificate: wanted <= hosts(certificate),
        )

    def _keep(
        self,
        file: str,
        make: Callable[[datetime], KeyPair],
        is_fit: Callable[[x509.Certificate], bool] = lambda certificate: True,
        authority: x509.Certificate | None = None,
    ) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{file}.crt", self.folder / f"{file}.key"
        now = self._now()
        if certificate.exists() and key.exists():
            try:
                there = x509.load_pem_x509_certificate(read_pem(certificate))
            except ValueError:
                there = None
            issuer = authority or self.authority.certificate
            is_ours = there is not None and is_issued_by(there, issuer) and is_of_key(there, read_pem(key))
            if there is not None and is_ours and not is_due(there, now) and is_fit(there):
                return certificate, key
        made = make(now)
        write_private(key, made.key)
        write_private(certificate, made.certificate, 0o644)
        return certificate, key


def _authority(certificate: Path, key: Path, now: datetime, name: str = "kubernetes") -> Authority:
    try:
        if certificate.exists():
            if not key.exists():
                raise Invalid(f"{certificate} is there, but {key} is not: put it back, or remove the certificate, too")
            authority = Authority.load(KeyPair(read_pem(certificate), read_pem(key)))
            if authority.certificate.not_valid_after_utc <= now:
                until = authority.certificate.not_valid_after_utc
                raise Invalid(
                    f"{certificate} has expired on {until:%Y-%m-%d}: remove the folder to begin a new cluster"
                )
            if now < (begin := authority.certificate.not_valid_before_utc):
                raise Retry(f"{certificate} holds from {begin:%Y-%m-%d %H:%M} on: set this machine's clock right")
            return authority
        half_made = serialization.load_pem_private_key(read_pem(key), password=None) if key.exists() else None
    except (ValueError, TypeError):
        raise Invalid(f"{key} cannot be read as a key: put the right one back, or remove it") from None
    if half_made is not None and not isinstance(half_made, AuthorityKey):
        raise Invalid(f"{key} is no key of an elliptic curve or of RSA: put the right one back, or remove it")
    authority = Authority.make(now, half_made, name=name)
    made = authority.pair()
    write_private(key, made.key)  # first: a certificate without its key would be of no use
    write_private(certificate, made.certificate, 0o644)
    return authority
