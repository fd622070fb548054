"""`token`: what a new node needs in order to `join` the API server of this machine."""

import asyncio
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pykubelet.api.durations import parse_duration
from pykubelet.apiserver.security.bootstrap_tokens import NAMESPACE, new_token, token_secret
from pykubelet.apiserver.security.kubeconfig import token_kubeconfig
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.kube import kubeconfig
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.kubeconfig import ClientConfig
from pykubelet.up.folder import Folder
from pykubelet.up.join import authority

_SHORTEST: Final = timedelta(minutes=1)
_LONGEST: Final = timedelta(days=3660)


class Token(NamedTuple):
    id: str
    namespace: str
    secret: str
    """The name of the object that holds it."""
    until: datetime
    url: str
    """By which new nodes reach the API server."""
    kubeconfig: dict[str, object]
    """Whoever has it can join."""

    @property
    def is_for_this_machine(self) -> bool:
        """No other can reach that URL."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


def make_token(folder: Folder, ttl: timedelta, server: str) -> Token:
    """Make a bootstrap token on the API server of a folder. `server` is the URL that new nodes use, empty: the best
    guess."""
    config = kubeconfig.load(str(_admin_kubeconfig(folder)))
    url = server or _url(folder, config.cluster.server)
    if urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
        raise Invalid(f"--server: must be a URL such as https://10.0.0.1:6443, not {url!r}")
    token, until = new_token(), datetime.now(UTC) + ttl
    secret = token_secret(token, until, "made by pykubelet token")
    asyncio.run(_create(config, secret))
    made = token_kubeconfig(url, authority(config), token)
    return Token(token[:6], NAMESPACE, secret["metadata"]["name"], until, url, made)


def _admin_kubeconfig(folder: Folder) -> Path:
    for path in (folder.admin_kubeconfig, folder.apiserver / "kubeconfig"):
        if path.exists():
            return path
    raise Invalid(f"there is no API server of ours in {folder.path}: name its folder with --data")


def _url(folder: Folder, local: str) -> str:
    """By which other machines reach an API server that people of this machine know by its loopback address."""
    plan = folder.read_plan()
    if plan is None or plan.bind not in ("0.0.0.0", "::"):  # noqa: S104
        return local
    host = f"[{plan.address}]" if ":" in plan.address else plan.address
    return urlunsplit(urlsplit(local)._replace(netloc=f"{host}:{plan.api_port}"))


async def _create(config: ClientConfig, secret: dict[str, object]) -> None:
    try:
        async with ApiClient(Credentials(config), timeout=10.0) as server:
            await server.request("POST", object_path("secrets", namespace=NAMESPACE), body=secret)
    except PykubeletError as error:
        raise Invalid(f"no token could be made: {error}; is the API server running?") from None


def parsed_ttl(text: str) -> timedelta:
    """`24h`, `30m`, `1h30m`. Raises Invalid."""
    try:
        ttl = timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        raise Invalid(f"--ttl: must be a time such as 24h or 30m, not {text!r}") from None
    if not _SHORTEST <= ttl <= _LONGEST:
        raise Invalid(f"--ttl: has to be between a minute and ten years, not {text}")
    return ttl
