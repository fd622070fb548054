"""What in the network belongs to the cluster itself."""

from ipaddress import ip_address

import pytest

from pykubelet.apiserver.security.addresses import ClusterAddresses, Endpoint, address_of, kind_fault, kubelet_endpoints
from pykubelet.base.errors import Invalid


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "169.254.169.254", "fe80::1", "0.0.0.0",
     "0.1.2.3", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1", "64:ff9b::7f00:1", "::127.0.0.1"],
)  # fmt: skip
def test_no_machine_of_a_network_is_there(text: str) -> None:
    address = address_of(text)
    assert address is not None
    assert kind_fault(address)


@pytest.mark.parametrize("text", ["10.0.0.1", "192.168.1.2", "8.8.8.8", "fd00::2", "2001:4860::1", "::ffff:10.0.0.1"])
def test_a_machine_may_be_there(text: str) -> None:
    address = address_of(text)
    assert address is not None
    assert not kind_fault(address)


@pytest.mark.parametrize(
    "text", ["", "n1", "127.1", "0x7f000001", "2130706433", "fe80::1%eth0", "10.0.0.1/8", "1.2.3.4 "]
)
def test_what_can_be_read_in_several_ways_is_no_address(text: str) -> None:
    assert address_of(text) is None


def test_services_and_the_server_itself_are_nobodys_target() -> None:
    hosts = ["API.example", "10.0.0.5", "fd00::5"]
    addresses = ClusterAddresses(lambda: hosts, 6443, "10.96.0.0/16", {})
    assert addresses.names() == {"api.example"}
    assert addresses.dial_fault(Endpoint(ip_address("10.96.3.4"), 443)) == "an address of services"
    assert addresses.dial_fault(Endpoint(ip_address("10.0.0.5"), 6443)) == "the API server itself"
    assert addresses.dial_fault(Endpoint(ip_address("fd00::5"), 6443)) == "the API server itself"
    assert addresses.dial_fault(Endpoint(ip_address("10.0.0.5"), 10250)) == ""
    assert addresses.dial_fault(Endpoint(ip_address("10.0.0.6"), 6443)) == ""
    hosts.append("10.0.0.6")
    assert addresses.dial_fault(Endpoint(ip_address("10.0.0.6"), 6443)) == "the API server itself"


def test_an_administrator_says_where_kubelets_are() -> None:
    assert kubelet_endpoints(["n1=127.0.0.1:10250", "n2=[fd00::2]:10251"]) == {
        "n1": Endpoint(ip_address("127.0.0.1"), 10250),
        "n2": Endpoint(ip_address("fd00::2"), 10251),
    }
    for text in ("n1", "n1=host:1", "=1.2.3.4:5", "n1=1.2.3.4", "n1=1.2.3.4:0", "n1=1.2.3.4:65536", "n1=1.2.3.4:x"):
        with pytest.raises(Invalid, match="write it as NODE=IP:PORT"):
            kubelet_endpoints([text])
