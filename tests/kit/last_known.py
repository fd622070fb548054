"""What an earlier agent has left, without a disk."""

from collections.abc import Callable

from pykubelet.pod.ports.machine import LastKind


class Remembered:
    """The LastKnown port. What is saved can be recalled by the next agent, which is another one of these."""

    def __init__(self, found: dict[tuple[str, ...], bytes] | None = None, *, secrets: bool = True) -> None:
        self._found = found or {}
        self._secrets = secrets
        self.saved: dict[tuple[str, ...], bytes] = dict(self._found)

    def keeps(self, kind: LastKind) -> bool:
        return self._secrets or kind not in ("secret", "token")

    def recall(self, kind: LastKind, *key: str) -> bytes | None:
        return self._found.get((kind, *key))

    def save(self, kind: LastKind, *key: str, content: Callable[[], bytes]) -> None:
        if self.keeps(kind):
            self.saved[kind, *key] = content()

    def drop(self, kind: LastKind, *key: str) -> None:
        self.saved.pop((kind, *key), None)
