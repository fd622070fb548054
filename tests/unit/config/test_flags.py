"""Flags as the Go kubelet takes them."""

from typing import Any

import pytest

from pykubelet.api.scheduling import Taint
from pykubelet.base.errors import Invalid
from pykubelet.config import flags
from pykubelet.config.flags import Flags


def parse(*args: str) -> dict[str, Any]:
    return Flags(args).given


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
        (("--cluster-dns=1.1.1.1", "--cluster_dns=2.2.2.2"), {"clusterDNS": ("1.1.1.1", "2.2.2.2")}),
        (("--node-ip=1.1.1.1", "--node-ip=2.2.2.2"), {"--node-ip": ("2.2.2.2",)}),
        (("--port=1", "--port=2"), {"port": 2}),
        (("--feature-gates=A=true,B=false", "--feature-gates=B=true"), {"featureGates": {"A": True, "B": True}}),
        (("--eviction-hard=memory.available<1Gi",), {"evictionHard": {"memory.available": "1Gi"}}),
        (("--vmodule=prober=5",), {"logging.vmodule": ({"filePattern": "prober", "verbosity": 5},)}),
        (
            ("--reserved-memory=0:memory=1Gi,hugepages-2Mi=4Mi", "--reserved-memory=1:memory=2Gi"),
            {
                "reservedMemory": (
                    {"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}},
                    {"numaNode": 1, "limits": {"memory": "2Gi"}},
                )
            },
        ),
    ],
)
def test_a_flag_says_what_its_field_of_the_file_would(args: tuple[str, ...], given: dict[str, object]) -> None:
    assert parse(*args) == given


def test_flags_are_shown_as_they_were_written_but_for_secrets() -> None:
    said = Flags(["--max-pods=7", "--node-ip", "1.2.3.4", "--manifest-url-header=X-Key:s3cret"])
    assert said.shown == {"max-pods": "7", "node-ip": "1.2.3.4"}


@pytest.mark.parametrize(
    ("flag", "fault"),
    [
        ("--register-node=perhaps", "--register-node: write true or false, not 'perhaps'"),
        ("--port=http", "--port: 'http' is not a whole number"),
        ("--kube-reserved=cpu", "--kube-reserved: write name=value"),
        ("--register-with-taints=a=b", "--register-with-taints: write key=value:Effect"),
        ("--feature-gates=A=maybe", "--feature-gates: A: write true or false, not 'maybe'"),
        ("--eviction-hard=memory.available=1Gi", "--eviction-hard: write name<value"),
        ("--reserved-memory=memory=1Gi", "--reserved-memory: write node:name=amount"),
    ],
)
def test_a_value_that_cannot_be_read_is_told_with_its_flag(flag: str, fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(flag)
    assert str(caught.value).startswith(fault)


# --- what is asked for, and what should no longer be given


@pytest.mark.parametrize(
    ("args", "version"),
    [
        ((), "false"),
        (("--version",), "true"),
        (("--version=raw",), "raw"),
        (("--version=0",), "false"),
        (("--version=v1.34.0+mine",), "v1.34.0+mine"),
        (("--version", "--version=false"), "false"),
    ],
)
def test_the_version_is_asked_for_as_of_upstreams(args: tuple[str, ...], version: str) -> None:
    assert Flags(args).version == version


def test_help_is_asked_for_in_two_ways() -> None:
    assert Flags(["-h"]).asks_for_help
    assert Flags(["--help", "--port=1"]).asks_for_help
    assert not Flags(["--help=false"]).asks_for_help


def test_a_flag_that_should_be_a_field_is_told_once_with_the_field() -> None:
    said = Flags(["--max-pods=7", "--max-pods=8", "--v=2", "--root-dir=/r", "--pod-infra-container-image=pause"])
    told = list(said.deprecated())
    assert told[0] == "Flag --max-pods has been deprecated, set maxPods in the file that --config names"
    assert told[1].startswith("Flag --pod-infra-container-image has been deprecated, the runtime says itself")
    assert len(told) == 2


# --- headers


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("", {}),
        ("a:hello", {"a": ("hello",)}),
        ("a:hello,b:again,a:twice", {"a": ("hello", "twice"), "b": ("again",)}),
        ("a: with: colons ", {"a": ("with: colons",)}),
        (" a :", {"a": ("",)}),
        ("a:b,,", {"a": ("b",)}),
    ],
)
def test_headers_are_written_as_names_and_values(text: str, headers: dict[str, tuple[str, ...]]) -> None:
    assert flags.headers(text) == headers


@pytest.mark.parametrize("flag", ["s3cret", ":s3cret", " :s3cret", "a:b,s3cret"])
def test_a_header_without_a_name_is_refused_without_showing_its_value(flag: str) -> None:
    with pytest.raises(Invalid) as caught:
        flags.headers(flag)
    assert "s3cret" not in str(caught.value)
