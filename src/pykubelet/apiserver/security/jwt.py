"""JSON web tokens signed with ES256: written and read, nothing more. What the claims mean is decided in `tokens`."""

import base64
import binascii
import hashlib
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from pykubelet.base.errors import Invalid

_ALGORITHM: Final = "ES256"
_HALF: Final = 32
_LONGEST: Final = 16 << 10


def key_id(key: ec.EllipticCurvePublicKey) -> str:
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _encoded(hashlib.sha256(der).digest())


def signed(claims: dict[str, Any], key: ec.EllipticCurvePrivateKey) -> str:
    head = {"alg": _ALGORITHM, "kid": key_id(key.public_key())}
    text = f"{_encoded(msgspec.json.encode(head))}.{_encoded(msgspec.json.encode(claims))}"
    r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{_encoded(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"


def looks_like(token: str) -> bool:
    return token.count(".") == 2


def unverified_claims(token: str) -> dict[str, Any]:
    """What it says, whoever wrote it. Raises Invalid when it is no token of ours by its form."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _LONGEST:
        raise Invalid("the token is no JSON web token")
    head, claims = (_json(part) for part in parts[:2])
    if head.get("alg") != _ALGORITHM:
        raise Invalid(f"the token is not signed with {_ALGORITHM}")
    return claims


def verified_claims(token: str, key: ec.EllipticCurvePublicKey) -> dict[str, Any]:
    """Raises Invalid when somebody else wrote it."""
    claims = unverified_claims(token)
    text, _, signature = token.rpartition(".")
    raw = _decoded(signature)
    if len(raw) != 2 * _HALF:
        raise Invalid("the token's signature has the wrong length")
    der = encode_dss_signature(int.from_bytes(raw[:_HALF], "big"), int.from_bytes(raw[_HALF:], "big"))
    try:
        key.verify(der, text.encode(), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise Invalid("the token's signature is not ours") from None
    return claims


def _json(part: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(_decoded(part))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise Invalid("the token holds no JSON") from None
    if not isinstance(found, dict):
        raise Invalid("the token holds no JSON object")
    return found


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Invalid("the token is not written in base64url") from None
