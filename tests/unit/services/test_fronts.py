from typing import Any

import pytest

from kit.services import HTTP, a_service, a_slice, an_endpoint
from pykubelet.api.services import (
    ClientIPConfig,
    EndpointPort,
    EndpointSlice,
    Service,
    ServicePort,
    SessionAffinityConfig,
)
from pykubelet.services.fronts import API_SERVER, Backend, Front, Place, fronts

PLACE = Place(node="n1", addresses=frozenset(("192.0.2.1", "127.0.0.1")))
POD = an_endpoint("10.1.0.5")
AWAY = an_endpoint("10.2.0.5", node="n2")


def of(services: list[Service], slices: list[EndpointSlice], place: Place = PLACE) -> list[Front]:
    return list(fronts(services, slices, place, 4))


def behind(*endpoints: Any, place: Place = PLACE, **spec: Any) -> list[str]:
    (front,) = of([a_service(**spec)], [a_slice("web", *endpoints)], place)
    return [f"{each.address}:{each.port}" for each in front.backends]


def test_a_service_has_those_endpoints_that_are_ready() -> None:
    unready = an_endpoint("10.1.0.6", ready=False)
    unsaid = an_endpoint("10.1.0.7", ready=None)
    assert behind(POD, unready, unsaid, AWAY) == ["10.1.0.5:8080", "10.1.0.7:8080", "10.2.0.5:8080"]
    assert behind() == []


def test_when_all_are_on_their_way_out_those_that_still_serve_are_taken() -> None:
    leaving = an_endpoint("10.1.0.6", ready=False, serving=True, terminating=True)
    dead = an_endpoint("10.1.0.7", ready=False, serving=False, terminating=True)
    assert behind(leaving, dead) == ["10.1.0.6:8080"]
    assert behind(POD, leaving, dead) == ["10.1.0.5:8080"]


def test_each_port_has_the_endpoints_of_its_name_and_protocol() -> None:
    ports = (HTTP, ServicePort(name="dns", port=53, protocol="UDP"), ServicePort(name="dns-tcp", port=53))
    slices = [
        a_slice("web", POD),
        a_slice("web", POD, ports=(EndpointPort(name="dns", port=5353, protocol="UDP"),)),
        a_slice("web", POD, ports=(EndpointPort(name="dns", port=1, protocol="TCP"),)),
        a_slice("other", AWAY),
    ]
    found = of([a_service("web", "10.96.0.100", *ports)], slices)
    assert [(each.name, each.protocol, each.port) for each in found] == [
        ("default/web:http", "TCP", 80),
        ("default/web:dns", "UDP", 53),
        ("default/web:dns-tcp", "TCP", 53),
    ]
    assert [each.backends for each in found] == [
        (Backend("10.1.0.5", 8080, True),),
        (Backend("10.1.0.5", 5353, True),),
        (),
    ]


def test_those_on_this_node_are_known_as_such() -> None:
    host = an_endpoint("192.0.2.1", node="")
    (front,) = of([a_service()], [a_slice("web", POD, AWAY, host)])
    assert [each.address for each in front.local] == ["10.1.0.5", "192.0.2.1"]


@pytest.mark.parametrize("spec", [{"type": "ExternalName"}, {"ip": "None"}, {"ip": ""}])
def test_a_service_without_an_address_has_no_front(spec: dict[str, str]) -> None:
    assert of([a_service(**spec)], [a_slice("web", POD)]) == []  # type: ignore[arg-type]


def test_node_ports_are_opened_by_those_who_have_them_and_never_over_the_nodes_own() -> None:
    port = ServicePort(name="http", port=80, node_port=30080)
    own = ServicePort(name="http", port=80, node_port=10250)
    place = Place(node="n1", reserved_ports=frozenset((10250,)))

    def node_port(kind: str, port: ServicePort) -> int:
        return of([a_service("web", "10.96.0.100", port, type=kind)], [], place)[0].node_port

    assert node_port("NodePort", port) == node_port("LoadBalancer", port) == 30080
    assert node_port("ClusterIP", port) == 0
    assert node_port("NodePort", own) == 0


