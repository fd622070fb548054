"""What the node needs from the outside world, as contracts. Every implementation passes the same suite of tests."""

from collections.abc import AsyncGenerator
from typing import Protocol

from pykubelet.pod.events import Applied, Gone, Listed


class PodSource(Protocol):
    """Where pods come from."""

    def watch(self) -> AsyncGenerator[Listed | Applied | Gone, None]:
        """What there is, then every change.

        The first event is a Listed. The stream is endless and recovers by itself from whatever may happen outside: bad
        input and lost connections are reported in the log and take no pod away. It may be called again after it broke
        or was closed, one call at a time. The pods are values; nobody owns them.
        """
        ...
