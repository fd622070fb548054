"""Who makes a request: a client certificate of our authority, or else a bearer token. Nobody is anybody by default."""

import hashlib
import hmac
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime

from aiohttp import web
from cryptography import x509

from pykubelet.apiserver.requests.users import User, authenticated
from pykubelet.apiserver.security import bootstrap_tokens
from pykubelet.apiserver.security.tokens import AUDIENCES, Find, ServiceAccountTokens
from pykubelet.base.errors import Invalid
from pykubelet.web.bearer import bearer_token
from pykubelet.web.certificates import CREDENTIAL_ID, ClientCertificate, client_certificate, client_subject


class Authenticator:
    def __init__(
        self,
        find: Find,
        tokens: ServiceAccountTokens,
        *,
        now: Callable[[], datetime],
        static: Mapping[str, User] | None = None,
        certificate: ClientCertificate = client_certificate,
    ) -> None:
        """`static`: users by the token that names them; `certificate`: that of whoever is at the other end."""
        self._find = find
        self._tokens = tokens
        self._now = now
        self._certificate = certificate
        self._static = {_digest(token): user for token, user in (static or {}).items()}

    async def identify(self, request: web.Request) -> User | None:
        """None when it says nothing of whom it is from. Raises Invalid when what it says does not hold."""
        tls = request.get_extra_info("ssl_object")
        certificate = self._certificate(tls) if isinstance(tls, ssl.SSLObject) else None
        if certificate is not None:
            user = certificate_user(certificate, self._now())
            if user is not None:
                return user
        token = bearer_token(request.headers)
        if token is None:
            return None
        user, _ = await self.token_user(token)
        return user

    async def token_user(self, token: str, audiences: tuple[str, ...] = ()) -> tuple[User, list[str]]:
        """Whose token it is, and for which of the audiences. Raises Invalid."""
        user = self._static_user(token)
        if user is None and bootstrap_tokens.looks_like(token):
            user = await bootstrap_tokens.bootstrap_user(token, self._find, self._now())
        if user is not None:
            accepted = [each for each in audiences or AUDIENCES if each in AUDIENCES]
            if not accepted:
                raise Invalid("the token is not for these audiences")
            return user, accepted
        if self._tokens.is_ours(token):
            return await self._tokens.verify(token, audiences)
        raise Invalid("nobody here knows the token")

    def _static_user(self, token: str) -> User | None:
        """All are compared, each in the same time, so that time tells nothing."""
        digest, found = _digest(token), None
        for known, user in self._static.items():
            if hmac.compare_digest(known, digest):
                found = user
        return found


def certificate_user(certificate: x509.Certificate, now: datetime) -> User | None:
    """None when it has no common name. Raises Invalid when it does not hold now, or not for a client."""
    subject = client_subject(certificate, now)
    if subject is None:
        return None
    return authenticated(subject.name, subject.groups, subject.uid, {CREDENTIAL_ID: (subject.credential,)})


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
