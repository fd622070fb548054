"""What the embedded API server is told, and the keys and kubeconfig that it begins with.

Quick to load: `up` needs no more than this before the server itself starts.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.apiserver.security.kubeconfig import kubeconfig, write_kubeconfig
from pykubelet.apiserver.security.pki import Pki
from pykubelet.base.errors import Invalid

EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - whoever serves there has asked for it


class ApiServerConfig(Struct, frozen=True, kw_only=True):
    data: Path
    kubeconfig: Path
    """Where the administrator's is written."""
    address: str = "127.0.0.1"
    port: int = 6443
    names: tuple[str, ...] = ()
    """Further names and addresses that clients call the server by."""
    store: str = "sqlite"
    """sqlite, memory or etcd."""
    etcd_servers: tuple[str, ...] = ()
    etcd_ca: str = ""
    etcd_certificate: str = ""
    etcd_key: str = ""
    import_from: Path | None = None
    """The SQLite file of a store whose objects are brought into this one first."""
    controllers: tuple[str, ...] = ("*",)
    """Which run here, as kube-controller-manager's flag of this name says it."""
    kubelet_endpoints: tuple[str, ...] = ()
    """Where the kubelets of some nodes are, as NODE=IP:PORT, whatever the nodes themselves say."""
    cluster_dns: str = ""
    """The address of the service for names, if nodes answer for it."""
    insecure_kubelets: bool = False
    """Whether kubelets are believed whose serving certificate is not ours."""
    host_path_volumes: str = ""
    """Where volumes are made for claims, as folders; empty: nowhere."""
    service_range: str = "10.96.0.0/16"
    without_admission: tuple[str, ...] = ()
    audit_policy: str = ""
    audit_log: str = ""
    """Where the audit log is written; `-` is the standard output."""
    audit_most_days: int = 0
    audit_most_files: int = 0
    audit_most_megabytes: int = 100
    audit_compress: bool = False

    @property
    def pki(self) -> Path:
        return self.data / "pki"


def prepare_pki(config: ApiServerConfig) -> Pki:
    """Keys, certificates and the administrator's kubeconfig, made when they are missing. Blocks."""
    try:
        config.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(f"{config.data}: cannot be made: {error.strerror}; choose another with --data-dir") from None
    pki = Pki.open(config.pki, lambda: datetime.now(UTC))
    certificate, key = (path.read_bytes() for path in pki.admin())
    write_kubeconfig(config.kubeconfig, kubeconfig(url(config), pki.authority.pem, certificate, key))
    return pki


def url(config: ApiServerConfig) -> str:
    """Where people of this machine find it."""
    address = "127.0.0.1" if config.address in EVERYWHERE else config.address
    return f"https://{f'[{address}]' if ':' in address else address}:{config.port}"
