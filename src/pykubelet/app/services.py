"""The part of the wiring that makes services work on this node."""

from collections.abc import Iterator

from pykubelet.api.objects import ObjectReference
from pykubelet.api.services import Service
from pykubelet.app.api_client import ApiParts
from pykubelet.app.foundations import Foundations
from pykubelet.app.machine import MachineParts
from pykubelet.node.agent import Agent
from pykubelet.services.node_services import NodeServices, NodeView
from pykubelet.services.proxier import Known, table_name


def node_services(
    base: Foundations, api: ApiParts, local: MachineParts, agent: Agent, given: dict[str, tuple[str, ...]]
) -> NodeServices:
    """`given` are the addresses of pods by their uids, as soon as they have them: before the first word of a container,
    and long before a status says them."""
    config = base.config
    services, slices = api.services, api.slices
    assert slices is not None

    def known() -> Known | None:
        if not (services.synced.is_set() and slices.synced.is_set()):
            return None
        return Known(tuple(services.items.values()), tuple(slices.items.values()))

    def pod_addresses() -> Iterator[str]:
        pods = {pod.metadata.uid: pod for pod in agent.pods()}
        for uid in given.keys() - pods.keys():
            del given[uid]
        for addresses in given.values():
            yield from addresses
        for pod in pods.values():
            yield from (each.ip for each in pod.status.pod_ips)

    def tell(service: Service, why_not: str) -> None:
        meta = service.metadata
        about = ObjectReference(
            kind="Service", api_version="v1", namespace=meta.namespace, name=meta.name, uid=meta.uid
        )
        told = (
            f"On node {config.node.name} its address leads nowhere: {why_not}. "
            f"Use `kubectl -n {meta.namespace} port-forward service/{meta.name} PORT`"
        )
        api.recorder.object_event(about, "Warning", "ServiceNotProxied", told)

    made = NodeServices(
        table_name(config.root_dir),
        NodeView(
            name=config.node.name,
            address=base.facts.ips[0] if base.facts.ips else "127.0.0.1",
            own_network=base.runtime.capabilities.own_network,
            api_server=api.place,
            cluster_domain=config.dns.cluster_domain,
            cluster_servers=config.dns.cluster_servers,
            reserved_ports=frozenset((config.server.port, api.place[1])),
            known=known,
            name_servers=lambda: local.dns.settings().host.servers,
            pods=agent.pods,
            pod_addresses=pod_addresses,
        ),
        tell,
    )
    services.on_change = slices.on_change = made.changed
    return made
