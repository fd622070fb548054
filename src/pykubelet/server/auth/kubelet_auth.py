"""Who may talk to the agent's HTTP API: first who asks, then whether the API server lets them.

The order is that of Kubernetes: a client certificate, a bearer token, and nobody in particular where that is allowed.
Whoever brings credentials that do not hold is refused, never taken for nobody in particular. Tokens are sent to
the API server and nowhere else: what is remembered is a keyed hash of them.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from aiohttp import hdrs, web

from pykubelet.api import codec
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.pod.ports.server import Access, Decision, Identity, Reviews
from pykubelet.server.answer_cache import AnswerCache
from pykubelet.server.auth.access import accesses
from pykubelet.server.auth.measured_reviews import MeasuredReviews
from pykubelet.server.metrics import metric_names
from pykubelet.server.metrics.meters import Meters
from pykubelet.server.settings import AuthSettings
from pykubelet.web.bearer import bearer_token
from pykubelet.web.certificates import CREDENTIAL_ID, ClientCertificate, client_subject
from pykubelet.web.origin import TOKEN_PROTOCOL

log = logging.getLogger(__name__)

ANONYMOUS: Final = Identity(name="system:anonymous", groups=("system:unauthenticated",))
_AUTHENTICATED: Final = "system:authenticated"
_NEITHER_TWICE: Final = (_AUTHENTICATED, "system:unauthenticated")

_CACHE_SIZE: Final = 8192
_NOBODY_HOLDS: Final = 10.0
"""Seconds for which a token stays nobody's: long enough to spare the API server a flood, short enough for a new one."""


class Undecided(Retry):
    """Whether somebody may cannot be found out at the moment: the answer is 500, with this text."""


