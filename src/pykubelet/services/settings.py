"""What whoever runs the agent may choose of services."""

from msgspec import Struct


class ServiceSettings(Struct, frozen=True, kw_only=True):
    proxy: bool = False
    """Whether this node answers for services: leads packets to their endpoints, and knows their names."""
