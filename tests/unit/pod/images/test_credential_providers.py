import json
from typing import Any

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.pod.images.credential_providers import (
    Plugin,
    cache_keys,
    read_answer,
    read_plugins,
    request,
    without_secrets,
)
from pykubelet.pod.images.keyring import parse_pattern

V1 = "credentialprovider.kubelet.k8s.io/v1"
PLUGIN = Plugin(name="p", patterns=(parse_pattern("*.example"),), default_cache=60.0, env=(("KEY", "from-config"),))
IMAGE = "r.example/team/app"

CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: cloud
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.example", "other.example:5000/team"]
  defaultCacheDuration: 10m
  args: [get, --fast]
  env:
  - name: REGION
    value: north
"""


def test_a_configuration_is_read() -> None:
    (plugin,) = read_plugins([("c.yaml", CONFIG.encode())])
    assert (plugin.name, plugin.api_version, plugin.default_cache) == ("cloud", V1, 600.0)
    assert (plugin.args, plugin.env) == (("get", "--fast"), (("REGION", "north"),))
    assert plugin.covers("r.example/app")
    assert plugin.covers("other.example:5000/team/app")
    assert not plugin.covers("other.example:5000/app")


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_all_versions_of_the_configuration_and_of_the_plug_ins_are_taken(version: str) -> None:
    text = CONFIG.replace("k8s.io/v1", f"k8s.io/{version}")
    (plugin,) = read_plugins([("c.yaml", text.encode())])
    assert plugin.api_version.endswith(f"/{version}")


def test_files_are_put_together_in_their_order() -> None:
    files = [(f"{name}.yaml", CONFIG.replace("cloud", name).encode()) for name in ("a", "b")]
    assert [each.name for each in read_plugins(files)] == ["a", "b"]
    with pytest.raises(Invalid, match=r"^b\.yaml:4:9: providers\[0\]\.name: provider 'cloud' is in a\.yaml already"):
        read_plugins([("a.yaml", CONFIG.encode()), ("b.yaml", CONFIG.encode())])


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("kind: CredentialProviderConfig", "kind: Pod", "c.yaml:1:1: must be of apiVersion kubelet.config.k8s.io/v1"),
        ("config.k8s.io/v1", "config.k8s.io/v7", "but is of apiVersion kubelet.config.k8s.io/v7"),
        ("name: cloud", "name: ../cloud", "c.yaml:4:9: providers[0].name: '../cloud' cannot be the name of a program"),
        ("name: cloud", "name: a b", "'a b' cannot be the name of a program"),
        ("name: cloud", "name: ..", "'..' cannot be the name of a program"),
        ("name: cloud", "name: ''", "a provider needs the name of its program"),
        ("provider.kubelet.k8s.io/v1", "x/v1", "c.yaml:5:15: providers[0].apiVersion: must be one of"),
        ('["*.example", "other.example:5000/team"]', "[]", "providers[0].matchImages: at least one pattern is needed"),
        ('"*.example"', '"a b"', "c.yaml:6:17: providers[0].matchImages[0]: 'a b' is not a registry and path"),
        ('"*.example"', '"a:x"', "'a:x' has no number for a port"),
        ("  defaultCacheDuration: 10m\n", "", "c.yaml:4:3: providers[0].defaultCacheDuration: is missing"),
        ("10m", "-1s", "c.yaml:7:25: providers[0].defaultCacheDuration: must not be negative"),
        ("10m", "soon", "'soon' is not a duration"),
        ("args: [get", "arguments: [get", "providers[0].arguments: there is no such field; is it a typing error?"),
        ("value: north", "valu: north", "providers[0].env[0].valu: there is no such field"),
        ("name: REGION", "name: RE=GION", "providers[0].env[0].name: must be the name of an environment variable"),
        (
            "args: [get",
            "tokenAttributes: {serviceAccountTokenAudience: x}\n  args: [get",
            "tokenAttributes: service acc",
        ),
        ("args: [get, --fast]", "args: get", "providers[0].args: expected array"),
        ("providers:", "providers: [\n", "c.yaml:"),
        ("kind:", "---\nkind:", "c.yaml: must hold one CredentialProviderConfig, but holds 2 documents"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(old: str, new: str, complaint: str) -> None:
    assert old in CONFIG
    with pytest.raises(Invalid) as raised:
        read_plugins([("c.yaml", CONFIG.replace(old, new).encode())])
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_plug_in_is_asked_about_the_image_without_its_tag() -> None:
    said = json.loads(request(PLUGIN, IMAGE))
    assert said == {"kind": "CredentialProviderRequest", "apiVersion": V1, "image": IMAGE}


def answer(**fields: Any) -> bytes:
    auth = {"r.example": {"username": "u", "password": "s3cret"}}
    said = {"kind": "CredentialProviderResponse", "apiVersion": V1, "cacheKeyType": "Image", "auth": auth, **fields}
    return json.dumps(said).encode()


@pytest.mark.parametrize(
    ("fields", "key", "seconds"),
    [
        ({}, IMAGE, 60.0),
        ({"cacheKeyType": "Registry", "cacheDuration": "5m"}, "r.example", 300.0),
        ({"cacheKeyType": "Global", "cacheDuration": "0s"}, "<global>", 0.0),
        ({"cacheDuration": "-5s"}, IMAGE, 0.0),
        ({"cacheDuration": None}, IMAGE, 60.0),
    ],
)
def test_an_answer_says_for_what_and_for_how_long_it_holds(fields: Any, key: str, seconds: float) -> None:
    said = read_answer(PLUGIN, IMAGE, answer(**fields))
    assert (said.cache_key, said.cache_for) == (key, seconds)
    assert key in cache_keys(IMAGE)
    ((server, registry),) = said.entries
    assert (server, registry.username, registry.password) == ("r.example", "u", "s3cret")


def test_no_credentials_are_an_answer_too() -> None:
    assert read_answer(PLUGIN, IMAGE, answer(auth=None)).entries == ()


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"s3cret",
        b'{"password": "s3cret"}',
        answer(kind="s3cret"),
        answer(apiVersion="credentialprovider.kubelet.k8s.io/v1beta1"),
        answer(cacheKeyType="s3cret"),
        answer(cacheDuration="s3cret"),
        answer(auth={"r.example": "s3cret"}),
        answer(auth={"r.example": {"username": 5, "password": "s3cret"}}),
        answer()[:-5],
    ],
    ids=range(10),
)
def test_an_answer_that_cannot_be_used_is_not_repeated(output: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(printed|gave) ") as raised:
        read_answer(PLUGIN, IMAGE, output)
    assert "s3cret" not in str(raised.value)


def test_what_is_told_of_complaints_is_short_and_holds_no_secret() -> None:
    complaints = b"tried s3cret\nwith eyJhbGciOi.eyJzdWIi.c2ln\x1b[2J and from-config"
    said = without_secrets(PLUGIN, complaints, answer())
    assert said == "tried [hidden] with [hidden] [2J and [hidden]"
    assert "s3cret" not in without_secrets(PLUGIN, complaints, answer()[:-4])
    assert len(without_secrets(PLUGIN, b"x" * 100_000, b"")) < 1010
    quoted = answer(auth={"r.example": {"password": 'with"quote'}})
    assert "quote" not in without_secrets(PLUGIN, b'it is with"quote', quoted)
