"""Which credentials fit an image: patterns of registries and paths against image names, and the order to try them in.

Pull secrets and credential provider plug-ins write the same patterns, so both are looked up here.
"""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from pykubelet.pod.ports.runtime import PullCredentials

_HUB: Final = "docker.io"
_HUB_KEY: Final = "index.docker.io"
"""What `docker login` calls the hub, whose images are named docker.io."""
_API_PATHS: Final = ("/v1/", "/v2/")
_NOT_IN_HOSTS: Final = re.compile(r"[\x00-\x20\x7f\\^`{|}%]")


class Pattern(Struct, frozen=True):
    """`*.example.com:5000/team`, taken apart. Each part of the host may hold `*`, which stands for no dot."""

    host: tuple[str, ...]
    port: str
    path: str

    def covers(self, repository: str) -> bool:
        """Whether an image's full name without tag or digest fits: as many parts in the host, the same port, and the
        path as a beginning, letter by letter: `/tea` covers `/team`, as on every Kubernetes node."""
        other = parse_pattern(repository)
        return (
            self.port == other.port
            and len(self.host) == len(other.host)
            and other.path.startswith(self.path)
            and all(_matches(mine, theirs) for mine, theirs in zip(self.host, other.host, strict=True))
        )


def parse_pattern(text: str) -> Pattern:
    """Raises ValueError for what is no host with a path."""
    address, slash, path = re.split(r"[?#]", text, maxsplit=1)[0].partition("/")
    address = address.rpartition("@")[2]
    if _NOT_IN_HOSTS.search(address) or re.search(r"[\x00-\x1f\x7f]", path):
        raise ValueError(f"{text[:80]!r} is not a registry and path, such as *.example.com:5000/team")
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, ""
    elif not (port.isdecimal() and port.isascii()) and port:
        raise ValueError(f"{text[:80]!r} has no number for a port")
    elif host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return Pattern(tuple(host.split(".")), port, f"{slash}{path}")


def lookup(repository: str, entries: Iterable[tuple[str, PullCredentials]]) -> tuple[PullCredentials, ...]:
    """The credentials whose key fits the image's full name (without tag), the longer of two keys first, equal keys in
    the order in which they came. Keys are as people write them: with or without https://, and with an API's /v1/."""
    by_key: dict[str, list[PullCredentials]] = {}
    for server, registry in entries:
        key = _key(server)
        if key is not None:
            by_key.setdefault(key, []).append(registry)
    found = [
        each for key in sorted(by_key, key=str.encode, reverse=True) if _covers(key, repository) for each in by_key[key]
    ]
    if not found and repository.partition("/")[0] == _HUB:
        found = by_key.get(_HUB_KEY, [])
    return tuple(found)


def _key(server: str) -> str | None:
    address = server.removeprefix("https://") if server.startswith("https://") else server.removeprefix("http://")
    address, slash, path = re.split(r"[?#]", address, maxsplit=1)[0].partition("/")
    path = f"{slash}{path}"
    if path.startswith(_API_PATHS):
        path = path[3:]
    key = address.rpartition("@")[2] + (path if path != "/" else "")
    try:
        parse_pattern(key)
    except ValueError:
        return None
    return key


def _covers(key: str, repository: str) -> bool:
    return parse_pattern(key).covers(repository)


def _matches(pattern: str, text: str) -> bool:
    """As a shell would: `*` and sets of characters such as `[a-c]`. One that is not well formed matches nothing."""
    if pattern == text or ("*" not in pattern and "[" not in pattern):
        return pattern == text
    expression, rest = "", pattern
    while rest:
        if rest[0] == "*":
            expression, rest = f"{expression}.*", rest[1:]
        elif rest[0] == "[":
            inside, closed, rest = rest[1:].partition("]")
            if not closed or not inside:
                return False
            expression += f"[{re.escape(inside)}]".replace(r"\-", "-")
        else:
            expression, rest = expression + re.escape(rest[0]), rest[1:]
    try:
        return re.fullmatch(expression, text) is not None
    except re.error:
        return False
