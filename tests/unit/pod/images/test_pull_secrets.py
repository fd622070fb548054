import base64
import json
from typing import Any

import pytest

from pykubelet.api.objects import Secret
from pykubelet.pod.images.pull_secrets import credentials_for


def secret(value: Any, kind: str = "dockerconfigjson") -> Secret:
    return Secret(type=f"kubernetes.io/{kind}", data={f".{kind}": json.dumps(value).encode()})


def user(name: str) -> dict[str, str]:
    return {"username": name, "password": "p"}


@pytest.mark.parametrize(
    ("image", "server", "fits"),
    [
        ("registry.example/app:1", "registry.example", True),
        ("registry.example/app:1", "https://registry.example/v2/", True),
        ("registry.example:5000/app", "registry.example:5000", True),
        ("registry.example:5000/app", "registry.example", False),
        ("registry.example/team/app", "registry.example/team", True),
        ("registry.example/team/app", "registry.example/tea", True),
        ("registry.example/other/app", "registry.example/team", False),
        ("busybox", "https://index.docker.io/v1/", True),
        ("busybox", "docker.io", True),
        ("team/app", "docker.io/team", True),
        ("a.example.com/app", "*.example.com", True),
        ("a.b.example.com/app", "*.example.com", False),
        ("Not An Image", "docker.io", False),
    ],
)
def test_credentials_go_to_the_registry_and_path_that_they_are_for(image: str, server: str, fits: bool) -> None:
    assert bool(credentials_for(image, [secret({"auths": {server: user("u")}})])) is fits


def test_the_most_specific_comes_first_and_equals_keep_their_order() -> None:
    secrets = [
        secret({"auths": {"r.example": user("first"), "r.example/team": user("team")}}),
        secret({"auths": {"r.example": user("second")}}),
    ]
    assert [each.username for each in credentials_for("r.example/team/app", secrets)] == ["team", "first", "second"]


def test_padding_may_be_missing_and_no_server_is_named_to_the_runtime() -> None:
    auth = base64.b64encode(b"user:pass1").decode()
    assert auth.endswith("==")
    for text in (auth, auth.rstrip("="), f"{auth}\n"):
        (found,) = credentials_for("r.example/app", [secret({"auths": {"https://r.example": {"auth": text}}})])
        assert (found.username, found.password, found.server) == ("user", "pass1", "")


def test_a_token_alone_is_enough() -> None:
    (found,) = credentials_for("r.example/app", [secret({"auths": {"r.example": {"identitytoken": "t"}}})])
    assert (found.username, found.password, found.token) == ("", "", "t")


def test_both_kinds_of_secret_and_both_spellings_of_credentials_are_read() -> None:
    auth = base64.b64encode(b"u:p:with:colons").decode()
    for value in (secret({"auths": {"r.example": {"auth": auth}}}), secret({"r.example": {"auth": auth}}, "dockercfg")):
        (found,) = credentials_for("r.example/app", [value])
        assert (found.username, found.password) == ("u", "p:with:colons")


@pytest.mark.parametrize(
    "broken",
    [
        Secret(type="Opaque", data={".dockerconfigjson": b"{}"}),
        Secret(type="kubernetes.io/dockerconfigjson"),
        Secret(type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": b"not json"}),
        secret([]),
        secret({"auths": []}),
        secret({"auths": {"r.example": "x"}}),
        secret({"auths": {"r.example": {"auth": "###"}}}),
        secret({"auths": {"r.example": {}}}),
        secret({"auths": {"r.example": {"auth": base64.b64encode(b"no colon").decode()}}}),
    ],
    ids=range(9),
)
def test_a_secret_that_cannot_be_used_is_passed_over(broken: Secret) -> None:
    assert credentials_for("r.example/app", [broken]) == ()


def test_credentials_do_not_show_themselves() -> None:
    (found,) = credentials_for("r.example/app", [secret({"auths": {"r.example": user("u")}})])
    assert "p" not in repr(found).removeprefix("Registry")
