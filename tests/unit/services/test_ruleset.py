"""What the kernel makes of these texts is in tests/integration/test_services.py."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kit.services import a_service, a_slice, an_endpoint
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.services import Service, ServicePort
from pykubelet.api.struct import changed
from pykubelet.services.fronts import Backend, Front, Place, fronts
from pykubelet.services.ruleset import removal, ruleset

PLACE = Place(node="n1", addresses=frozenset(("192.0.2.1",)), bridges_are_filtered=True)
HERE, AWAY = Backend("10.1.0.5", 8080, True), Backend("10.2.0.5", 8080, False)
HOST = Backend("192.0.2.1", 9090, True)
WEB = Front(name="default/web:http", protocol="TCP", port=80, cluster=("10.96.0.100",), backends=(HERE, AWAY))


def rules(*of: Front, place: Place = PLACE, before: frozenset[str] | None = None) -> str:
    return ruleset(of, place, 4, "t", before).text


def chains(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for chain, rule in re.findall(r"^add rule ip t (\S+) (.*)$", text, re.MULTILINE):
        found.setdefault(chain, []).append(rule)
    return found


def elements(text: str, name: str) -> list[str]:
    found = re.search(rf"^add element ip t {name} {{ (.*) }}$", text, re.MULTILINE)
    return found[1].split(", ") if found else []


def ends(text: str) -> list[str]:
    """Where packets are led to."""
    return sorted(rule.split(" to ")[1] for each in chains(text).values() for rule in each if " dnat to " in rule)


def test_a_cluster_ip_leads_to_one_of_its_endpoints() -> None:
    text = rules(WEB)
    (element,) = elements(text, "to-services")
    place, _, service = element.partition(" : goto ")
    assert place == "10.96.0.100 . tcp . 80"
    (choice,) = chains(text)[service]
    assert choice.startswith("numgen random mod 2 vmap { 0 : goto endpoint-")
    assert all(each in chains(text) for each in re.findall(r"endpoint-\w+", choice))
    assert ends(text) == ["10.1.0.5:8080", "10.2.0.5:8080"]
    assert elements(text, "cluster-ips") == ["10.96.0.100"]


def test_without_endpoints_it_is_refused_wherever_it_is_asked_for() -> None:
    text = rules(changed(WEB, backends=(), external=("203.0.113.1",), node_port=30080))
    assert elements(text, "to-services") == elements(text, "to-node-ports") == []
    assert elements(text, "cluster-ips") == ["10.96.0.100"]
    assert elements(text, "unserved") == ["203.0.113.1 . tcp . 80"]
    assert elements(text, "unserved-ports") == ["tcp . 30080"]


def test_an_endpoint_that_calls_itself_through_its_service_gets_an_answer() -> None:
    text = rules(changed(WEB, backends=(HERE, HOST)))
    hidden = [rule for each in chains(text).values() for rule in each if "saddr" in rule and "mark" in rule]
    assert hidden == ["ip saddr 10.1.0.5 meta mark set meta mark | 0x4000"]


def test_pods_on_a_bridge_that_is_not_filtered_get_answers_through_this_machine() -> None:
    place = changed(PLACE, bridges_are_filtered=False)
    assert rules(WEB).count('iifkind "bridge"') == 0
    assert rules(WEB, place=place).count('iifkind "bridge"') == 1, "the one that is here"


def test_what_comes_from_outside_is_hidden_unless_only_those_here_answer() -> None:
    everywhere = changed(WEB, node_port=30080, external=("203.0.113.1",))
    (element,) = elements(rules(everywhere), "to-node-ports")
    outside = element.partition(" : goto ")[2]
    assert elements(rules(everywhere), "to-services")[1] == f"203.0.113.1 . tcp . 80 : goto {outside}"
    first, second = chains(rules(everywhere))[outside]
    assert first == "fib saddr type != local meta mark set meta mark | 0x4000"
    assert second.startswith("goto service-")
    own, others = chains(rules(changed(everywhere, is_external_local=True)))[outside]
    assert own.startswith("fib saddr type local goto service-")
    assert others.startswith("goto service-")
    assert not own.endswith(others)
    nobody = chains(rules(changed(everywhere, is_external_local=True, backends=(AWAY,))))[outside]
    assert nobody[1] == "drop"


def test_those_inside_may_be_led_to_those_here_alone() -> None:
    assert ends(rules(changed(WEB, is_internal_local=True))) == ["10.1.0.5:8080"]
    (element,) = elements(rules(changed(WEB, is_internal_local=True, backends=(AWAY,))), "to-services")
    assert element.endswith(" : drop")


def test_clients_stick_to_their_endpoint_for_a_while() -> None:
    text = rules(changed(WEB, affinity_seconds=60))
    (service,) = (each for name, each in chains(text).items() if name.startswith("service-"))
    assert [rule.startswith("ip saddr @clients-") for rule in service] == [True, True, False]
    assert text.count("timeout 60s }") == 2
    assert text.count("flags dynamic,timeout; size 65536;") == 2


def test_node_ports_of_the_loopback_address_are_for_pods_that_share_it() -> None:
    assert "daddr != 127.0.0.0/8" in rules(WEB)
    assert "daddr != 127.0.0.0/8" not in rules(WEB, place=changed(PLACE, shares_network=True))


def test_the_second_time_what_is_wanted_stays_and_the_rest_goes() -> None:
    sticky = changed(WEB, affinity_seconds=60)
    first = ruleset([sticky], PLACE, 4, "t")
    assert "delete table ip t" in first.text
    same = ruleset([sticky], PLACE, 4, "t", first.made)
    assert "delete" not in same.text
    assert same.made == first.made
    gone = ruleset([changed(sticky, backends=(HERE,))], PLACE, 4, "t", first.made)
    deleted = re.findall(r"^delete (chain|set) ip t (\S+)$", gone.text, re.MULTILINE)
    assert {f"{kind} {name}" for kind, name in deleted} == first.made - gone.made
    assert [kind for kind, _ in deleted] == ["chain", "chain", "set"]


def test_other_families_and_removal() -> None:
    six = changed(WEB, cluster=("fd00::100",), backends=(Backend("fd01::5", 8080, True),))
    text = ruleset([six], PLACE, 6, "t").text
    assert "dnat to [fd01::5]:8080" in text
    assert "type ipv6_addr . inet_proto" in text
    assert not re.search(r"\bip (daddr|saddr)", text)
    assert removal(6, "t") == "add table ip6 t\ndelete table ip6 t\n"


WORDS = st.text(max_size=30) | st.sampled_from(
    [
        "10.96.0.9",
        "10.1.0.5",
        "127.0.0.1",
        '"; flush ruleset; #',
        "}\nflush ruleset\n",
        "web",
        "TCP",
        "Local",
        "NodePort",
    ]
)
NUMBERS = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([80, 8080, 30080])


@st.composite
def any_service(draw: st.DrawFn) -> Service:
    ports = draw(
        st.lists(
            st.builds(ServicePort, name=WORDS, protocol=WORDS, port=NUMBERS, node_port=NUMBERS), min_size=1, max_size=3
        )
    )
    spec: dict[str, Any] = {
        name: draw(WORDS)
        for name in ("type", "session_affinity", "internal_traffic_policy", "external_traffic_policy", "cluster_ip")
    }
    spec |= {name: tuple(draw(st.lists(WORDS, max_size=3))) for name in ("cluster_ips", "external_ips")}
    ip = spec.pop("cluster_ip")
    service = a_service("web", ip, *ports, **spec)
    return changed(service, metadata=ObjectMeta(namespace=draw(WORDS), name=draw(WORDS)))


_WORD = r"[a-z0-9_.:/@!=<>^&|,\[\]*-]++"
_LINE = re.compile(rf'(?:comment "[A-Za-z0-9./:_-]*+"|{_WORD}|[{{}};"]| )*+')
_ALLOWED = re.compile(r"^(add|delete|flush) (table|chain|map|set|rule|element) (ip|ip6) t( |$)")


@given(st.lists(any_service(), max_size=4), st.lists(WORDS, max_size=3), NUMBERS)
def test_no_value_of_anybody_becomes_a_word_of_the_packet_filter(
    services: list[Service], addresses: list[str], port: int
) -> None:
    slices = [
        changed(
            a_slice("x", *(an_endpoint(each) for each in addresses), port=port, name=service.spec.ports[0].name),
            metadata=ObjectMeta(
                namespace=service.metadata.namespace, labels={"kubernetes.io/service-name": service.metadata.name}
            ),
        )
        for service in services
    ]
    for family in (4, 6):
        made = ruleset(fronts(services, slices, PLACE, family), PLACE, family, "t")
        for line in made.text.splitlines():
            assert _ALLOWED.match(line), line
            assert _LINE.fullmatch(line), line
            assert "flush ruleset" not in line
        declared = set(re.findall(r"^add chain \S+ t (\S+)", made.text, re.MULTILINE))
        assert set(re.findall(r"(?:goto|jump) (\S+)", made.text)) <= declared
        for table in ("to-services", "to-node-ports", "unserved", "unserved-ports", "cluster-ips"):
            found = re.search(rf"^add element \S+ t {table} {{ (.*) }}$", made.text, re.MULTILINE)
            keys = [each.partition(" : ")[0] for each in found[1].split(", ")] if found else []
            assert len(keys) == len(set(keys)), "the kernel would refuse all of it"
