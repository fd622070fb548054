"""Network policies, and what services are reached by."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

NETWORKING = "networking.k8s.io"
POLICIES = strategy_of(NETWORKING, "networkpolicies")
RANGES = strategy_of(NETWORKING, "servicecidrs")
ADDRESSES = strategy_of(NETWORKING, "ipaddresses")


def peer(**more: Any) -> dict[str, Any]:
    return {"ingress": [{"from": [more]}]}


def port(**more: Any) -> dict[str, Any]:
    return {"egress": [{"ports": [more]}]}


def test_a_policy_is_about_what_it_has_rules_for() -> None:
    assert made(POLICIES, spec={})["spec"]["policyTypes"] == ["Ingress"]
    found = made(POLICIES, spec=port(port=80))["spec"]
    assert found["policyTypes"] == ["Ingress", "Egress"]
    assert found["egress"] == [{"ports": [{"port": 80, "protocol": "TCP"}]}]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"podSelector": {"matchLabels": {"b d": "x"}}}, ["spec.podSelector.matchLabels"]),
        (peer(), ["spec.ingress[0].from[0]"]),
        (peer(ipBlock={"cidr": "x"}), ["spec.ingress[0].from[0].ipBlock.cidr"]),
        (peer(ipBlock={"cidr": "10.0.0.0/8"}, podSelector={}), ["spec.ingress[0].from[0]"]),
        (
            peer(ipBlock={"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/8"]}),
            ["spec.ingress[0].from[0].ipBlock.except[1]"],
        ),
        (peer(namespaceSelector={}), []),
        (port(port=99999), ["spec.egress[0].ports[0].port"]),
        (port(port="http", endPort=5), ["spec.egress[0].ports[0].endPort"]),
        (port(port=80, endPort=5), ["spec.egress[0].ports[0].endPort"]),
        (port(port=80, endPort=90), []),
        (port(protocol="X"), ["spec.egress[0].ports[0].protocol"]),
        ({"policyTypes": ["Sideways"]}, ["spec.policyTypes[0]"]),
    ],
)
def test_a_policy_says_whom_it_lets_through(spec: dict[str, Any], expected: list[str]) -> None:
    assert faults(POLICIES, made(POLICIES, spec=spec)) == expected


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        (["10.0.0.0/8"], []),
        (["10.0.0.0/8", "fd00::/64"], []),
        ([], ["spec.cidrs"]),
        (["x"], ["spec.cidrs[0]"]),
        (["10.0.0.1/8"], ["spec.cidrs[0]"]),
        (["10.0.0.0/8", "11.0.0.0/8"], ["spec.cidrs"]),
    ],
)
def test_services_have_a_range_of_each_family(ranges: list[str], expected: list[str]) -> None:
    assert faults(RANGES, made(RANGES, spec={"cidrs": ranges})) == expected


def test_a_range_stays_as_it_is() -> None:
    one, other = (made(RANGES, spec={"cidrs": [text]}) for text in ("10.1.0.0/16", "10.2.0.0/16"))
    assert faults(RANGES, one, other) == ["spec.cidrs[0]"]
    assert faults(RANGES, made(RANGES, spec={}), one) == ["spec.cidrs", "spec.cidrs"]


def test_an_address_is_named_by_itself_and_somebodys() -> None:
    owner = {"parentRef": {"resource": "services", "name": "s"}}
    assert faults(ADDRESSES, made(ADDRESSES, metadata={"name": "10.0.0.1"}, spec=owner)) == []
    assert faults(ADDRESSES, made(ADDRESSES, spec=owner)) == ["metadata.name"]
    nobodys = made(ADDRESSES, metadata={"name": "10.0.0.1"}, spec={"parentRef": {}})
    assert faults(ADDRESSES, nobodys) == ["spec.parentRef.resource", "spec.parentRef.name"]
