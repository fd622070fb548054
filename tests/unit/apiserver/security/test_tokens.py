"""Tokens: whose they are, and when they no longer hold."""

import base64
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from kit.cluster import START, Clock
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.users import User
from pykubelet.apiserver.security.authenticate import Authenticator
from pykubelet.apiserver.security.bootstrap_tokens import bootstrap_user, looks_like, new_token, token_secret
from pykubelet.apiserver.security.tokens import Bound, ServiceAccountTokens
from pykubelet.base.errors import Invalid

KEY = ec.generate_private_key(ec.SECP256R1())
ACCOUNT: Object = {"metadata": {"name": "robot", "namespace": "ns", "uid": "u1"}}


class Live:
    """The objects that are there."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str, str], Object] = {
            ("", "serviceaccounts", "ns", "robot"): ACCOUNT,
            ("", "pods", "ns", "web"): {"metadata": {"name": "web", "uid": "p1"}},
            ("", "nodes", "", "n1"): {"metadata": {"name": "n1", "uid": "n1"}},
        }

    async def find(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        return self.objects.get((group, plural, namespace, name))


def tokens(live: Live, clock: Clock, key: ec.EllipticCurvePrivateKey = KEY) -> ServiceAccountTokens:
    return ServiceAccountTokens(key, live.find, now=clock)


async def test_a_token_names_its_account_and_the_pod_that_it_is_bound_to() -> None:
    issuer = tokens(Live(), Clock())
    token = issuer.issue(ACCOUNT, [], 600, bound=Bound("Pod", "web", "p1"), node=Bound("Node", "n1", "n1"))
    user, audiences = await issuer.verify(token)

    assert user.name == "system:serviceaccount:ns:robot"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert user.extra["authentication.kubernetes.io/pod-uid"] == ("p1",)
    assert user.extra["authentication.kubernetes.io/node-name"] == ("n1",)
    assert audiences == ["https://kubernetes.default.svc.cluster.local"]


async def refused(issuer: ServiceAccountTokens, token: str, *audiences: str) -> str:
    with pytest.raises(Invalid) as caught:
        await issuer.verify(token, audiences)
    return str(caught.value)


async def test_a_token_ends_with_its_time_and_with_what_it_is_bound_to() -> None:
    live, clock = Live(), Clock()
    issuer = tokens(live, clock)
    token = issuer.issue(ACCOUNT, [], 600, bound=Bound("Pod", "web", "p1"))

    clock.pass_(661)
    assert await refused(issuer, token) == "service account token has expired"
    clock.pass_(-661 - 61)
    assert await refused(issuer, token) == "service account token is not valid yet"
    clock.pass_(61)
    live.objects["", "pods", "ns", "web"] = {"metadata": {"name": "web", "uid": "p2"}}
    assert "is another one now" in await refused(issuer, token)
    del live.objects["", "pods", "ns", "web"]
    assert "is gone" in await refused(issuer, token)
    deleted = (START - timedelta(seconds=61)).isoformat()
    live.objects["", "pods", "ns", "web"] = {"metadata": {"name": "web", "uid": "p1", "deletionTimestamp": deleted}}
    assert "is deleted" in await refused(issuer, token)
    live.objects["", "pods", "ns", "web"] = {"metadata": {"name": "web", "uid": "p1"}}
    del live.objects["", "serviceaccounts", "ns", "robot"]
    assert "serviceaccounts 'robot' is gone" in await refused(issuer, token)


async def test_a_token_for_somebody_else_is_not_for_us() -> None:
    issuer = tokens(Live(), Clock())
    token = issuer.issue(ACCOUNT, ["vault"], 600)

    assert "are for somebody else" in await refused(issuer, token)
    assert (await issuer.verify(token, ["vault", "other"]))[1] == ["vault"]


def part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).decode().rstrip("=")


async def test_a_token_that_somebody_else_wrote_or_changed_is_refused() -> None:
    issuer, other = tokens(Live(), Clock()), tokens(Live(), Clock(), ec.generate_private_key(ec.SECP256R1()))
    mine, theirs = issuer.issue(ACCOUNT, [], 600), other.issue(ACCOUNT, [], 600)
    head, claims, signature = mine.split(".")
    for forged in (
        theirs,
        f"{head}.{theirs.split('.')[1]}.{signature}",
        f"{part({'alg': 'none'})}.{claims}.",
        f"{part({'alg': 'HS256'})}.{claims}.{signature}",
        f"{head}.{claims}.{signature[:-4]}",
        f"{head}.{claims}.",
        "a.b.c",
        "..",
        "",
        "x" * 100_000,
    ):
        await refused(issuer, forged)


async def test_a_bootstrap_token_holds_until_its_end() -> None:
    live, token = Live(), new_token()
    secret = token_secret(token, START + timedelta(hours=1))
    live.objects["", "secrets", "kube-system", secret["metadata"]["name"]] = secret

    user = await bootstrap_user(token, live.find, START)
    assert user is not None
    assert (user.name, user.groups[0]) == (f"system:bootstrap:{token[:6]}", "system:bootstrappers")
    assert await bootstrap_user(token, live.find, START + timedelta(hours=1)) is None
    assert await bootstrap_user(f"{token[:6]}.{'0' * 16}", live.find, START) is None
    assert await bootstrap_user("ABCDEF.0123456789abcdef", live.find, START) is None


@pytest.mark.parametrize(
    "data",
    [
        {"usage-bootstrap-authentication": "false"},
        {"token-id": "zzzzzz"},
        {"expiration": "soon"},
        {"expiration": "2027-01-01T00:00:00"},
        {"auth-extra-groups": "system:masters"},
    ],
)
async def test_a_bootstrap_token_with_something_wrong_about_it_names_nobody(data: dict[str, str]) -> None:
    live, token = Live(), "abcdef.0123456789abcdef"
    secret = token_secret(token, START + timedelta(hours=1))
    secret["data"] |= {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    live.objects["", "secrets", "kube-system", "bootstrap-token-abcdef"] = secret

    assert await bootstrap_user(token, live.find, START) is None


def test_new_bootstrap_tokens_have_the_right_form_and_differ() -> None:
    assert looks_like(new_token())
    assert new_token() != new_token()


async def test_each_kind_of_token_finds_its_user() -> None:
    live, clock = Live(), Clock()
    live.objects["", "secrets", "kube-system", "bootstrap-token-abcdef"] = token_secret(
        "abcdef.0123456789abcdef", START + timedelta(hours=1)
    )
    issuer = tokens(live, clock)
    door = Authenticator(live.find, issuer, now=clock, static={"secret": User("admin")})

    assert (await door.token_user("secret"))[0].name == "admin"
    assert (await door.token_user("abcdef.0123456789abcdef"))[0].name == "system:bootstrap:abcdef"
    assert (await door.token_user(issuer.issue(ACCOUNT, [], 600)))[0].name == "system:serviceaccount:ns:robot"
    for wrong in ("guess", "", "abcdef.0123456789abcdee", "a.b.c"):
        with pytest.raises(Invalid):
            await door.token_user(wrong)
    with pytest.raises(Invalid, match="not for these audiences"):
        await door.token_user("secret", ("vault",))
