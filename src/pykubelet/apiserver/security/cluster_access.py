"""Access to the API server: who somebody is, whether he may, and whether he may write just this."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec

from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.access import IDENTIFIED, IMPERSONATED
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import ANONYMOUS, MASTERS, User, node_name
from pykubelet.apiserver.security import node_restriction
from pykubelet.apiserver.security.authenticate import Authenticator
from pykubelet.apiserver.security.authorize import Authorizer, forbidden, is_public, sentence
from pykubelet.apiserver.security.impersonate import acting
from pykubelet.apiserver.security.node_rules import NodeRules
from pykubelet.apiserver.security.references import PodFacts, facts, is_known
from pykubelet.apiserver.security.tokens import ServiceAccountTokens
from pykubelet.base.errors import Invalid
from pykubelet.web.certificates import ClientCertificate, client_certificate

log = logging.getLogger(__name__)

_AT_ONCE: Final = 200
"""Pods that are looked into in one go: some ten milliseconds."""


class ClusterAccess:
    def __init__(
        self,
        backend: Backend,
        key: ec.EllipticCurvePrivateKey,
        *,
        static_tokens: Mapping[str, User] | None = None,
        certificate: ClientCertificate = client_certificate,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`key` signs the tokens of service accounts; `static_tokens` are users by their token; `certificate` is that
        of `ServingTls` where authorities may change."""
        self._backend = backend
        self.tokens = ServiceAccountTokens(key, backend.find, now=now)
        self.authenticator = Authenticator(
            backend.find, self.tokens, now=now, static=static_tokens, certificate=certificate
        )
        self.authorizer = Authorizer(NodeRules(self._pods, backend.find))

    async def identify(self, request: web.Request) -> User | None:
        """None when nobody has said who he is, or what he said does not hold: 401, unless it is public."""
        try:
            return await self.authenticator.identify(request)
        except Invalid as error:
            log.info("a request from %s is not believed: %s", request.remote, error)
            return None

    async def allowed(self, user: User | None, info: RequestInfo) -> str:
        """Empty when the user may; else the sentence that says what he may not, and why."""
        somebody = user or ANONYMOUS
        reason = await self.authorizer.refusal(somebody, info)
        return "" if reason is None else sentence(somebody, info, reason)

    async def check(self, request: web.Request, info: RequestInfo) -> User:
        """Both at once, for whom the request wants to be taken. Raises 401 or 403."""
        user = await self.identify(request)
        if user is None and not is_public(info):
            raise status.unauthorized()
        request[IDENTIFIED] = user or ANONYMOUS
        if user is not None and (taken_for := acting(user, request.headers)) is not user:
            user = request[IMPERSONATED] = taken_for
        refused = await self.allowed(user, info)
        if refused:
            raise forbidden(info, refused)
        return msgspec.structs.replace(user or ANONYMOUS, address=request.remote or "")

    async def check_body(self, user: User, info: RequestInfo, body: Object | None, live: Object | None) -> None:
        """Once the object is known that would be stored, and the one that is. Raises 403."""
        node = None if MASTERS in user.groups else node_name(user)
        if node is None:
            return
        reason = (
            await node_restriction.fault(node, info, body, live, self._backend.find)
            if node
            else f'could not determine node from user "{user.name}"'
        )
        if reason:
            name = info.name or str((body or {}).get("metadata", {}).get("name") or "")
            raise status.forbidden(info.resource, name, reason, info.group)

    async def _pods(self, namespace: str) -> list[PodFacts]:
        pods = self._backend.resources.of("", "pods")
        listing = await self._backend.cache.list_newest(pods.folder(namespace))
        new = 0
        for entry in listing.entries:
            if not is_known(entry):
                facts(entry)
                new += 1
                if new % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # after a start all are new, and others have to get their turn
        return [facts(entry) for entry in listing.entries]