def test_policies_and_stickiness() -> None:
    config = SessionAffinityConfig(client_ip=ClientIPConfig(timeout_seconds=60))
    sticky: dict[str, Any] = {"session_affinity": "ClientIP"}
    plain, local, hour, minute, bad = of(
        [
            a_service("a", "10.96.0.101"),
            a_service("b", "10.96.0.102", internal_traffic_policy="Local", external_traffic_policy="Local"),
            a_service("c", "10.96.0.103", **sticky),
            a_service("d", "10.96.0.104", session_affinity_config=config, **sticky),
            a_service(
                "e",
                "10.96.0.105",
                session_affinity_config=SessionAffinityConfig(client_ip=ClientIPConfig(timeout_seconds=-5)),
                **sticky,
            ),
        ],
        [],
    )
    assert (plain.is_internal_local, plain.is_external_local, plain.affinity_seconds) == (False, False, 0)
    assert (local.is_internal_local, local.is_external_local) == (True, True)
    assert [each.affinity_seconds for each in (hour, minute, bad)] == [10800, 60, 1]


def test_of_two_that_want_the_same_the_older_has_it() -> None:
    port = ServicePort(name="http", port=80, node_port=30080)
    wanted: dict[str, Any] = {"type": "NodePort", "external_ips": ("203.0.113.1",)}
    young = a_service("a", "10.96.0.100", port, age=9, **wanted)
    old = a_service("z", "10.96.0.100", port, age=1, **wanted)
    first, second = of([young, old], [])
    assert first.name == "default/z:http"
    assert (first.cluster, first.external, first.node_port) == (("10.96.0.100",), ("203.0.113.1",), 30080)
    assert (second.cluster, second.external, second.node_port) == ((), (), 0)


@pytest.mark.parametrize(
    "claimed",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255"),
        *("192.0.2.1", "10.96.0.1", "::1", "::ffff:203.0.113.1", "fe80::1%eth0"),
        *("", "example.org", "203.0.113.1/24", "203.0.113.1; drop"),
    ],
)
def test_nobody_gets_an_address_of_the_machine_or_of_another_service_by_asking(claimed: str) -> None:
    api = a_service("kubernetes", "10.96.0.1")
    found = of([api, a_service(external_ips=(claimed, "203.0.113.1"), age=1)], [])
    assert found[1].external == ("203.0.113.1",)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "169.254.169.254", "224.0.0.1", "x", "10.1.0.5 ; accept"])
def test_packets_are_led_to_machines_alone(address: str) -> None:
    assert behind(an_endpoint(address)) == []


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_is_a_number_that_a_packet_can_have(port: int) -> None:
    (front,) = of([a_service()], [a_slice("web", POD, port=port)])
    assert front.backends == ()
    assert of([a_service("web", "10.96.0.100", ServicePort(name="http", port=port))], []) == []
    assert of([a_service("web", "10.96.0.100", ServicePort(name="http", port=80, protocol="tcp ; x"))], []) == []


def test_what_the_agent_answers_itself_leads_to_it() -> None:
    place = Place(node="n1", answered={("default", "web"): ("192.0.2.1", 4000)})
    assert behind(POD, place=place) == ["192.0.2.1:4000"]
    assert behind(place=Place(node="n1", answered={API_SERVER: ("127.0.0.1", 6443)}), name="kubernetes") == [
        "127.0.0.1:6443"
    ]
    assert not any(each.backends for each in fronts([a_service()], [], place, 6))


def test_families_are_apart() -> None:
    both = a_service(cluster_ips=("10.96.0.100", "fd00::100"))
    slices = [a_slice("web", POD), a_slice("web", an_endpoint("fd01::5"))]
    (four,), (six,) = (fronts([both], slices, PLACE, family) for family in (4, 6))
    assert (four.cluster, [each.address for each in four.backends]) == (("10.96.0.100",), ["10.1.0.5"])
    assert (six.cluster, [each.address for each in six.backends]) == (("fd00::100",), ["fd01::5"])
