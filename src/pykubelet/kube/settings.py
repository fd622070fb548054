"""What people decide about the way to the API server. Quick to load, unlike the client itself."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

ChangeDetection = Literal["Watch", "Cache", "Get"]
"""How changes of config maps and secrets are noticed: the server tells of them; what was had is asked for again after a
while; it is asked for each time."""


class ClientSettings(Struct, frozen=True, kw_only=True):
    node_name: str
    cert_dir: Path
    kubeconfig: str = ""
    """The file that says how to reach the server; empty: there is none. It is written where it can be bootstrapped."""
    bootstrap_kubeconfig: str = ""
    """How to get the first kubeconfig."""
    rotate_certificates: bool = False
    """Whether the certificate of `kubeconfig` is renewed before it expires."""
    change_detection: ChangeDetection = "Watch"
    qps: int = 50
    """Requests a second; 0: as many as clients send whom nobody has told."""
    burst: int = 100
    event_qps: int = 50
    """The same for events alone."""
    event_burst: int = 100
