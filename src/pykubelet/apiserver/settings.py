"""What whoever runs the API server may choose."""

import msgspec


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    version: str = "v1.34.11"
    service_range: str = "10.96.0.0/16"
    advertise_address: str = "127.0.0.1"
    advertise_port: int = 6443
    most_body_bytes: int = 3 * 1024 * 1024
    watch_seconds: float = 1800.0
    """How long a watch lasts at least when the client does not say."""
    event_seconds: float = 3600.0
    """How long events are kept."""