class KubeletAuth:
    """Identifies those who ask, and says whether they may.

    Without `reviews` there is no API server: nobody is known by a token, and under Webhook nobody may do anything.
    Without `certificate`, which is that of `ServingTls`, nobody is known by a certificate.
    """

    def __init__(
        self,
        settings: AuthSettings,
        reviews: Reviews | None,
        node_name: str,
        *,
        certificate: ClientCertificate | None = None,
        meters: Meters | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if settings.authorization not in ("Webhook", "AlwaysAllow"):
            raise Invalid(
                f"authorization.mode: {settings.authorization!r} does not exist; it is Webhook or AlwaysAllow"
            )
        self._settings = settings
        self._meters = meters or Meters(metric_names.AUTH)
        self._reviews = MeasuredReviews(reviews, self._meters) if reviews is not None else None
        self._node_name = node_name
        self._certificate = certificate
        self._now = now
        self._secret = secrets.token_bytes(32)
        self._tokens: AnswerCache[Identity | None] = AnswerCache(_CACHE_SIZE)
        self._decisions: AnswerCache[Decision] = AnswerCache(_CACHE_SIZE)

    async def identify(self, request: web.BaseRequest) -> Identity | None:
        """Who asks; None means 401."""
        complaints: list[str] = []
        for way in (self._by_certificate, self._by_header, self._by_protocol):
            try:
                if (identity := await way(request)) is not None:
                    return _authenticated(identity)
            except PykubeletError as error:
                complaints.append(str(error))
        if complaints:
            log.info("a request from %s is not let in: %s", request.remote, "; ".join(complaints))
            return None
        return ANONYMOUS if self._settings.anonymous else None

    async def check(self, identity: Identity, method: str, path: str) -> Decision:
        """Whether they may. `path` is decoded, as `request.path` is. Raises Undecided when nobody can tell."""
        if self._settings.authorization == "AlwaysAllow":
            return Decision(allowed=True, reason="authorization.mode is AlwaysAllow")
        wanted = accesses(method, path, self._node_name, fine_grained=self._settings.fine_grained)
        if self._reviews is None:
            return Decision(
                allowed=False,
                reason=f"{_forbidden(identity, wanted)}: this agent has no API server to ask; give it a kubeconfig",
            )
        for access in wanted:
            try:
                decision = await self._may(self._reviews, identity, access)
            except PykubeletError as error:
                log.warning("whether %s may %s nodes/%s: %s", identity.name, access.verb, access.subresource, error)
                raise Undecided(
                    f"Authorization error (user={identity.name}, verb={access.verb}, resource=nodes, "
                    f"subresource={access.subresource})"
                ) from None
            if decision.allowed:
                return decision
            log.debug("%s may not %s nodes/%s: %s", identity.name, access.verb, access.subresource, decision.reason)
        return Decision(allowed=False, reason=_forbidden(identity, wanted))

    # --- who

    async def _by_certificate(self, request: web.BaseRequest) -> Identity | None:
        if self._certificate is None:
            return None
        tls: object = request.get_extra_info("ssl_object")
        if not isinstance(tls, ssl.SSLObject):
            return None
        try:
            certificate = self._certificate(tls)
        except Invalid:
            # A new connection is judged anew, and may do better.
            request.protocol.close()
            raise
        subject = client_subject(certificate, self._now()) if certificate is not None else None
        if subject is None or certificate is None:
            return None
        left = certificate.not_valid_after_utc - self._now()
        self._meters.observe("apiserver_client_certificate_expiration_seconds", left.total_seconds())
        extra = {CREDENTIAL_ID: (subject.credential,)}
        return Identity(name=subject.name, uid=subject.uid, groups=subject.groups, extra=extra)

    async def _by_header(self, request: web.BaseRequest) -> Identity | None:
        token = bearer_token(request.headers)
        return await self._by_token(token) if token is not None else None

    async def _by_protocol(self, request: web.BaseRequest) -> Identity | None:
        """Browsers cannot set headers on a WebSocket: they say their token as the name of a protocol."""
        if request.headers.get(hdrs.UPGRADE, "").lower() != "websocket":
            return None
        token = protocol_token(request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ()))
        return await self._by_token(token) if token else None

    async def _by_token(self, token: str) -> Identity | None:
        if not self._settings.token_webhook:
            return None
        if self._reviews is None:
            raise Retry("a bearer token can only be judged by an API server, and this agent has none")
        reviews, ttl = self._reviews, self._settings.token_ttl
        began, asked = asyncio.get_running_loop().time(), False

        async def ask() -> Identity | None:
            nonlocal asked
            asked = True
            return await reviews.who(token)

        identity = await self._tokens.get(
            hmac.digest(self._secret, token.encode("utf-8", "surrogateescape"), "sha256"),
            ask,
            lambda answer: ttl if answer is not None else min(ttl, _NOBODY_HOLDS),
        )
        seconds, status = asyncio.get_running_loop().time() - began, "miss" if asked else "hit"
        self._meters.count("authentication_token_cache_request_total", status)
        self._meters.observe("authentication_token_cache_request_duration_seconds", seconds, status)
        if identity is None:
            raise Invalid("the bearer token is not valid")
        return identity

    # --- whether

    def _may(self, reviews: Reviews, identity: Identity, access: Access) -> Awaitable[Decision]:
        return self._decisions.get(
            hashlib.sha256(codec.encode_canonical((identity, access))).digest(),
            lambda: reviews.may(identity, access),
            lambda answer: self._settings.allowed_ttl if answer.allowed else self._settings.denied_ttl,
        )


def protocol_token(headers: Sequence[str]) -> str:
    """The bearer token among the protocols that a WebSocket client offers; empty when there is none."""
    offered = [each.strip() for header in headers for each in header.split(",")]
    tokens = [each.removeprefix(TOKEN_PROTOCOL) for each in offered if each.startswith(TOKEN_PROTOCOL)]
    if not tokens:
        return ""
    if len(tokens) > 1:
        raise Invalid("a WebSocket may carry one bearer token")
    try:
        # The alphabet of URLs, without padding; anything else is not to be guessed at.
        text = tokens[0].encode("ascii").translate(bytes.maketrans(b"-_+/=", b"+/!!!"))
        token = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise Invalid("the bearer token of a WebSocket is not base64url") from None
    if token and len(tokens) == len(offered):
        raise Invalid("a WebSocket with a bearer token has to offer another protocol as well")
    return token


def _authenticated(identity: Identity) -> Identity:
    if identity.name == ANONYMOUS.name or any(group in _NEITHER_TWICE for group in identity.groups):
        return identity
    return changed(identity, groups=(*identity.groups, _AUTHENTICATED))


def _forbidden(identity: Identity, wanted: Sequence[Access]) -> str:
    names = " ".join(access.subresource for access in wanted)
    return f"Forbidden (user={identity.name}, verb={wanted[0].verb}, resource=nodes, subresource(s)=[{names}])"
