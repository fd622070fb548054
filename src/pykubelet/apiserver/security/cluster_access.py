"""Access to the API server: who somebody is, whether he may, and whether he may write just this."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec

from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.access import IDENTIFIED, IMPERSONATED
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import ANONYMOUS, MASTERS, User, node_name
from pykubelet.apiserver.security import node_restriction
from pykubelet.apiserver.security.authenticate import Authenticator
from pykubelet.apiserver.security.authorize import Authorizer, forbidden, sentence
from pykubelet.apiserver.security.impersonate import acting
from pykubelet.apiserver.security.node_rules import NodeRules
from pykubelet.apiserver.security.rbac import escalation
from pykubelet.apiserver.security.rbac.following import follow
from pykubelet.apiserver.security.rbac.policy import Policy
from pykubelet.apiserver.security.references import PodFacts, VolumeFacts, facts, is_known, volume_facts
from pykubelet.apiserver.security.signer_rights import right_to, signer_rights
from pykubelet.apiserver.security.tokens import ServiceAccountTokens
from pykubelet.apiserver.store.port import Entry
from pykubelet.base.errors import Invalid
from pykubelet.web.certificates import ClientCertificate, client_certificate

log = logging.getLogger(__name__)
T = TypeVar("T")

_AT_ONCE: Final = 200
"""Pods or volumes that are looked into in one go: some ten milliseconds."""


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
        self.policy = Policy()
        follow(self.policy, backend)
        self.authorizer = Authorizer(NodeRules(self._pods, self._volumes, backend.find), self.policy)

    async def identify(self, request: web.Request) -> User:
        """Whom the request wants to be taken for, if it may; who does not say who he is, is nobody in particular."""
        try:
            user = await self.authenticator.identify(request) or ANONYMOUS
        except Invalid as error:
            log.info("a request from %s is not believed: %s", request.remote, error)
            raise status.unauthorized() from None
        request[IDENTIFIED] = user
        if (taken_for := await acting(user, request.headers, self.check)) is not user:
            user = request[IMPERSONATED] = taken_for
        return msgspec.structs.replace(user, address=request.remote or "")

    async def check(self, user: User, info: RequestInfo) -> str:
        verdict = await self.authorizer.verdict(user, info)
        if not verdict.is_allowed:
            raise forbidden(info, sentence(user, info, verdict.reason))
        return verdict.reason

    async def allowed(self, user: User, info: RequestInfo) -> str:
        """Empty when the user may; else the sentence that says what he may not, and why."""
        verdict = await self.authorizer.verdict(user, info)
        return "" if verdict.is_allowed else sentence(user, info, verdict.reason)

    async def check_body(self, user: User, info: RequestInfo, body: Object | None, live: Object | None) -> None:
        """Once the object is known that would be stored, and the one that is. Raises 403, and 404 for a role that
        somebody wants to bind."""
        if body is not None and escalation.is_about_rights(info):
            escalation.check(self.policy, user, info, body, live)
        if body is not None and live is not None and (verb := right_to(info, body, live)):
            await self._check_signer(user, info, verb, str(at(live, "spec.signerName", "")))
        node = None if MASTERS in user.groups else node_name(user)
        if node is None:
            return

        async def may(right: RequestInfo) -> bool:
            return (await self.authorizer.verdict(user, right)).is_allowed

        reason = (
            await node_restriction.fault(node, info, body, live, self._backend.find, may)
            if node
            else f'could not determine node from user "{user.name}"'
        )
        if reason:
            name = info.name or str((body or {}).get("metadata", {}).get("name") or "")
            raise status.forbidden(info.resource, name, reason, info.group)

    async def _check_signer(self, user: User, info: RequestInfo, verb: str, signer: str) -> None:
        for right in signer_rights(verb, signer):
            if (await self.authorizer.verdict(user, right)).is_allowed:
                return
        why = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise status.forbidden(info.resource, info.name, why, info.group)

    async def _pods(self, namespace: str) -> list[PodFacts]:
        return await self._seen(self._backend.resources.of("", "pods").folder(namespace), facts)

    async def _volumes(self) -> list[VolumeFacts]:
        return await self._seen(self._backend.resources.of("", "persistentvolumes").prefix, volume_facts)

    async def _seen(self, prefix: str, look: Callable[[Entry], T]) -> list[T]:
        """What is found in all that is there now, each looked into once."""
        entries, new = (await self._backend.cache.list_newest(prefix)).entries, 0
        for entry in entries:
            if not is_known(entry):
                look(entry)
                new += 1
                if new % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # after a start all are new, and others have to get their turn
        return [look(entry) for entry in entries]
