"""Services on a node as a whole, with a packet filter that writes down what it is told."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import dns.asyncquery
import dns.message
import pytest

from kit.services import a_service, a_slice, an_endpoint
from kit.waiting import eventually
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod
from pykubelet.api.services import Service, ServicePort
from pykubelet.api.struct import changed
from pykubelet.services import nft, routes
from pykubelet.services.node_services import NodeServices, NodeView
from pykubelet.services.proxier import Known

API = a_service("kubernetes", "10.96.0.1", ServicePort(name="https", port=443))
PORTS = (ServicePort(name="dns", port=53, protocol="UDP"), ServicePort(name="dns-tcp", port=53))
DNS = changed(
    a_service("kube-dns", "10.96.0.10", *PORTS), metadata=ObjectMeta(namespace="kube-system", name="kube-dns", uid="d")
)
CORE_DNS = changed(DNS, spec=changed(DNS.spec, selector={"k8s-app": "kube-dns"}))


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, **node: Any) -> None:
        self.text = ""
        self.trouble = ""
        self.known: Known | None = Known((API, DNS, a_service()), (a_slice("web", an_endpoint("10.1.0.5")),))
        self.pods: list[Pod] = []
        self.told: list[tuple[str, str]] = []
        monkeypatch.setattr(nft, "applied", self._apply)
        monkeypatch.setattr(nft, "tables", lambda: frozenset())
        monkeypatch.setattr(nft, "has_chain", lambda table, chain: False)
        monkeypatch.setattr(routes, "why_not", lambda table: "")
        monkeypatch.setattr(routes, "keep", lambda addresses, table: "")
        facts: dict[str, Any] = {
            "name": "n1",
            "address": "127.0.0.1",
            "own_network": False,
            "api_server": ("127.0.0.1", 6443),
            "cluster_domain": "cluster.local",
            "cluster_servers": ("10.96.0.10",),
            "reserved_ports": frozenset(),
            "known": lambda: self.known,
            "name_servers": lambda: ("10.96.0.10",),
            "pods": lambda: self.pods,
            "pod_addresses": lambda: (),
        }
        self.services = NodeServices("pykubelet-t", NodeView(**facts | node), self._tell)

    def _tell(self, service: Service, why: str) -> None:
        self.told.append((service.metadata.name, why))

    def _apply(self, text: str, *, only_check: bool = False) -> str:
        if not only_check and not self.trouble:
            self.text = text
        return self.trouble

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.services.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def leads(self) -> list[str]:
        return re.findall(r"dnat to (\S+)", self.text)


async def test_the_name_server_and_the_api_server_are_answered_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    async with world.running():
        await eventually(lambda: world.text)
        dns_udp, dns_tcp, api, web = world.leads()
        assert (api, web) == ("127.0.0.1:6443", "10.1.0.5:8080")
        assert dns_udp == dns_tcp
        query = dns.message.make_query("web.default.svc.cluster.local.", "A")
        port = int(dns_udp.rpartition(":")[2])
        said = await dns.asyncquery.udp(query, "127.0.0.1", timeout=5, port=port)
        assert said.answer[0].to_text().endswith("A 10.96.0.100")
        world.known = Known((API, DNS), ())
        world.services.changed()
        said = await dns.asyncquery.udp(query, "127.0.0.1", timeout=5, port=port)
        assert not said.answer


async def test_pods_with_networks_of_their_own_get_a_door_to_an_api_server_that_is_only_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, own_network=True)
    async with world.running():
        await eventually(lambda: world.text)
        assert world.leads()[2].startswith("127.0.0.1:")
        assert "127.0.0.1:6443" not in world.leads()
    elsewhere = World(monkeypatch, own_network=True, api_server=("192.0.2.9", 6443))
    async with elsewhere.running():
        await eventually(lambda: elsewhere.text)
        assert len(elsewhere.leads()) == 3, "its endpoints say where it is"


async def test_a_name_server_of_somebody_else_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.known = Known((CORE_DNS, a_service()), (a_slice("web", an_endpoint("10.1.0.5")),))
    async with world.running():
        await eventually(lambda: world.text)
        assert world.leads() == ["10.1.0.5:8080"]


async def test_where_it_cannot_be_each_service_is_told_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.trouble = "Operation not permitted"
    async with world.running():
        await eventually(lambda: world.told)
        world.known = Known((API, DNS, a_service(), a_service("new"), a_service("headless", "None")), ())
        world.services.changed()
        await eventually(lambda: len(world.told) == 3)
        assert [name for name, _ in world.told] == ["kube-dns", "web", "new"]
        assert world.told[0][1] == "only root may change the packet filter"
        world.trouble = ""
        world.services.changed()
        await eventually(lambda: world.text)


async def test_a_kube_proxy_on_this_node_is_left_to_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.pods = [Pod(metadata=ObjectMeta(name="kube-proxy-x", labels={"k8s-app": "kube-proxy"}))]
    async with world.running():
        await eventually(lambda: world.told)
        assert world.told[0][1] == "kube-proxy does that here, in the pod kube-proxy-x"
        assert world.text == ""
