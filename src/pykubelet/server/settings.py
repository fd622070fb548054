"""What people decide about the agent's own HTTP API. Quick to load, unlike the server itself."""

from pathlib import Path

from msgspec import Struct


class TlsSettings(Struct, frozen=True, kw_only=True):
    cert_dir: Path
    node_name: str
    addresses: tuple[str, ...] = ()
    """Names and IP addresses that a self-signed certificate is valid for, besides the node's name."""
    cert_file: str = ""
    key_file: str = ""
    issued: bool = False
    """The certificate is requested from the API server: it is `kubelet-server-current.pem` once it was issued."""
    client_ca_file: str = ""
    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()


class AuthSettings(Struct, frozen=True, kw_only=True):
    anonymous: bool = False
    token_webhook: bool = True
    token_ttl: float = 120.0
    authorization: str = "Webhook"
    allowed_ttl: float = 300.0
    denied_ttl: float = 30.0
    fine_grained: bool = True


class ServerSettings(Struct, frozen=True, kw_only=True):
    tls: TlsSettings
    auth: AuthSettings = AuthSettings()
    enabled: bool = True
    address: str = "0.0.0.0"  # noqa: S104 as upstream: an API server has to reach it; who may ask what is decided by `auth`
    port: int = 10250
    """0: any that is free."""
    read_only_port: int = 0
    """Without authentication; 0: never."""
    healthz_address: str = "127.0.0.1"
    healthz_port: int = 10248
    """0: never."""
    debugging: bool = True
    """Logs, exec and the like."""
    system_logs: bool = True
    system_log_queries: bool = False
    """Whether services can be asked for what they have written into the journal."""
    profiling: bool = True
    checkpoints: bool = True
    """Whether containers can be checkpointed."""
    debug_flags: bool = True
    """Whether the log's verbosity can be changed."""
    stream_idle: float = 14400.0
    """Seconds after which a stream ends that nobody uses."""
