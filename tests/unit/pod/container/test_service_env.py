"""Where services are, told to containers."""

from kit.pod_objects import service
from pykubelet.api.services import ServicePort
from pykubelet.pod.container.service_env import service_variables

MASTER = service("kubernetes", "10.0.0.1", ServicePort(name="https", port=443, protocol="TCP"))


def test_a_service_is_told_in_both_styles() -> None:
    dns = service(
        "kube-dns", "10.0.0.10", ServicePort(name="dns", port=53, protocol="UDP"), ServicePort(name="dns-tcp", port=53)
    )
    assert dict(service_variables([dns], "default", links=True)) == {
        "KUBE_DNS_SERVICE_HOST": "10.0.0.10",
        "KUBE_DNS_SERVICE_PORT": "53",
        "KUBE_DNS_SERVICE_PORT_DNS": "53",
        "KUBE_DNS_SERVICE_PORT_DNS_TCP": "53",
        "KUBE_DNS_PORT": "udp://10.0.0.10:53",
        "KUBE_DNS_PORT_53_UDP": "udp://10.0.0.10:53",
        "KUBE_DNS_PORT_53_UDP_PROTO": "udp",
        "KUBE_DNS_PORT_53_UDP_PORT": "53",
        "KUBE_DNS_PORT_53_UDP_ADDR": "10.0.0.10",
        "KUBE_DNS_PORT_53_TCP": "tcp://10.0.0.10:53",
        "KUBE_DNS_PORT_53_TCP_PROTO": "tcp",
        "KUBE_DNS_PORT_53_TCP_PORT": "53",
        "KUBE_DNS_PORT_53_TCP_ADDR": "10.0.0.10",
    }


def test_an_address_with_colons_is_bracketed_where_a_port_follows() -> None:
    told = service_variables([service("db", "fd00::1")], "default", links=True)
    assert (told["DB_SERVICE_HOST"], told["DB_PORT"]) == ("fd00::1", "tcp://[fd00::1]:80")


def test_the_api_server_is_told_to_everybody_and_others_to_those_of_their_namespace() -> None:
    mine, other = service("mine", "10.0.0.2", namespace="a"), service("other", "10.0.0.3", namespace="b")
    everything = [MASTER, mine, other]
    hosts = {name for name in service_variables(everything, "a", links=True) if name.endswith("_HOST")}
    assert hosts == {"KUBERNETES_SERVICE_HOST", "MINE_SERVICE_HOST"}
    hosts = {name for name in service_variables(everything, "a", links=False) if name.endswith("_HOST")}
    assert hosts == {"KUBERNETES_SERVICE_HOST"}


def test_of_two_services_named_kubernetes_the_one_of_the_namespace_counts() -> None:
    own = service("kubernetes", "10.9.9.9", namespace="a")
    for everything in ([MASTER, own], [own, MASTER]):
        assert service_variables(everything, "a", links=True)["KUBERNETES_SERVICE_HOST"] == "10.9.9.9"
        assert service_variables(everything, "a", links=False)["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"


def test_a_service_without_an_address_is_not_told() -> None:
    headless = [service("a", "None"), service("b", "")]
    assert service_variables(headless, "default", links=True) == {}


def test_the_api_server_is_told_where_it_answers_if_not_at_its_services_address() -> None:
    found = service_variables([MASTER], "default", links=False, api_server=("127.0.0.1", 6443))
    assert found["KUBERNETES_SERVICE_HOST"] == "127.0.0.1"
    assert found["KUBERNETES_SERVICE_PORT"] == found["KUBERNETES_SERVICE_PORT_HTTPS"] == "6443"
    assert found["KUBERNETES_PORT"] == "tcp://127.0.0.1:6443"
    assert not any("443_TCP" in name and "6443" not in name for name in found)
