"""What people decide about the way to the API server. Quick to load, unlike the client itself."""

from pathlib import Path

from msgspec import Struct


class ClientSettings(Struct, frozen=True, kw_only=True):
    node_name: str
    cert_dir: Path
    kubeconfig: str = ""
    """The file that says how to reach the server; empty: there is none. It is written where it can be bootstrapped."""
    bootstrap_kubeconfig: str = ""
    """How to get the first kubeconfig."""
    rotate_certificates: bool = False
    """Whether the certificate of `kubeconfig` is renewed before it expires."""
