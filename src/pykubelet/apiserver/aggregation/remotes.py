"""Who answers for a version of a group instead of us, as APIServices say it. Pure, but for the cache that tells it."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.discovery.discovery import Other
from pykubelet.apiserver.objects import Object, at, made_of
from pykubelet.apiserver.requests.users import User
from pykubelet.apiserver.store.port import Entry

KIND: Final = ("apiregistration.k8s.io", "apiservices")
_LEGAL: Final = "!#$&'*+-.^_`|~"
"""What the name of a header may have beside letters and digits, and means itself."""


class Remote(msgspec.Struct, frozen=True):
    name: str
    group: str
    version: str
    namespace: str
    service: str
    port: int
    authorities: bytes = b""
    insecure: bool = False
    priority: int = 0
    is_available: bool = False

    @property
    def host(self) -> str:
        """Whom its certificate has to be of."""
        return f"{self.service}.{self.namespace}.svc"

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}"


def remote_of(api_service: Object) -> Remote | None:
    """None: it is answered here, or is a group which nobody else is believed about: the core, and that of APIServices
    themselves, with which this could not be undone."""
    spec = api_service["spec"]
    service = spec.get("service")
    if not service or spec.get("group", "") in ("", KIND[0]):
        return None
    conditions = at(api_service, "status.conditions", ())
    try:
        authorities = base64.b64decode(spec.get("caBundle") or "")
    except binascii.Error as error:
        raise ValueError(f"its caBundle cannot be read: {error}") from None
    return Remote(
        name=api_service["metadata"]["name"],
        group=spec["group"],
        version=spec["version"],
        namespace=service["namespace"],
        service=service["name"],
        port=service.get("port", 443),
        authorities=authorities,
        insecure=bool(spec.get("insecureSkipTLSVerify")),
        priority=spec.get("groupPriorityMinimum", 0),
        is_available=any(each.get("type") == "Available" and each.get("status") == "True" for each in conditions),
    )


class Remotes:
    """All of them, at every moment as the cache has them."""

    def __init__(self, backend: Backend) -> None:
        self._by_key: dict[str, Remote] = {}
        self._by_path: Mapping[tuple[str, str], Remote] = {}
        self._listed: dict[str, tuple[Any, ...]] = {}
        prefix = backend.resources.of(*KIND).prefix
        backend.cache.mirror(prefix, self._told)

    def __iter__(self) -> Iterator[Remote]:
        return iter(tuple(self._by_path.values()))

    def __bool__(self) -> bool:
        return bool(self._by_path)

    def find(self, group: str, version: str) -> Remote | None:
        return self._by_path.get((group, version))

    def at(self, path: str) -> Remote | None:
        """Who answers for a path; None: this server does."""
        match path.split("/", 4):
            case ["", "apis", group, version, *_]:
                return self.find(group, version)
        return None

    def heard(self, remote: Remote, resources: tuple[Any, ...] | None) -> None:
        """What it serves, in its own words; None: nobody knows."""
        if resources is None:
            self._listed.pop(remote.name, None)
        else:
            self._listed[remote.name] = resources

    def others(self) -> list[Other]:
        """For discovery, the most important first."""
        ranked = sorted(self, key=lambda each: (-each.priority, each.group))
        return [Other(each.group, each.version, self._listed.get(each.name)) for each in ranked]

    def _told(self, key: str, entry: Entry | None) -> None:
        found = made_of(entry, remote_of, "is not passed on to")
        if found is None:
            gone = self._by_key.pop(key, None)
            if gone is not None:
                self._listed.pop(gone.name, None)
        else:
            self._by_key[key] = found
        self._by_path = {(each.group, each.version): each for each in self._by_key.values()}


def user_headers(user: User) -> list[tuple[str, str]]:
    """Who somebody is, for a server that believes our certificate."""
    headers = [("X-Remote-User", user.name)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    headers += [("X-Remote-Group", each) for each in user.groups]
    for key, values in user.extra.items():
        headers += [(f"X-Remote-Extra-{quote(key, safe=_LEGAL)}", each) for each in values]
    return headers
