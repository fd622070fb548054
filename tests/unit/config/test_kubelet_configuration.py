import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.config.kubelet_configuration import load_configuration

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def load(tmp_path: Path, text: str | bytes) -> dict[str, Any]:
    file = tmp_path / "kubelet.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_configuration(str(file))


def refusal(tmp_path: Path, text: str | bytes) -> str:
    with pytest.raises(Invalid) as caught:
        load(tmp_path, text)
    return str(caught.value).removeprefix(f"{tmp_path}/kubelet.yaml")


def test_json_will_do(tmp_path: Path) -> None:
    value = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "staticPodPath": "/m"}
    assert load(tmp_path, json.dumps(value)) == {"staticPodPath": "/m"}


def test_what_has_no_effect_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load(tmp_path, HEAD + "staticPodPath: /m\npodsPerCore: 1\nlogging: {verbosity: 3}\n")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, f"{tmp_path}/kubelet.yaml: {field} is not used by this version and has no effect")
        for field in ("podsPerCore", "logging.verbosity")
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{HEAD}staticPodPaht: /m\n", ":3:16: staticPodPaht: there is no such field; is it a typing error?"),
        (
            f"{HEAD}authentication:\n  x509: {{ca: a}}\n",
            ":4:14: authentication.x509.ca: there is no such field; is it a typing error?",
        ),
        ("", ": must hold one KubeletConfiguration, but holds 0 documents"),
        (f"{HEAD}---\n{HEAD}", ": must hold one KubeletConfiguration, but holds 2 documents"),
        ("a: b: c", ":1:5: is not YAML: mapping values are not allowed in this context"),
        ("{", ":1:2: is not JSON: Expecting property name enclosed in double quotes"),
        (b"\xff", ":1:1: is not UTF-8 text"),
        (f"{HEAD}staticPodPath: /a\nstaticPodPath: /b\n", ":4:1: key 'staticPodPath' occurs twice, first on line 3"),
        (f"{HEAD}staticPodPath: 3\n", ":3:16: staticPodPath: expected str, got int"),
        (f"{HEAD}fileCheckFrequency: 20\n", ":3:21: fileCheckFrequency: expected str, got int"),
        (
            "kind: KubeletConfiguration\n",
            ":1:1: must be of apiVersion kubelet.config.k8s.io/v1beta1, kind KubeletConfiguration, "
            "but is of apiVersion (none), kind KubeletConfiguration",
        ),
        (
            "# a remark\napiVersion: v1\nkind: Pod\n",
            ":2:1: must be of apiVersion kubelet.config.k8s.io/v1beta1, kind KubeletConfiguration, "
            "but is of apiVersion v1, kind Pod",
        ),
    ],
)
def test_a_fault_of_the_file_is_named_with_its_place(tmp_path: Path, text: str | bytes, fault: str) -> None:
    assert refusal(tmp_path, text) == fault


def test_a_list_is_no_configuration(tmp_path: Path) -> None:
    assert refusal(tmp_path, "- a\n").startswith(":1:1: expected object")


@pytest.mark.parametrize(
    ("name", "reason"), [("missing", "No such file or directory"), (".", "Is a directory"), ("x" * 300, "too long")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, reason: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(Invalid) as caught:
        load_configuration(path)
    assert str(caught.value).startswith(f"{path}: cannot be read: ")
    assert str(caught.value).endswith(reason)
