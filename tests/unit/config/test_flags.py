"""Flags as the Go kubelet takes them."""

from collections.abc import Callable, Mapping
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pykubelet.api.scheduling import Taint
from pykubelet.base.errors import Invalid
from pykubelet.config import flags


def parse(*args: str, read: Callable[[Mapping[str, Any]], dict[str, Any]] = flags.given) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    @click.command()
    @flags.options
    def command(**texts: Any) -> None:
        found.append(read(texts))

    result = CliRunner().invoke(command, args)
    if result.exception:
        raise result.exception
    return found[0]


@pytest.mark.parametrize(
    ("args", "given"),
    [
        ((), {}),
        (("--register-node=false",), {"registerNode": False}),
        (("--register-node", "--port=1"), {"registerNode": True, "port": 1}),
        (("--anonymous-auth=true",), {"authentication.anonymous.enabled": True}),
        (("--client-ca-file=/ca",), {"authentication.x509.clientCAFile": "/ca"}),
        (("--authorization-mode=AlwaysAllow",), {"authorization.mode": "AlwaysAllow"}),
        (("--kube-reserved=cpu=100m,memory=1Gi",), {"kubeReserved": {"cpu": "100m", "memory": "1Gi"}}),
        (("--cluster-dns", "10.0.0.10,10.0.0.11"), {"clusterDNS": ("10.0.0.10", "10.0.0.11")}),
        (
            ("--register-with-taints=a=b:NoSchedule,c:NoExecute",),
            {
                "registerWithTaints": (
                    Taint(key="a", value="b", effect="NoSchedule"),
                    Taint(key="c", effect="NoExecute"),
                )
            },
        ),
        (("--enforce-node-allocatable=",), {"enforceNodeAllocatable": ()}),
        (("--root-dir", "/r", "--stop-pods-on-exit"), {"--root-dir": "/r", "--stop-pods-on-exit": True}),
        (("--node-labels=a=b",), {"--node-labels": {"a": "b"}}),
        (
            ("--manifest-url-header=a:b", "--manifest-url-header=c:d"),
            {"staticPodURLHeader": {"a": ("b",), "c": ("d",)}},
        ),
    ],
)
def test_a_flag_says_what_its_field_of_the_file_would(args: tuple[str, ...], given: dict[str, object]) -> None:
    assert parse(*args) == given


def test_flags_are_shown_as_they_were_written_but_for_secrets() -> None:
    shown = parse("--max-pods=7", "--node-ip", "1.2.3.4", "--manifest-url-header=X-Key:s3cret", read=flags.shown)
    assert shown == {"max-pods": "7", "node-ip": "1.2.3.4"}


@pytest.mark.parametrize(
    ("flag", "fault"),
    [
        ("--register-node=perhaps", "--register-node: write true or false, not 'perhaps'"),
        ("--port=http", "--port: 'http' is not a whole number"),
        ("--kube-reserved=cpu", "--kube-reserved: write name=value"),
        ("--register-with-taints=a=b", "--register-with-taints: write key=value:Effect"),
    ],
)
def test_a_value_that_cannot_be_read_is_told_with_its_flag(flag: str, fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(flag)
    assert str(caught.value).startswith(fault)


# --- headers


@pytest.mark.parametrize(
    ("texts", "headers"),
    [
        ((), {}),
        (("a:hello",), {"a": ("hello",)}),
        (("a:hello,b:again", "a:twice"), {"a": ("hello", "twice"), "b": ("again",)}),
        (("a: with: colons ",), {"a": ("with: colons",)}),
        ((" a :",), {"a": ("",)}),
        (("a:b,", ""), {"a": ("b",)}),
    ],
)
def test_headers_are_written_as_names_and_values(texts: tuple[str, ...], headers: dict[str, tuple[str, ...]]) -> None:
    assert flags.headers(texts) == headers


@pytest.mark.parametrize("flag", ["s3cret", ":s3cret", " :s3cret", "a:b,s3cret"])
def test_a_header_without_a_name_is_refused_without_showing_its_value(flag: str) -> None:
    with pytest.raises(Invalid) as caught:
        flags.headers((flag,))
    assert "s3cret" not in str(caught.value)
