"""The API server's word on who somebody is and what they may do: TokenReview and SubjectAccessReview."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pykubelet.api.struct import Struct
from pykubelet.base.backoff import Backoff
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.errors import BadAnswer, Unavailable
from pykubelet.pod.ports.server import Access, Decision, Identity

_AUTHENTICATION: Final = "authentication.k8s.io/v1"
_AUTHORIZATION: Final = "authorization.k8s.io/v1"
_TRIES: Final = 5
_SOONEST: Final = 0.5
_LATEST: Final = 3.0

T = TypeVar("T")


class UserInfo(Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class TokenReviewStatus(Struct, frozen=True):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    error: str = ""


class TokenReview(Struct, frozen=True):
    """The answer only: the question holds a token, and is never made into an object that could be shown."""

    status: TokenReviewStatus = TokenReviewStatus()


class SubjectAccessReviewStatus(Struct, frozen=True):
    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(Struct, frozen=True):
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class KubeReviews:
    """The Reviews port over HTTP. Strangers decide how often it is asked: give it a client of its own, whose rate
    limit is not that of the pods."""

    def __init__(self, server: ApiClient) -> None:
        self._server = server

    async def who(self, token: str) -> Identity | None:
        question = {"apiVersion": _AUTHENTICATION, "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._ask("tokenreviews", _AUTHENTICATION, question, TokenReview)).status
        if not status.authenticated:
            return None
        user = status.user
        if not user.username:
            raise BadAnswer(f"{self._server.url}: a token is said to be valid, but not whose it is")
        return Identity(name=user.username, uid=user.uid, groups=user.groups, extra=user.extra)

    async def may(self, identity: Identity, access: Access) -> Decision:
        question = {
            "apiVersion": _AUTHORIZATION,
            "kind": "SubjectAccessReview",
            "spec": {
                "user": identity.name,
                "uid": identity.uid,
                "groups": identity.groups,
                "extra": identity.extra,
                "resourceAttributes": {
                    "verb": access.verb,
                    "version": "v1",
                    "resource": "nodes",
                    "subresource": access.subresource,
                    "name": access.node,
                },
            },
        }
        status = (await self._ask("subjectaccessreviews", _AUTHORIZATION, question, SubjectAccessReview)).status
        if status.allowed and status.denied:
            raise BadAnswer(f"{self._server.url}: {identity.name} is said to be allowed and denied at once")
        reason = "; ".join(each for each in (status.reason, status.evaluation_error) if each)
        return Decision(allowed=status.allowed, reason=reason)

    async def _ask(self, resource: str, group: str, question: Mapping[str, Any], kind: type[T]) -> T:
        """In a few tries while the server says that it has too much to do. Other failures are for the caller."""
        path = object_path(resource, group=group)
        backoff = Backoff(_SOONEST, _LATEST, factor=1.5, jitter=0.2, now=asyncio.get_running_loop().time)
        for _ in range(_TRIES - 1):
            try:
                return await self._server.create(path, question, kind)
            except Unavailable as error:
                await asyncio.sleep(min(max(backoff.next(), error.after or 0.0), _LATEST))
        return await self._server.create(path, question, kind)
