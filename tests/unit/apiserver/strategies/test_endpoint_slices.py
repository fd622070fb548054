"""Endpoint slices."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

SLICES = strategy_of("discovery.k8s.io", "endpointslices")


def addresses(*found: str, kind: str = "IPv4", **more: Any) -> dict[str, Any]:
    return {"addressType": kind, "endpoints": [{"addresses": list(found), **more}]}


def ports(*found: dict[str, Any]) -> dict[str, Any]:
    return {"addressType": "IPv4", "ports": list(found)}


def test_a_port_has_a_protocol_and_an_empty_name() -> None:
    assert made(SLICES, **ports({"port": 80}))["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (addresses("10.1.2.3"), []),
        ({}, ["addressType"]),
        (addresses("10.1.2.3", kind="Pigeon"), ["addressType"]),
        (addresses("fd00::1"), ["endpoints[0].addresses"]),
        (addresses("x"), ["endpoints[0].addresses[0]"]),
        (addresses(), ["endpoints[0].addresses"]),
        (addresses("127.0.0.1"), ["endpoints[0].addresses[0]"]),
        (addresses("a_b", kind="FQDN"), ["endpoints[0].addresses[0]"]),
        (addresses(*["10.1.2.3"] * 101), ["endpoints[0].addresses"]),
        (addresses("10.1.2.3", hostname="A_"), ["endpoints[0].hostname"]),
        (ports({"name": "a"}, {"name": "a"}), ["ports[1].name"]),
        (ports({"protocol": "X"}), ["ports[0].protocol"]),
        (ports({"appProtocol": "a/b/c"}), ["ports[0].appProtocol"]),
        ({"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}] * 1001}, ["endpoints"]),
    ],
)
def test_addresses_are_of_one_family_and_ports_have_names(content: dict[str, Any], expected: list[str]) -> None:
    assert faults(SLICES, made(SLICES, **content)) == expected


def test_a_slice_stays_of_its_family() -> None:
    assert faults(SLICES, made(SLICES, addressType="IPv4"), made(SLICES, addressType="IPv6")) == ["addressType"]
