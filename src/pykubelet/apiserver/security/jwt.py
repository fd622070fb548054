"""JSON web tokens signed with ES256: written and read, nothing more. What the claims mean is decided in `tokens`."""

import base64
import binascii
import hashlib
import json
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from pykubelet.base.errors import Invalid

ALGORITHM: Final = "ES256"
_HALF: Final = 32
_LONGEST: Final = 16 << 10


def key_id(key: ec.EllipticCurvePublicKey) -> str:
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _encoded(hashlib.sha256(der).digest())


def key_document(key: ec.EllipticCurvePublicKey) -> dict[str, str]:
    """As a JSON web key, for whoever wants to verify our tokens without asking us."""
    numbers = key.public_numbers()
    place = {"x": numbers.x.to_bytes(_HALF, "big"), "y": numbers.y.to_bytes(_HALF, "big")}
    named = {"use": "sig", "kty": "EC", "kid": key_id(key), "crv": "P-256", "alg": ALGORITHM}
    return {**named, **{name: _encoded(value) for name, value in place.items()}}


def signed(claims: dict[str, Any], key: ec.EllipticCurvePrivateKey) -> str:
    text = f"{_head(key.public_key())}.{_encoded(msgspec.json.encode(claims))}"
    r, s = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{_encoded(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"


def looks_like(token: str) -> bool:
    return token.count(".") == 2


def unverified_claims(token: str) -> dict[str, Any]:
    """What it says, whoever wrote it. Raises Invalid when it is no token of ours by its form."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _LONGEST:
        raise Invalid("the token is no JSON web token")
    return _json(parts[1])


def verified_claims(token: str, key: ec.EllipticCurvePublicKey) -> dict[str, Any]:
    """Raises Invalid when somebody else wrote it, or it is written in another way than ours are."""
    claims = unverified_claims(token)
    text, _, signature = token.rpartition(".")
    if text.partition(".")[0] != _head(key):
        raise Invalid(f"the token does not begin as ours do, which are signed with {ALGORITHM}")
    raw = _decoded(signature)
    if len(raw) != 2 * _HALF:
        raise Invalid("the token's signature has the wrong length")
    der = encode_dss_signature(int.from_bytes(raw[:_HALF], "big"), int.from_bytes(raw[_HALF:], "big"))
    try:
        key.verify(der, text.encode(), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise Invalid("the token's signature is not ours") from None
    return claims


def _head(key: ec.EllipticCurvePublicKey) -> str:
    """The only one there is: what a header says is never looked at, and can lead nobody anywhere."""
    return _encoded(msgspec.json.encode({"alg": ALGORITHM, "kid": key_id(key)}))


def _json(part: str) -> dict[str, Any]:
    try:
        found = json.loads(_decoded(part), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise Invalid("the token holds no JSON") from None
    if not isinstance(found, dict):
        raise Invalid("the token holds no JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """There is one way to write each value: without padding, and with nothing in the bits that are left over."""
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        found = None
    if found is None or _encoded(found) != text:
        raise Invalid("the token is not written in base64url")
    return found
