"""What a request needs to be let in: headers, TLS and the way there, from a kubeconfig entry whose parts may rotate."""

import logging
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final, TypedDict
from urllib.parse import quote

import aiohttp
from yarl import URL

from pykubelet.kube.errors import CredentialsError, KubeconfigError
from pykubelet.kube.exec_plugin import ExecCredentialStatus, ExecPlugin
from pykubelet.kube.kubeconfig import ClientConfig, User
from pykubelet.kube.proxy import chosen_proxy
from pykubelet.kube.tls import TlsFiles
from pykubelet.web.key_pairs import Stamp

_log = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 5.0  # seconds between looks at a token file

Headers = tuple[tuple[str, str], ...]


class RequestArguments(TypedDict):
    """Keyword arguments of `aiohttp.ClientSession.request`."""

    headers: list[tuple[str, str]]
    ssl: ssl.SSLContext | bool
    server_hostname: str | None
    proxy: URL | None
    proxy_headers: dict[str, str] | None


@dataclass(frozen=True)
class Grant:
    """The credentials of one request. Two grants are equal when the server could not tell them apart."""

    headers: Headers = field(repr=False)
    context: ssl.SSLContext | None = field(repr=False)
    from_plugin: ExecCredentialStatus | None = field(default=None, repr=False, compare=False)


class Credentials:
    """How to talk to the server of one kubeconfig entry.

    As with kubectl, tokens, passwords and certificates go over TLS only: an http:// server sees anonymous requests.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.server: Final = _server_url(config)
        self.origin: Final = config.origin
        self.disable_compression: Final = config.cluster.disable_compression
        _check_user(config)
        user = config.user
        self._hostname = config.cluster.tls_server_name or None
        self._proxy = chosen_proxy(self.server, config.cluster.proxy_url, environ, config.origin)
        self._fixed_headers = _impersonation(user, config.origin)
        self._tls: TlsFiles | None = None
        self._token: TokenFile | None = None
        self._plugin: ExecPlugin | None = None
        if self.server.scheme != "https":
            return
        self._tls = TlsFiles(config)
        if user.token_file:
            self._token = TokenFile(user.token_file, user.token, clock)
        elif user.token:
            self._fixed_headers += (_bearer(user.token.strip(), config.origin, KubeconfigError),)
        elif user.username or user.password:
            self._fixed_headers += (
                ("Authorization", aiohttp.encode_basic_auth(user.username, user.password, "utf-8")),
            )
        elif user.exec is not None and not self._tls.has_certificate:
            self._plugin = ExecPlugin(user.exec, config, self._tls.authority, environ=environ)

    def __repr__(self) -> str:
        return f"Credentials({str(self.server)!r}, from {self.origin!r})"

    async def grant(self) -> Grant:
        """What to send now. Cheap unless an exec plug-in has to run. Raises CredentialsError."""
        return await self._make_grant()

    async def renew(self, refused: Grant) -> Grant | None:
        """After a 401: look at everything again. None when the server would get the same as before."""
        if self._token is not None:
            self._token.look_again()
        new = await self._make_grant(refused.from_plugin)
        return None if new == refused else new

    def arguments(self, grant: Grant) -> RequestArguments:
        headers, proxy = list(grant.headers), self._proxy
        proxy_headers = None
        if proxy is not None and proxy.authorization:
            if self.server.scheme == "https":
                proxy_headers = {"Proxy-Authorization": proxy.authorization}
            else:
                headers.append(("Proxy-Authorization", proxy.authorization))
        return {
            "headers": headers,
            "ssl": grant.context or True,
            "server_hostname": self._hostname,
            "proxy": proxy.url if proxy else None,
            "proxy_headers": proxy_headers,
        }

    async def _make_grant(self, refused: ExecCredentialStatus | None = None) -> Grant:
        if self._tls is None:
            return Grant(self._fixed_headers, None)
        if self._plugin is not None:
            status = await self._plugin.credential(other_than=refused)
            token = (_bearer(status.token, "the exec plug-in"),) if status.token else ()
            return Grant(self._fixed_headers + token, self._tls.context(status.key_pair), status)
        headers = self._fixed_headers
        if self._token is not None:
            headers += (_bearer(self._token.read(), self.origin),)
        return Grant(headers, self._tls.context())


class TokenFile:
    """A bearer token in a file that somebody rewrites now and then, such as a projected service account token."""

    def __init__(self, path: str, fallback: str = "", clock: Callable[[], float] = monotonic) -> None:
        self._path = Path(path)
        self._token = fallback
        self._clock = clock
        self._looked_at = float("-inf")
        self._stamp: Stamp = None

    def look_again(self) -> None:
        self._looked_at = float("-inf")
        self._stamp = None

    def read(self) -> str:
        """The token. While the file is missing or empty, the one last seen in it goes on."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_AGAIN:
            try:
                self._refresh()
            except CredentialsError as error:
                if not self._token:
                    raise
                _log.warning("keeping the former token: %s", error)
            self._looked_at = now
        return self._token

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
            stamp = stat.st_ino, stat.st_mtime_ns, stat.st_size
            if stamp == self._stamp:
                return
            token = self._path.read_bytes().decode("utf-8", "replace").strip()
        except OSError as error:
            raise CredentialsError(f"the token file {self._path} cannot be read: {error.strerror}") from None
        if not token:
            raise CredentialsError(f"the token file {self._path} is empty")
        self._token, self._stamp = token, stamp


