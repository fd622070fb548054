import pytest

from kit.pods import make_pod
from pykubelet.api.pod import Pod, PodDNSConfig, PodDNSConfigOption
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.dns import (
    Dns,
    DnsSettings,
    missing_cluster_dns,
    over_limits,
    parse_resolv_conf,
    pod_dns,
)

HOST = Dns(servers=("192.0.2.1",), searches=("corp.example",), options=("timeout:2",))
CLUSTER = DnsSettings(host=HOST, cluster_servers=("10.96.0.10",), cluster_domain="cluster.local")
OF_THE_CLUSTER = Dns(
    servers=("10.96.0.10",),
    searches=("default.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example"),
    options=("ndots:5",),
)


def pod(policy: str = "ClusterFirst", *, host_network: bool = False, own: PodDNSConfig | None = None) -> Pod:
    made = make_pod("web")
    spec = changed(made.spec, dns_policy=policy, host_network=host_network, dns_config=own)
    return changed(made, spec=spec)


@pytest.mark.parametrize(
    ("wanted", "settings", "dns"),
    [
        (pod(), CLUSTER, OF_THE_CLUSTER),
        (pod(""), CLUSTER, OF_THE_CLUSTER),
        (pod(host_network=True), CLUSTER, HOST),
        (pod("ClusterFirstWithHostNet", host_network=True), CLUSTER, OF_THE_CLUSTER),
        (pod("Default"), CLUSTER, HOST),
        (pod("None"), CLUSTER, Dns()),
        (pod(), DnsSettings(host=HOST), HOST),  # there is no cluster to ask
        (pod(), DnsSettings(has_file=False), Dns(servers=("127.0.0.1",), searches=(".",))),
        (
            pod(),
            DnsSettings(host=HOST, cluster_servers=("10.96.0.10",)),
            Dns(servers=("10.96.0.10",), searches=("corp.example",), options=("ndots:5",)),
        ),
    ],
)
def test_the_policy_decides_whose_settings_count(wanted: Pod, settings: DnsSettings, dns: Dns) -> None:
    assert pod_dns(wanted, settings) == (dns, ())


def test_a_pods_own_settings_are_added_and_its_options_win() -> None:
    own = PodDNSConfig(
        nameservers=("192.0.2.1", "192.0.2.9"),
        searches=("a.example", "corp.example"),
        options=(PodDNSConfigOption(name="timeout", value="5"), PodDNSConfigOption(name="use-vc")),
    )
    dns, said = pod_dns(pod("Default", own=own), CLUSTER)
    assert dns == Dns(
        servers=("192.0.2.1", "192.0.2.9"),
        searches=("corp.example", "a.example"),
        options=("timeout:5", "use-vc"),
    )
    assert not said


def test_what_is_too_much_for_resolvers_is_left_out_and_told() -> None:
    own = PodDNSConfig(nameservers=tuple(f"192.0.2.{n}" for n in range(5)), searches=tuple(f"s{n}" for n in range(40)))
    dns, said = pod_dns(pod("None", own=own), CLUSTER)
    assert dns.servers == ("192.0.2.0", "192.0.2.1", "192.0.2.2")
    assert len(dns.searches) == 32
    assert [sentence.partition(",")[0] for sentence in said] == [
        "Nameserver limits were exceeded",
        "Search Line limits were exceeded",
    ]


def test_search_paths_that_are_too_long_are_left_out() -> None:
    long = tuple(f"{n}" + "x" * 200 for n in range(20))
    dns, said = pod_dns(pod("None", own=PodDNSConfig(searches=("y" * 254, *long))), CLUSTER)
    assert dns.searches == long[:10]
    assert len(" ".join(dns.searches)) <= 2048
    assert len(said) == 1


def test_a_resolv_conf_is_read_as_a_resolver_reads_it() -> None:
    text = (
        "# a comment\n; another\nnameserver 192.0.2.1\n  nameserver 192.0.2.2 extra\n"
        "search old.example\nsearch new.example. . b.example\noptions ndots:2 timeout:1\noptions ndots:3 rotate\n"
        "nonsense\n\n"
    )
    assert parse_resolv_conf(text) == Dns(
        servers=("192.0.2.1", "192.0.2.2"),
        searches=("new.example", "b.example"),
        options=("ndots:3", "timeout:1", "rotate"),
    )


def test_a_name_server_line_without_one_is_a_fault() -> None:
    with pytest.raises(Invalid, match="line 2 names no name server"):
        parse_resolv_conf("search a\nnameserver\n")


def test_a_pod_that_wants_a_server_of_the_cluster_is_told_where_there_is_none() -> None:
    nameless = changed(CLUSTER, cluster_servers=())
    assert missing_cluster_dns(pod(), nameless) == (
        'pod: "web_default(uid-web)". kubelet does not have ClusterDNS IP configured and cannot create Pod using '
        '"ClusterFirst" policy. Falling back to "Default" policy.'
    )
    assert missing_cluster_dns(pod("ClusterFirstWithHostNet", host_network=True), nameless)
    for content in (pod("Default"), pod("None"), pod(host_network=True)):
        assert missing_cluster_dns(content, nameless) == ""
    assert missing_cluster_dns(pod(), CLUSTER) == ""
    assert missing_cluster_dns(pod(), DnsSettings(host=HOST)) == "", "there is no cluster"


@pytest.mark.parametrize(
    ("searches", "said"),
    [
        (tuple(f"d{number}.example" for number in range(29)), ""),
        (tuple(f"d{number}.example" for number in range(30)), "consisting of more than 29 domains!"),
        (("a" * 254,), 'file "/r" contains a search path which length is more than allowed 253 chars!'),
        (("a" * 250,) * 9, "contains search line which length is more than allowed 2048 chars!"),
    ],
)
def test_a_resolv_conf_with_more_than_pods_can_be_given_is_told(searches: tuple[str, ...], said: str) -> None:
    found = over_limits("/r", changed(CLUSTER, host=Dns(searches=searches)))
    assert found.endswith(said)
    assert bool(found) == bool(said)
