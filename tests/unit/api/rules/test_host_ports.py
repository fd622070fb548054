"""Ports of the machine: who collides with whom."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.rules.host_ports import HostPort, HostPorts, host_ports
from unit.pod.admission_pods import pod


def port(number: int = 80, *, protocol: str = "TCP", address: str = "0.0.0.0") -> HostPort:
    return HostPort(protocol, number, address)


@pytest.mark.parametrize(
    ("held", "wanted", "free"),
    [
        pytest.param([], [port()], True, id="a port that nobody holds is free"),
        pytest.param([port()], [port()], False, id="a held port is not free"),
        pytest.param([port()], [port(443)], True, id="another port is free"),
        pytest.param([port()], [port(protocol="UDP")], True, id="the same number of another protocol is free"),
        pytest.param([port()], [port(address="10.0.0.1")], False, id="all addresses hold each single one"),
        pytest.param([port(address="10.0.0.1")], [port()], False, id="a single address stands against all addresses"),
        pytest.param(
            [port(address="10.0.0.1")], [port(address="10.0.0.2")], True, id="two single addresses do not collide"
        ),
        pytest.param([port(address="10.0.0.1")], [port(address="10.0.0.1")], False, id="one single address collides"),
        pytest.param([port(address="::")], [port(address="10.0.0.1")], True, id="an IPv6 wildcard is like any address"),
        pytest.param([port()], [port(443), port()], False, id="one port that is held is enough"),
        pytest.param([port()], [], True, id="who wants no port gets it"),
    ],
)
def test_two_pods_and_a_port(held: list[HostPort], wanted: list[HostPort], free: bool) -> None:
    ports = HostPorts()
    ports.add(held)
    assert ports.are_free(wanted) is free


def test_what_a_pod_holds_itself_does_not_stand_in_its_way() -> None:
    ports = HostPorts()
    ports.add([port()])
    assert ports.are_free([port()], own=[port()])
    ports.add([port()])
    assert not ports.are_free([port()], own=[port()])


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ({"containerPort": 80, "hostPort": 8080}, [HostPort("TCP", 8080, "0.0.0.0")]),
        ({"containerPort": 80, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}, [("UDP", 53, "10.0.0.1")]),
        ({"containerPort": 80, "hostPort": 0}, []),
        ({"containerPort": 80}, []),
    ],
)
def test_a_port_of_the_machine_is_tcp_on_all_addresses_unless_it_says_otherwise(
    spelled: dict[str, Any], meant: list[HostPort]
) -> None:
    assert list(host_ports(pod(ports=[spelled]).spec)) == meant


def test_of_the_init_containers_only_sidecars_hold_ports() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]
    init = [
        {"name": "setup", "ports": ports},
        {"name": "proxy", "restartPolicy": "Always", "ports": [{"containerPort": 1, "hostPort": 81}]},
    ]
    assert [each.port for each in host_ports(pod(initContainers=init).spec)] == [81]


PORTS = st.lists(st.builds(port, st.integers(1, 3), protocol=st.sampled_from(("TCP", "UDP"))), max_size=3)


@given(st.lists(PORTS), PORTS, st.randoms(use_true_random=False))
def test_ports_that_came_and_went_leave_no_trace(
    lists: list[list[HostPort]], kept: list[HostPort], random: Any
) -> None:
    ports, expected = HostPorts(), HostPorts()
    expected.add(kept)
    for each in lists:
        ports.add(each)
    ports.add(kept)
    random.shuffle(lists)
    for each in lists:
        ports.remove(each)
    assert len(ports) == len(expected) == len(set(kept))
    assert all(ports.are_free([port(n)]) == expected.are_free([port(n)]) for n in (1, 2, 3))
