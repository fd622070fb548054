import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.services import a_service, a_slice, an_endpoint
from pykubelet.api.services import Endpoint, EndpointPort, ServicePort
from pykubelet.services.conntrack import Entry, Wanted, attributes, is_stale, messages, read_entry, wanted
from pykubelet.services.fronts import Place, fronts

PLACE = Place(node="n1", addresses=frozenset(("192.0.2.1", "fd00::1")))
POD, GONE = an_endpoint("10.1.0.5"), "10.1.0.9"


def packed(address: str) -> bytes:
    return bytes(int(each) for each in address.split("."))


def of(*endpoints: Endpoint, protocol: str = "UDP") -> Wanted:
    port = ServicePort(name="dns", port=53, protocol=protocol, node_port=30053)
    service = a_service("dns", "10.96.0.53", port, type="NodePort", external_ips=("203.0.113.9",))
    ports = (EndpointPort(name="dns", port=8053, protocol=protocol),)
    return wanted(fronts([service], [a_slice("dns", *endpoints, ports=ports)], PLACE, 4), PLACE, 4)


LEAVING = an_endpoint("10.1.0.6", ready=False, serving=True, terminating=True)
DEAD = an_endpoint("10.1.0.7", ready=False, serving=False, terminating=True)


@pytest.mark.parametrize(
    ("to", "port", "by", "by_port", "stale"),
    [
        ("10.96.0.53", 53, "10.1.0.5", 8053, False),
        ("10.96.0.53", 53, GONE, 8053, True),
        ("10.96.0.53", 53, "10.1.0.5", 8054, True),  # another port of the same pod
        ("10.96.0.53", 53, "10.96.0.53", 53, True),  # from when nobody was behind it
        ("10.96.0.53", 53, "10.1.0.6", 8053, False),  # on its way out
        ("10.96.0.53", 53, "10.1.0.7", 8053, True),
        ("10.96.0.53", 54, GONE, 8053, False),
        ("10.96.0.54", 53, GONE, 8053, False),
        ("203.0.113.9", 53, GONE, 8053, True),
        ("192.0.2.1", 30053, GONE, 8053, True),
        ("127.0.0.1", 30053, GONE, 8053, True),
        ("192.0.2.1", 30053, "10.1.0.5", 8053, False),
        ("192.0.2.2", 30053, GONE, 8053, False),  # the same port of another machine
        ("192.0.2.1", 53, GONE, 8053, False),
        ("10.1.0.5", 8053, "10.1.0.5", 8053, False),
    ],
)
def test_which_are_stale(to: str, port: int, by: str, by_port: int, stale: bool) -> None:
    entry = Entry((packed(to), port), (packed(by), by_port), b"")
    assert is_stale(entry, of(POD, LEAVING, DEAD)) is stale
    assert not is_stale(entry, of()), "there is nobody to lead them to"
    assert of(POD, protocol="TCP") == {}


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def a_tuple(source: bytes, target: bytes, ports: bytes, protocol: int = 17) -> bytes:
    first = 1 if len(source) == 4 else 3
    numbers = attribute(1, bytes([protocol])) + attribute(2, ports[:2]) + attribute(3, ports[2:])
    return attribute(0x8001, attribute(first, source) + attribute(first + 1, target)) + attribute(0x8002, numbers)


@pytest.mark.parametrize("size", [4, 16])
def test_an_entry_is_read_and_named_as_the_kernel_does(size: int) -> None:
    client, service, end = (bytes([each]) * size for each in (1, 2, 3))
    there = attribute(0x8001, a_tuple(client, service, b"\x12\x34\0\x35"))
    back = attribute(0x8002, a_tuple(end, client, b"\x1f\x75\x12\x34"))
    number, zone = attribute(12, b"abcd"), attribute(18, b"\0\7")
    whole = b"\2\0\0\0" + there + back + attribute(8, b"1234") + number
    assert read_entry(whole) == Entry((service, 53), (end, 8053), there + number)
    assert read_entry(whole + zone) == Entry((service, 53), (end, 8053), there + number + zone)
    for lacking in (there + back, there + number, back + number, number, b""):
        assert read_entry(b"\2\0\0\0" + lacking) is None
    of_tcp = attribute(0x8001, a_tuple(client, service, b"\x12\x34\0\x35", 6))
    assert read_entry(b"\2\0\0\0" + of_tcp + back + number) is None
    for end_of in range(len(whole)):
        assert read_entry(whole[:end_of]) is None


@given(st.binary(max_size=200))
def test_whatever_is_said_is_read_to_an_end_and_nothing_nameless_is_deleted(data: bytes) -> None:
    assert sum(len(each) for _, each in attributes(data)) <= len(data)
    assert sum(len(each) for *_, each in messages(data)) <= len(data)
    for payload in (data, b"\2\0\0\0" + attribute(1, data) + attribute(2, data) + attribute(12, b"abcd")):
        entry = read_entry(payload)
        assert entry is None or dict(attributes(entry.name))[1]
