"""What is said about pulling images, in events and statuses, word for word as every Kubernetes node says it."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

from pykubelet.pod.ports.runtime import Image, PullCredentials

_SPECIAL: Final = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}
"""What runtimes begin an error with when they know more than that the pull failed."""
_SHORTEST_SECRET: Final = 4


def pull_failure(name: str, error: str) -> tuple[str, str]:
    """Reason and message of a container that waits because its image could not be pulled."""
    for reason, why in _SPECIAL.items():
        if error.startswith(reason):
            return reason, f"image pull failed for {name} because {why}{error.removeprefix(reason)}"
    return "ErrImagePull", error


def pulled_message(name: str, image: Image, seconds: float, with_waiting: float) -> str:
    took = f"{duration_text(seconds)} ({duration_text(with_waiting)} including waiting)"
    return f"Successfully pulled image {quoted(name)} in {took}. Image size: {image.size} bytes."


def combined(errors: Sequence[str]) -> str:
    """All that was said, each once: a pull is tried with every credential that fits."""
    different = list(dict.fromkeys(errors))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]"


def hidden(text: str, credentials: Iterable[PullCredentials]) -> str:
    """A text from outside, without the secrets that it may repeat."""
    secrets = {secret for each in credentials for secret in (each.password, each.token)}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "[hidden]")
    return text


def quoted(name: str) -> str:
    """In double quotes; what is inside cannot end them, nor the line."""
    return json.dumps(name, ensure_ascii=False)


def duration_text(seconds: float) -> str:
    """To the millisecond: `812ms`, `1.5s`, `1m2.25s`, `1h0m3s`."""
    milliseconds = int(seconds * 1000)
    if milliseconds == 0:
        return "0s"
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    whole, rest = divmod(milliseconds, 1000)
    minutes, whole = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{whole}.{rest:03d}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text
