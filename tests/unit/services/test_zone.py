from typing import Any

import pytest

from kit.services import HTTP, a_service, a_slice, an_endpoint
from pykubelet.api.services import EndpointPort, ServicePort
from pykubelet.services import dns_wire as wire
from pykubelet.services.zone import Found, Zone

SVC = "default.svc.cluster.local"
SERVICES = [
    a_service("kubernetes", "10.96.0.1", ServicePort(name="https", port=443)),
    a_service("web", "10.96.0.100", HTTP, ServicePort(name="dns", port=53, protocol="UDP"), ServicePort(port=99)),
    a_service("two", cluster_ips=("10.96.0.102", "fd00::102")),
    a_service("db", "None", ServicePort(name="pg", port=5432)),
    a_service("empty", "None"),
    a_service("early", "None", publish_not_ready_addresses=True),
    a_service("out", "", type="ExternalName", external_name="DB.example.org."),
    a_service("alias", "", type="ExternalName", external_name=f"web.{SVC}"),
    a_service("odd", "", type="ExternalName", external_name="not a name\n"),
]
SLICES = [
    a_slice("web", an_endpoint("10.1.0.5")),
    a_slice(
        "db",
        an_endpoint("10.1.0.10", hostname="db-0"),
        an_endpoint("10.1.0.11", hostname="db-1"),
        an_endpoint("10.1.0.12"),
        an_endpoint("10.1.0.13", ready=False, hostname="db-3"),
        ports=(EndpointPort(name="pg", port=5432, protocol="TCP"),),
    ),
    a_slice("db", an_endpoint("fd01::10", hostname="db-0"), ports=()),
    a_slice("early", an_endpoint("10.1.0.20", ready=False, hostname="early-0")),
]
ZONE = Zone(SERVICES, SLICES, "cluster.local")


def found(name: str, kind: int = wire.A) -> Found:
    answer = ZONE.find(name, kind)
    assert answer is not None
    return answer


def data(name: str, kind: int = wire.A) -> list[Any]:
    return [each.data[0] if len(each.data) == 1 else each.data for each in found(name, kind).records]


def test_a_service_has_its_address_its_ports_and_the_way_back() -> None:
    assert data(f"web.{SVC}") == ["10.96.0.100"]
    assert found(f"web.{SVC}", wire.AAAA) == Found(exists=True), "the name is there, an address of that kind is not"
    assert data(f"_http._tcp.web.{SVC}", wire.SRV) == [(0, 100, 80, f"web.{SVC}")]
    assert data(f"_dns._udp.web.{SVC}", wire.SRV) == [(0, 100, 53, f"web.{SVC}")]
    assert data("100.0.96.10.in-addr.arpa", wire.PTR) == [f"web.{SVC}"]
    assert (data(f"two.{SVC}"), data(f"two.{SVC}", wire.AAAA)) == (["10.96.0.102"], ["fd00::102"])
    assert all(each.ttl == 5 for each in found(f"web.{SVC}").records)


def test_a_headless_service_is_its_endpoints() -> None:
    assert data(f"db.{SVC}") == ["10.1.0.10", "10.1.0.11", "10.1.0.12"]
    assert data(f"db.{SVC}", wire.AAAA) == ["fd01::10"]
    assert data(f"db-0.db.{SVC}") == ["10.1.0.10"]
    assert data(f"10-1-0-12.db.{SVC}") == ["10.1.0.12"]
    assert data(f"_pg._tcp.db.{SVC}", wire.SRV) == [
        (0, 100, 5432, f"db-0.db.{SVC}"),
        (0, 100, 5432, f"db-1.db.{SVC}"),
        (0, 100, 5432, f"10-1-0-12.db.{SVC}"),
    ]
    assert data("11.0.1.10.in-addr.arpa", wire.PTR) == [f"db-1.db.{SVC}"]
    assert not found(f"db-3.db.{SVC}").exists, "it is not ready"
    assert not found(f"empty.{SVC}").exists
    assert data(f"early-0.early.{SVC}") == data(f"early.{SVC}") == ["10.1.0.20"]


def test_a_name_may_stand_for_another() -> None:
    assert data(f"out.{SVC}") == data(f"out.{SVC}", wire.CNAME) == ["db.example.org"]
    assert [each.type for each in found(f"alias.{SVC}").records] == [wire.CNAME]
    assert not found(f"odd.{SVC}").exists


@pytest.mark.parametrize(
    ("name", "exists"),
    [
        ("cluster.local", True),
        ("svc.cluster.local", True),
        (SVC, True),
        (f"_tcp.web.{SVC}", True),
        ("nobody.svc.cluster.local", False),
        (f"nope.{SVC}", False),
        (f"x.web.{SVC}", False),
        ("web.cluster.local", False),
        ("pod.cluster.local", True),
        ("default.pod.cluster.local", True),
    ],
)
def test_a_name_that_has_others_below_it_is_there(name: str, exists: bool) -> None:
    assert found(name) == Found(exists)


def test_names_of_pods_say_their_addresses() -> None:
    assert data("10-1-2-3.default.pod.cluster.local") == ["10.1.2.3"]
    assert data("fd01--5.default.pod.cluster.local", wire.AAAA) == ["fd01::5"]
    assert found("10-1-2-3.default.pod.cluster.local", wire.AAAA) == Found(exists=True)
    assert not found("web.default.pod.cluster.local").exists
    assert not found("a.10-1-2-3.default.pod.cluster.local").exists


@pytest.mark.parametrize("name", ["example.org", "local", "", "mycluster.local", "5.0.1.10.in-addr.arpa", "web"])
def test_other_names_are_for_others_to_answer(name: str) -> None:
    assert ZONE.find(name, wire.A) is None


def test_what_is_said_of_the_zone_itself() -> None:
    assert data("dns-version.cluster.local", wire.TXT) == ["1.1.0"]
    assert data("cluster.local", wire.NS) == ["ns.dns.cluster.local"]
    assert found("cluster.local", wire.SOA).records == (ZONE.authority,)
