from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api import codec
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.sandbox_config import hostname_and_domain, kernel_hostname, sandbox_config
from pykubelet.pod.ports.runtime import PortMapping


def pod_with(name: str = "web", **spec: Any) -> Pod:
    wanted = codec.convert(PodSpec, {"containers": [{"name": "c", "image": "i"}], **spec})
    return changed(make_pod(name, uid="u1", namespace="shop"), spec=wanted)


# --- names

LONG = "a" * 62


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        ("web", {}, ("web", "")),
        ("web", {"hostname": "box"}, ("box", "")),
        ("web", {"subdomain": "sub"}, ("web", "sub.shop.svc.cluster.local")),
        ("web", {"hostname": "box", "subdomain": "sub"}, ("box", "sub.shop.svc.cluster.local")),
        ("web", {"hostnameOverride": "any.name", "hostname": "box", "subdomain": "sub"}, ("any.name", "")),
        (LONG + "b", {}, (LONG + "b", "")),
        (LONG + "bc", {}, (LONG + "b", "")),
        (LONG + "-c", {}, (LONG, "")),
        (LONG[:-1] + ".-.c", {}, (LONG[:-1], "")),
        ("web", {"hostnameOverride": LONG + ".c"}, (LONG, "")),
    ],
)
def test_a_pod_has_a_name_of_at_most_63_characters(name: str, spec: dict[str, Any], expected: tuple[str, str]) -> None:
    assert hostname_and_domain(pod_with(name, **spec), "cluster.local") == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "web"),
        ({"subdomain": "sub"}, "web"),
        ({"subdomain": "sub", "setHostnameAsFQDN": True}, "web.sub.shop.svc.cluster.local"),
        ({"setHostnameAsFQDN": True}, "web"),
        ({"subdomain": "sub", "setHostnameAsFQDN": True, "hostnameOverride": "o"}, "o"),
        ({"hostNetwork": True, "hostname": "box"}, ""),
    ],
)
def test_the_kernel_is_told_the_short_name_unless_the_pod_wants_the_long_one(
    spec: dict[str, Any], expected: str
) -> None:
    assert kernel_hostname(pod_with(**spec), "cluster.local") == expected


def test_a_long_name_that_the_kernel_cannot_hold_is_refused() -> None:
    longest = pod_with("a" * 37, subdomain="sub", setHostnameAsFQDN=True)
    assert len(kernel_hostname(longest, "cluster.local")) == 64
    too_long = (
        r"^failed to construct FQDN from pod hostname and cluster domain, FQDN a+\.sub\.shop\.svc\.cluster\.local "
        r"is too long \(64 characters is the max, 65 characters requested\)$"
    )
    with pytest.raises(Invalid, match=too_long):
        kernel_hostname(pod_with("a" * 38, subdomain="sub", setHostnameAsFQDN=True), "cluster.local")


def test_without_a_cluster_domain_names_end_where_upstreams_do() -> None:
    pod = pod_with(subdomain="sub", setHostnameAsFQDN=True)
    assert hostname_and_domain(pod, "") == ("web", "sub.shop.svc.")
    assert kernel_hostname(pod, "") == "web.sub.shop.svc."


def test_nothing_is_no_name() -> None:
    with pytest.raises(Invalid, match="not a hostname"):
        hostname_and_domain(pod_with(hostnameOverride="-" * 70), "cluster.local")


# --- the whole


def test_a_sandbox_is_asked_for_with_everything_that_upstream_says() -> None:
    pod = pod_with()
    config = sandbox_config(pod, 2, log_root="/var/log/pods", dns_servers=("10.96.0.10",), cgroup_parent="/kubepods")
    assert config.pod is pod
    assert config.attempt == 2
    assert config.hostname == "web"
    assert config.log_directory == "/var/log/pods/shop_web_u1"
    assert config.dns_servers == ("10.96.0.10",)
    assert config.cgroup_parent == "/kubepods"
    assert config.labels["io.kubernetes.pod.uid"] == "u1"
    assert config.ports == ()


def test_each_port_is_mapped_once() -> None:
    pod = pod_with(
        containers=[
            {
                "name": "a",
                "ports": [
                    {"containerPort": 80, "hostPort": 8080, "protocol": "TCP"},
                    {"containerPort": 80, "hostPort": 8080, "protocol": "TCP"},
                    {"containerPort": 80, "hostPort": 8080, "protocol": "TCP", "hostIP": "::1"},
                    {"name": "dns", "containerPort": 53, "protocol": "UDP"},
                    {"name": "dns", "containerPort": 54, "protocol": "UDP"},
                ],
            },
            {"name": "b", "ports": [{"containerPort": 9000}]},
        ],
        initContainers=[{"name": "i", "ports": [{"containerPort": 1, "hostPort": 1}]}],
    )
    assert sandbox_config(pod, 0, log_root="/l").ports == (
        PortMapping(container_port=80, host_port=8080),
        PortMapping(container_port=80, host_port=8080, host_ip="::1"),
        PortMapping(container_port=53, host_port=0, protocol="UDP"),
        PortMapping(container_port=9000, host_port=0),
    )
