"""What may leave the machine."""

import json
from typing import Any

import pytest

from pykubelet.up.redaction import (
    LEFT_OUT,
    pod_without_secrets,
    story_without_secrets,
    text_without_secrets,
    texts_without_secrets,
    without_secrets,
)

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"authorization: basic {SECRET}",
        f"password={SECRET}",
        f"PASSWORD: '{SECRET} and more'",
        f'{{"token":"{SECRET}"}}',
        f'{{"msg":"login with token=\\"{SECRET}\\" failed"}}',
        f"MY_API_KEY={SECRET}, other=1",
        f"https://me:{SECRET}@registry.example/v2/",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}",
        f"eyJhbGciOiJSUzI1NiIs.{SECRET}.sig",
    ],
)
def test_what_looks_like_a_credential_is_left_out_of_text(text: str) -> None:
    assert SECRET not in text_without_secrets(text)
    assert SECRET not in json.dumps(texts_without_secrets({"a": [text]}))


def test_a_bootstrap_token_is_one() -> None:
    assert text_without_secrets("joined with abcdef.0123456789abcdef") == f"joined with {LEFT_OUT}"


@pytest.mark.parametrize(
    "text", ["pod default/web runs", "image busybox:1.36 pulled in 1.5s", "uid 23af4ba1-4fbf-41b4"]
)
def test_plain_text_stays(text: str) -> None:
    assert text_without_secrets(text) == text


def test_a_configuration_keeps_its_names() -> None:
    given = {
        "staticPodURLHeader": {"X-Key": [SECRET]},
        "bootstrapToken": SECRET,
        "tlsPrivateKeyFile": "",
        "user": {"client-key-data": SECRET, "name": "me"},
        "maxPods": 110,
        "authentication": {"anonymous": {"enabled": False}},
    }
    found = without_secrets(given)
    assert SECRET not in json.dumps(found)
    assert found["maxPods"] == 110
    assert found["user"]["name"] == "me"
    assert found["authentication"] == {"anonymous": {"enabled": False}}


def test_a_pod_keeps_what_it_is_made_of_and_no_value() -> None:
    container: dict[str, Any] = {
        "name": "app",
        "image": "busybox",
        "env": [
            {"name": "A", "value": SECRET},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
        "command": ["/bin/app", SECRET],
        "args": [SECRET],
        "livenessProbe": {
            "httpGet": {"httpHeaders": [{"name": "X", "value": SECRET}]},
            "exec": {"command": ["a", SECRET]},
        },
    }
    pod: dict[str, Any] = {
        "metadata": {"name": "web", "annotations": {"last-applied": SECRET}, "managedFields": [SECRET]},
        "spec": {
            "containers": [container],
            "initContainers": [container],
            "volumes": [
                {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"pw": SECRET}}},
                {"name": "w", "flexVolume": {"driver": "d", "options": {"pw": SECRET}}},
            ],
        },
        "status": {"phase": "Running", "message": f"token={SECRET}"},
    }
    found = pod_without_secrets(pod)
    assert SECRET not in json.dumps(found)
    kept = found["spec"]["containers"][0]
    assert (kept["image"], kept["command"]) == ("busybox", ["/bin/app", LEFT_OUT])
    assert kept["env"][1] == container["env"][1]
    assert pod["metadata"]["annotations"] == {"last-applied": SECRET}, "what was given is not changed"


def test_a_story_is_told_without_the_last_words() -> None:
    told = {
        "sentence": f"web fails: app exited with code 1; last words: `{SECRET}`; next start now.",
        "lastWords": {"app": SECRET},
        "cause": {"code": "Crashed", "lastWords": SECRET},
    }
    found = story_without_secrets(told)
    assert SECRET not in json.dumps(found)
    assert found["sentence"] == "web fails: app exited with code 1; next start now."
