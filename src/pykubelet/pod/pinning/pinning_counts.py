"""What is counted of pinning, for whoever asks for metrics."""

from collections import Counter, deque

from msgspec import Struct, field


class PinningCounts(Struct):
    cpu_requests: int = 0
    cpu_errors: int = 0
    memory_requests: int = 0
    memory_errors: int = 0
    admissions: int = 0
    refusals: int = 0
    aligned: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By scope and boundary."""
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    durations: deque[float] = field(default_factory=lambda: deque(maxlen=1000))
    """Milliseconds of the last admissions, for somebody to take away."""
