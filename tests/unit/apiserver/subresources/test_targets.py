"""Where requests are passed on to."""

from ipaddress import ip_address
from typing import Any

import pytest

from kit.cluster import TestCluster, cluster
from kit.virtual_time import virtual_time
from pykubelet.apiserver.security.addresses import ClusterAddresses, Endpoint
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.subresources.targets import Targets

OWN = ["127.0.0.1", "10.0.0.5", "api.example"]


class Names:
    """A resolver that says something else each time."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def resolve(self, name: str) -> list[str]:
        return self.answers.pop(0)


def targets(names: Names | None = None, **kubelets: Endpoint) -> Targets:
    addresses = ClusterAddresses(lambda: OWN, 6443, "10.96.0.0/16", kubelets)
    return Targets(addresses, (names or Names()).resolve)


async def node(c: TestCluster, name: str, *told: tuple[str, str], port: int = 0) -> None:
    addresses = [{"type": kind, "address": address} for kind, address in told]
    endpoints = {"kubeletEndpoint": {"Port": port}}
    await c.node(name, addresses=addresses, daemonEndpoints=endpoints)


@virtual_time
async def test_a_kubelet_is_where_its_node_says_and_has_to_be_its_own() -> None:
    async with cluster() as c:
        await node(c, "n1", ("Hostname", "n1.example"), ("InternalIP", "10.0.0.1"), port=10300)
        found = await targets().kubelet(c.backend, "n1")
        assert (found.host, found.port, found.name) == ("10.0.0.1", 10300, "n1")


@virtual_time
async def test_the_word_of_an_administrator_counts_more() -> None:
    async with cluster() as c:
        await node(c, "n1", ("InternalIP", "10.0.0.1"))
        found = await targets(n1=Endpoint(ip_address("127.0.0.1"), 10250)).kubelet(c.backend, "n1")
        assert (found.shown, found.name) == ("127.0.0.1:10250", "n1")


@virtual_time
async def test_a_name_is_resolved_once_and_its_address_is_what_is_called() -> None:
    async with cluster() as c:
        await node(c, "n1", ("Hostname", "n1.example"))
        names = Names(["10.0.0.1"], ["127.0.0.1"])
        found = await targets(names).kubelet(c.backend, "n1")
        assert (found.host, len(names.answers)) == ("10.0.0.1", 1)


@pytest.mark.parametrize(
    ("kind", "address", "port", "why"),
    [
        ("InternalIP", "127.0.0.1", 10250, "a loopback address"),
        ("InternalIP", "::ffff:127.0.0.1", 10250, "a loopback address"),
        ("InternalIP", "169.254.169.254", 80, "a link-local address"),
        ("ExternalIP", "0.0.0.0", 10250, "no address of a machine"),
        ("InternalIP", "10.96.0.1", 443, "an address of services"),
        ("InternalIP", "10.0.0.5", 6443, "the API server itself"),
        ("Hostname", "rebind.example", 10250, "a loopback address"),
    ],
)
@virtual_time
async def test_a_node_leads_us_nowhere_else(kind: str, address: str, port: int, why: str) -> None:
    async with cluster() as c:
        await node(c, "n1", (kind, address), port=port)
        with pytest.raises(ApiError, match=why) as caught:
            await targets(Names(["10.0.0.1", "127.0.0.1"])).kubelet(c.backend, "n1")
        assert caught.value.code == 400


@virtual_time
async def test_a_node_without_an_address_cannot_be_found() -> None:
    async with cluster() as c:
        await node(c, "n1", ("InternalIP", "nonsense"), ("Hostname", "gone.example"))
        with pytest.raises(ApiError, match="no preferred addresses found"):
            await targets(Names([])).kubelet(c.backend, "n1")
        await node(c, "n" * 64, ("InternalIP", "10.0.0.1"))
        with pytest.raises(ApiError, match="too long"):
            await targets().kubelet(c.backend, "n" * 64)


def pod(address: str, *ports: int) -> dict[str, Any]:
    declared = [{"containerPort": each, "name": f"p{each}"} for each in ports]
    metadata = {"name": "web", "namespace": "default"}
    return {"metadata": metadata, "spec": {"containers": [{"ports": declared}]}, "status": {"podIP": address}}


@pytest.mark.parametrize(
    ("address", "ports", "wanted", "why"),
    [
        ("10.1.0.7", (), "", ""),
        ("10.1.0.7", (), "6443", ""),
        ("10.1.0.7", (8080,), "p8080", ""),
        ("10.0.0.5", (8080,), "8080", ""),
        ("::ffff:10.0.0.5", (8080,), "8080", ""),
        ("10.0.0.5", (8080,), "2379", "does not declare"),
        ("10.0.0.5", (6443,), "6443", "the API server itself"),
        ("10.0.0.5", (10250,), "10250", "a kubelet"),
        ("10.0.0.1", (10300,), "10300", "a kubelet"),
        ("::ffff:10.0.0.1", (), "10300", "a kubelet"),
        ("127.0.0.1", (8080,), "8080", "a loopback address"),
        ("::1", (8080,), "8080", "a loopback address"),
        ("169.254.169.254", (80,), "80", "a link-local address"),
        ("10.96.0.1", (443,), "443", "an address of services"),
        ("web.example", (80,), "80", "cannot be read"),
        ("", (80,), "80", "no address yet"),
    ],
)
@virtual_time
async def test_a_pod_is_reached_at_its_own_address_and_its_own_ports(
    address: str, ports: tuple[int, ...], wanted: str, why: str
) -> None:
    async with cluster() as c:
        await node(c, "n1", ("InternalIP", "10.0.0.1"), port=10300)
        known = targets(local=Endpoint(ip_address("10.0.0.5"), 10250))
        if not why:
            assert (await known.pod(c.backend, pod(address, *ports), wanted)).name == ""
            return
        with pytest.raises(ApiError, match=why) as caught:
            await known.pod(c.backend, pod(address, *ports), wanted)
        assert caught.value.code == 400


@virtual_time
async def test_what_a_mirror_pod_declares_counts_where_its_node_is_known_to_be_here() -> None:
    """A node writes its mirror pods, with their ports, as it likes."""
    async with cluster() as c:
        known = targets(local=Endpoint(ip_address("10.0.0.5"), 10250))
        for name, is_here in (("local", True), ("n9", False)):
            mirror = pod("10.0.0.5", 2379)
            mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
            mirror["spec"]["nodeName"] = name
            if is_here:
                assert (await known.pod(c.backend, mirror, "2379")).shown == "10.0.0.5:2379"
                continue
            with pytest.raises(ApiError, match="that of another node"):
                await known.pod(c.backend, mirror, "2379")


async def behind(c: TestCluster, *addresses: dict[str, Any], pod_ip: str = "10.1.0.7") -> None:
    """A service with a pod that is there, and these endpoints."""
    meta = {"name": "web", "namespace": "default"}
    await c.pod("web", status={"podIP": pod_ip})
    await c.add("", "services", {"metadata": meta, "spec": {"ports": [{"name": "http", "port": 80}]}})
    subset = {"addresses": list(addresses), "ports": [{"name": "http", "port": 8080}]}
    await c.add("", "endpoints", {"metadata": meta, "subsets": [subset] if addresses else []})


POD = {"kind": "Pod", "namespace": "default", "name": "web"}


@pytest.mark.parametrize("wanted", ["80", "http"])
@virtual_time
async def test_a_service_is_reached_at_one_of_its_pods(wanted: str) -> None:
    async with cluster() as c:
        await behind(c, {"ip": "10.1.0.9"}, {"ip": "10.1.0.7", "targetRef": POD})
        found = await targets().service(c.backend, "default", "web", wanted)
        assert (found.shown, found.where) == ("10.1.0.7:8080", "pod default/web")


@pytest.mark.parametrize(
    ("addresses", "wanted", "why"),
    [
        ([], "80", 'no endpoints available for service "web"'),
        ([{"ip": "10.1.0.7", "targetRef": POD}], "81", 'no service port 81 found for service "web"'),
        ([{"ip": "10.1.0.7", "targetRef": POD}], "https", "no endpoints available"),
        ([{"ip": "10.1.0.7"}], "80", "no endpoints available"),
        ([{"ip": "10.1.0.8", "targetRef": POD}], "80", "no endpoints available"),
        ([{"ip": "10.1.0.7", "targetRef": {**POD, "namespace": "kube-system"}}], "80", "no endpoints available"),
        ([{"ip": "10.1.0.7", "targetRef": {**POD, "kind": "Node"}}], "80", "no endpoints available"),
    ],
)
@virtual_time
async def test_endpoints_that_are_no_pods_are_not_believed(
    addresses: list[dict[str, Any]], wanted: str, why: str
) -> None:
    async with cluster() as c:
        await behind(c, *addresses)
        with pytest.raises(ApiError, match=why) as caught:
            await targets().service(c.backend, "default", "web", wanted)
        assert (caught.value.code, caught.value.headers) == (503, {})


@virtual_time
async def test_what_a_pod_may_not_lead_to_its_service_may_not_either() -> None:
    async with cluster() as c:
        await behind(c, {"ip": "10.0.0.5", "targetRef": POD}, pod_ip="10.0.0.5")
        with pytest.raises(ApiError, match="does not declare"):
            await targets().service(c.backend, "default", "web", "80")
        with pytest.raises(ApiError) as caught:
            await targets().service(c.backend, "default", "gone", "80")
        assert caught.value.code == 404
