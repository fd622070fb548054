"""Tokens of service accounts: what they claim, whom they are bound to, and whether they still hold.

A token holds for as long as everything that it names is there: it is compared with the live objects each time.
"""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.users import SERVICE_ACCOUNT_PREFIX, User, service_account_user
from pykubelet.apiserver.security import jwt
from pykubelet.base.errors import Invalid
from pykubelet.web.certificates import CREDENTIAL_ID

Find = Callable[[str, str, str, str], Awaitable[Object | None]]
"""group, plural, namespace, name -> the live object"""

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
AUDIENCES: Final = (ISSUER,)
"""Those whom a token has to be for, to be believed by this API server."""
JWKS_PATH: Final = "/openid/v1/jwks"
DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
_LEEWAY: Final = 60.0
_RESOURCES: Final = {"pod": "pods", "secret": "secrets", "node": "nodes"}


class Bound(msgspec.Struct, frozen=True):
    """What a token is bound to, besides its service account."""

    kind: str  # Pod, Secret or Node
    name: str
    uid: str


class Reference(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class PrivateClaims(msgspec.Struct, frozen=True):
    namespace: str = ""
    serviceaccount: Reference = Reference()
    pod: Reference | None = None
    secret: Reference | None = None
    node: Reference | None = None


class Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    aud: list[str] | str
    exp: float
    iat: float = 0
    nbf: float = 0
    jti: str = ""
    private: PrivateClaims = msgspec.field(default=PrivateClaims(), name="kubernetes.io")

    @property
    def audiences(self) -> list[str]:
        return [self.aud] if isinstance(self.aud, str) else self.aud


class ServiceAccountTokens:
    def __init__(
        self,
        key: ec.EllipticCurvePrivateKey,
        find: Find,
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._key = key
        self._public = key.public_key()
        self._find = find
        self._now = now

    def issue(
        self,
        account: Object,
        audiences: Sequence[str],
        seconds: int,
        *,
        bound: Bound | None = None,
        node: Bound | None = None,
    ) -> str:
        """`node`: where the pod runs that the token is bound to."""
        now = int(self._now().timestamp())
        namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
        private: dict[str, Any] = {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]},
        }
        for each in (bound, node):
            if each is not None:
                private[each.kind.lower()] = {"name": each.name, "uid": each.uid}
        claims = {
            "aud": list(audiences) or list(AUDIENCES),
            "exp": now + seconds,
            "iat": now,
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": now,
            "sub": f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}",
        }
        return jwt.signed(claims, self._key)

    def discovery(self, address: str) -> dict[str, Any]:
        """By which others find out whose tokens these are (OpenID Connect); `address` is where they find us."""
        return {
            "issuer": ISSUER,
            "jwks_uri": f"https://{address}{JWKS_PATH}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [jwt.ALGORITHM],
        }

    def keys(self) -> dict[str, Any]:
        return {"keys": [jwt.key_document(self._public)]}

    def is_ours(self, token: str) -> bool:
        """Whether it says that it is one of these; it may still be a lie."""
        try:
            return jwt.looks_like(token) and jwt.unverified_claims(token).get("iss") == ISSUER
        except Invalid:
            return False

    async def verify(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, list[str]]:
        """Whose it is, and for which of the audiences. Raises Invalid with the reason that it does not hold."""
        try:
            claims = msgspec.convert(jwt.verified_claims(token, self._public), Claims)
        except msgspec.ValidationError:
            raise Invalid("the token does not have the claims of a service account") from None
        accepted = [each for each in audiences or AUDIENCES if each in claims.audiences]
        self._check(claims, accepted)
        await self._check_live(claims.private)
        private = claims.private
        extra = {CREDENTIAL_ID: (f"JTI={claims.jti}",)} if claims.jti else {}
        for kind, reference in (("pod", private.pod), ("node", private.node)):
            if reference is not None:
                extra[f"authentication.kubernetes.io/{kind}-name"] = (reference.name,)
                extra[f"authentication.kubernetes.io/{kind}-uid"] = (reference.uid,)
        account = private.serviceaccount
        return service_account_user(private.namespace, account.name, account.uid, extra), accepted

    def _check(self, claims: Claims, accepted: list[str]) -> None:
        now = self._now().timestamp()
        if claims.iss != ISSUER:
            raise Invalid("the token was issued by somebody else")
        if claims.exp + _LEEWAY < now:
            raise Invalid("service account token has expired")
        if max(claims.nbf, claims.iat) - _LEEWAY > now:
            raise Invalid("service account token is not valid yet")
        private = claims.private
        if claims.sub != f"{SERVICE_ACCOUNT_PREFIX}{private.namespace}:{private.serviceaccount.name}":
            raise Invalid("the token's subject is not its service account")
        if not accepted:
            raise Invalid(f"token audiences {claims.audiences} are for somebody else")

    async def _check_live(self, private: PrivateClaims) -> None:
        await self._check_one("serviceaccounts", private.namespace, private.serviceaccount)
        for kind in ("secret", "pod", "node"):
            reference: Reference | None = getattr(private, kind)
            if reference is not None and not (kind == "node" and private.pod is not None):
                namespace = "" if kind == "node" else private.namespace
                await self._check_one(_RESOURCES[kind], namespace, reference)

    async def _check_one(self, plural: str, namespace: str, reference: Reference) -> None:
        found = await self._find("", plural, namespace, reference.name) if reference.name else None
        if found is None:
            raise Invalid(f"service account token has been invalidated: {plural} {reference.name!r} is gone")
        if at(found, "metadata.uid") != reference.uid:
            raise Invalid(f"service account token has been invalidated: {plural} {reference.name!r} is another one now")
        deleted = at(found, "metadata.deletionTimestamp")
        if deleted and datetime.fromisoformat(deleted).timestamp() + _LEEWAY < self._now().timestamp():
            raise Invalid(f"service account token has been invalidated: {plural} {reference.name!r} is deleted")