def _server_url(config: ClientConfig) -> URL:
    cluster, user = config.cluster, config.user
    text = cluster.server
    if "://" not in text:
        certain = (
            cluster.certificate_authority or cluster.certificate_authority_data or cluster.insecure_skip_tls_verify
        )
        certified = user.client_certificate or user.client_certificate_data
        text = f"{'https' if certain or certified else 'http'}://{text}"
    remedy = f"{config.origin}: the server has to be such as https://10.0.0.1:6443"
    try:
        url = URL(text)
    except ValueError:
        raise KubeconfigError(f"{remedy}; it is not a URL") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise KubeconfigError(f"{remedy}; it is not an http or https URL")
    if url.user is not None or url.password is not None:
        raise KubeconfigError(f"{remedy}; a username and a password belong to the user")
    return url.with_query(None).with_fragment(None)


def _check_user(config: ClientConfig) -> None:
    user, origin = config.user, config.origin
    if user.auth_provider is not None:
        raise KubeconfigError(
            f'{origin}: auth-provider "{user.auth_provider.name}" is not supported; use exec with a credential plug-in'
        )
    if (user.token or user.token_file) and (user.username or user.password):
        raise KubeconfigError(f"{origin}: the user has a token and a password; keep one")
    if not user.as_ and (user.as_uid or user.as_groups or user.as_user_extra):
        raise KubeconfigError(f"{origin}: as-uid, as-groups and as-user-extra need as, the user to act as")


def _bearer(
    token: str, origin: str, problem: type[CredentialsError | KubeconfigError] = CredentialsError
) -> tuple[str, str]:
    if not token.isprintable() or not token.isascii():
        raise problem(f"the token of {origin} holds characters that a header cannot carry")
    return "Authorization", f"Bearer {token}"


def _impersonation(user: User, origin: str) -> Headers:
    if not user.as_:
        return ()
    headers = [("Impersonate-User", user.as_)]
    if user.as_uid:
        headers.append(("Impersonate-Uid", user.as_uid))
    headers += [("Impersonate-Group", group) for group in user.as_groups]
    for key, values in user.as_user_extra.items():
        headers += [(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value) for value in values]
    if not all(value.isprintable() for _, value in headers):
        raise KubeconfigError(f"{origin}: an as field holds a character that a header cannot carry")
    return tuple(headers)
