"""Tokens with which a new node may ask for its certificate: secrets of kube-system, each with an end."""

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.users import BOOTSTRAP_PREFIX, BOOTSTRAPPERS, User, authenticated

NAMESPACE: Final = "kube-system"
SECRET_TYPE: Final = "bootstrap.kubernetes.io/token"  # noqa: S105 - the type of a secret, not a secret
_FORM: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})", re.ASCII)
_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]", re.ASCII)
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"


def new_token() -> str:
    return ".".join("".join(secrets.choice(_LETTERS) for _ in range(length)) for length in (6, 16))


def token_secret(token: str, until: datetime, description: str = "") -> Object:
    """The secret that makes a token valid until then."""
    parts = _FORM.fullmatch(token)
    if parts is None:
        raise ValueError("a bootstrap token is six letters or digits, a dot, and sixteen more")
    data = {
        "token-id": parts[1],
        "token-secret": parts[2],
        "expiration": rfc3339(until),
        "usage-bootstrap-authentication": "true",
    }
    if description:
        data["description"] = description
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{parts[1]}", "namespace": NAMESPACE},
        "type": SECRET_TYPE,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


def looks_like(token: str) -> bool:
    return _FORM.fullmatch(token) is not None


async def bootstrap_user(
    token: str, find: Callable[[str, str, str, str], Awaitable[Object | None]], now: datetime
) -> User | None:
    """Whose token this is; None when it does not hold."""
    parts = _FORM.fullmatch(token)
    if parts is None:
        return None
    secret = await find("", "secrets", NAMESPACE, f"bootstrap-token-{parts[1]}")
    if secret is None or secret.get("type") != SECRET_TYPE or at(secret, "metadata.deletionTimestamp"):
        return None
    data = _decoded(secret.get("data") or {})
    matches = hmac.compare_digest(data.get("token-secret", "").encode(), parts[2].encode())
    if not matches or data.get("token-id") != parts[1] or data.get("usage-bootstrap-authentication") != "true":
        return None
    if "expiration" in data and is_expired(data["expiration"], now):
        return None
    groups = [each.strip() for each in data.get("auth-extra-groups", "").split(",") if each.strip()]
    if not all(map(_GROUP.fullmatch, groups)):
        return None
    return authenticated(f"{BOOTSTRAP_PREFIX}{parts[1]}", (BOOTSTRAPPERS, *groups))


def is_expired(text: str, now: datetime) -> bool:
    """An end that cannot be read has come."""
    try:
        until = datetime.fromisoformat(text)
        return until.tzinfo is None or until - now <= timedelta()
    except ValueError:
        return True


def expiration(secret: Object) -> str:
    return _decoded(secret.get("data") or {}).get("expiration", "")


def _decoded(data: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for key, value in data.items():
        try:
            found[key] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, ValueError, TypeError):
            continue
    return found
