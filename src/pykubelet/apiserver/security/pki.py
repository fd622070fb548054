"""The folder of certificates and keys: made at the first start, renewed in time, readable by nobody else.

The files have the names that other tools for clusters give them. Blocking: call from a thread, or before the loop runs.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pykubelet.apiserver.requests.users import MASTERS, NODE_PREFIX, NODES
from pykubelet.apiserver.security.authority import Authority, Pair, general_name, is_due, is_issued_by, private_pem
from pykubelet.base.errors import Invalid

_LARGEST: Final = 1 << 20
_SHORTEST_TOKEN: Final = 32
ADMIN: Final = "kubernetes-admin"
KUBELET_CLIENT: Final = "kube-apiserver-kubelet-client"


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

    def serving(self, hosts: Sequence[str]) -> tuple[Path, Path]:
        """Of the API server; made anew when a name is missing in it, too."""
        wanted = frozenset(map(general_name, hosts))
        return self._kept(
            "apiserver",
            lambda now: self.authority.server("kube-apiserver", hosts, now),
            lambda certificate: wanted <= _hosts(certificate),
        )

    def admin(self) -> tuple[Path, Path]:
        return self._kept("admin", lambda now: self.authority.client(ADMIN, (MASTERS,), now))

    def kubelet_client(self) -> tuple[Path, Path]:
        """With which the API server comes to kubelets."""
        return self._kept(
            "apiserver-kubelet-client", lambda now: self.authority.client(KUBELET_CLIENT, (MASTERS,), now)
        )

    def node(self, name: str) -> tuple[Path, Path]:
        """For a kubelet on this machine, which needs not ask for one."""
        user = f"{NODE_PREFIX}{name}"
        return self._kept(f"node-{name}", lambda now: self.authority.client(user, (NODES,), now))

    def node_serving(self, name: str, hosts: Sequence[str]) -> tuple[Path, Path]:
        """For the HTTP API of a kubelet on this machine, which needs not ask for one."""
        wanted = frozenset(map(general_name, hosts))
        return self._kept(
            f"node-{name}-serving",
            lambda now: self.authority.server(f"{NODE_PREFIX}{name}", hosts, now),
            lambda certificate: wanted <= _hosts(certificate),
        )

    def service_account_key(self) -> ec.EllipticCurvePrivateKey:
        """Signs the tokens of service accounts: a new one would make all of them worthless."""
        path = self.folder / "sa.key"
        if not path.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            write_private(path, private_pem(key))
            return key
        try:
            found = serialization.load_pem_private_key(_read(path), password=None)
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
        token = _read(path).decode("ascii", "replace").strip()
        if len(token) < _SHORTEST_TOKEN:
            raise Invalid(f"{path} holds no token of {_SHORTEST_TOKEN} characters or more: remove it to get a new one")
        return token

    def _kept(
        self, name: str, make: Callable[[datetime], Pair], is_fit: Callable[[bytes], bool] = lambda certificate: True
    ) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        now = self._now()
        if certificate.exists() and key.exists():
            there = _read(certificate)
            is_ours = is_issued_by(there, self.authority.certificate) and _belong(there, _read(key))
            if is_ours and not is_due(there, now) and is_fit(there):
                return certificate, key
        made = make(now)
        write_private(key, made.key)
        write_private(certificate, made.certificate, 0o644)
        return certificate, key


def _authority(certificate: Path, key: Path, now: datetime) -> Authority:
    try:
        if certificate.exists():
            if not key.exists():
                raise Invalid(f"{certificate} is there, but {key} is not: put it back, or remove the certificate, too")
            authority = Authority.load(Pair(_read(certificate), _read(key)))
            if authority.certificate.not_valid_after_utc <= now:
                until = authority.certificate.not_valid_after_utc
                raise Invalid(
                    f"{certificate} has expired on {until:%Y-%m-%d}: remove the folder to begin a new cluster"
                )
            return authority
        half_made = serialization.load_pem_private_key(_read(key), password=None) if key.exists() else None
    except (ValueError, TypeError):
        raise Invalid(f"{key} cannot be read as a key: put the right one back, or remove it") from None
    if half_made is not None and not isinstance(half_made, ec.EllipticCurvePrivateKey):
        raise Invalid(f"{key} is no elliptic curve key: put the right one back, or remove it")
    authority = Authority.make(now, half_made)
    made = authority.pair()
    write_private(key, made.key)  # first: a certificate without its key would be of no use
    write_private(certificate, made.certificate, 0o644)
    return authority


def _hosts(certificate: bytes) -> frozenset[x509.GeneralName]:
    try:
        read = x509.load_pem_x509_certificate(certificate)
        return frozenset(read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (ValueError, x509.ExtensionNotFound):
        return frozenset()


def _belong(certificate: bytes, key: bytes) -> bool:
    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
        return public == serialization.load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError):
        return False


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise Invalid(f"{path} is larger than {_LARGEST:,} bytes")
    return data


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """The file has the old content or the new, never a part, and at no moment more readers than `mode` gives it."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        new.replace(path)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}") from None
