"""A token that was seen somewhere, written otherwise: whoever compares texts must not take it for another one."""

import base64
import json
from collections.abc import Callable
from typing import Any, Final

import aiohttp
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from kit.tls_world import PODS, World

SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


async def issued(world: World) -> str:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    code, made = await world.ask("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", body=asked)
    assert code == 201
    token: str = made["status"]["token"]
    assert (await world.ask("POST", SELF, token=token, body=REVIEW))[0] == 201
    return token


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def last_bits(part: str) -> str:
    """The same bytes, with something in the bits that are left over."""
    left = {2: 4, 3: 2}.get(len(part) % 4, 0)
    return part[:-1] + ALPHABET[ALPHABET.index(part[-1]) | 1] if left else part + "=" * (-len(part) % 4 or 4)


def changed(number: int, how: Callable[[str], str]) -> Callable[[str], str]:
    def change(token: str) -> str:
        parts = token.split(".")
        parts[number] = how(parts[number])
        return ".".join(parts)

    return change


WRITTEN_OTHERWISE: Final[dict[str, Callable[[str], str]]] = {
    "padding at the end": lambda token: f"{token}==",
    "one sign of padding": lambda token: f"{token}=",
    "padding of the claims": changed(1, lambda part: f"{part}="),
    "padding of the head": changed(0, lambda part: f"{part}=="),
    "last bits of the signature": changed(2, last_bits),
    "last bits of the claims": changed(1, last_bits),
    "plain base64": changed(2, lambda part: part.replace("-", "+").replace("_", "/") + "+"),
    "a fourth part": lambda token: f"{token}.",
    "a dot before": lambda token: f".{token}",
    "a new line": lambda token: f"{token}\n",
    "a space within": lambda token: token[:20] + " " + token[20:],
    "percent": lambda token: f"{token}%3D",
    "a zero": lambda token: f"{token}\0",
    "no signature": changed(2, lambda part: ""),
    "no algorithm": changed(0, lambda part: text(b'{"alg":"none"}')),
    "another algorithm": changed(0, lambda part: text(b'{"alg":"HS256"}')),
    "the algorithm in other letters": changed(0, lambda part: text(b'{"alg":"es256"}')),
    "twice a signature": changed(2, lambda part: part + part),
}


async def test_a_token_that_is_written_otherwise_is_refused(world: World) -> None:
    token = await issued(world)
    for how, change in WRITTEN_OTHERWISE.items():
        forged = change(token)
        assert forged != token, how
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": forged}}
        code, answer = await world.ask("POST", REVIEWS, body=asked)
        assert (code, answer["status"].get("authenticated")) == (201, False), how
        if forged.isprintable() and " " not in forged:  # no client sends the others
            assert (await world.ask("POST", SELF, token=forged, body=REVIEW))[0] == 401, how


def signed(key: ec.EllipticCurvePrivateKey, head: bytes, claims: bytes) -> str:
    whole = f"{text(head)}.{text(claims)}"
    r, s = decode_dss_signature(key.sign(whole.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{whole}.{text(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


async def test_even_with_our_key_a_token_has_one_form(world: World) -> None:
    """Whoever can have something signed must not smuggle a second meaning into it."""
    token, key = await issued(world), world.pki.service_account_key()
    head, claims = (base64.urlsafe_b64decode(part + "==") for part in token.split(".")[:2])
    whole = json.loads(claims)

    async def code(head: bytes, claims: bytes) -> int:
        return (await world.ask("POST", SELF, token=signed(key, head, claims), body=REVIEW))[0]

    assert await code(head, claims) == 201
    heads: list[dict[str, Any]] = [
        {**json.loads(head), "typ": "at+jwt"},
        {**json.loads(head), "jku": "https://evil.example/keys"},
        {**json.loads(head), "crit": ["b64"], "b64": False},
        {**json.loads(head), "kid": "other"},
        {"alg": "ES256"},
    ]
    for other in heads:
        assert await code(json.dumps(other).encode(), claims) == 401, other
    assert await code(head[:-1] + b',"alg":"none"}', claims) == 401
    assert await code(head, claims[:-1] + b',"sub":"system:serviceaccount:kube-system:default"}') == 401
    assert await code(head, b"[]") == 401
    assert await code(head, json.dumps({**whole, "iss": "https://evil.example"}).encode()) == 401


async def test_a_header_that_can_be_read_in_two_ways_is_refused(world: World) -> None:
    token = await issued(world)
    url = f"https://127.0.0.1:{world.port}{PODS}"
    connector = aiohttp.TCPConnector(ssl=world.client(""), force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        for code, *values in (
            (401, f"Bearer {token}", "Bearer admin-token"),
            (401, "Bearer admin-token extra"),
            (403, "Bearer  admin-token"),  # which is no token at all
            (403, "Bearer\tadmin-token"),
            (403, "Basic admin-token"),
        ):
            headers = [("Authorization", str(value)) for value in values]
            async with session.get(url, headers=headers) as answer:
                assert answer.status == code, values


async def test_nobody_has_more_than_he_was_given(world: World) -> None:
    """Without a word from an administrator, a service account finds out what there is, and who it is: no more."""
    token = await issued(world)
    for path in (
        PODS,
        "/api/v1/nodes",
        "/api/v1/namespaces/default/secrets",
        "/metrics",
        "/api/v1/nodes/n1/proxy/pods",
    ):
        assert (await world.ask("GET", path, token=token))[0] == 403, path
        assert (await world.ask("GET", path, user=""))[0] == 403, path
    assert (await world.ask("GET", "/api", token=token))[0] == 200
