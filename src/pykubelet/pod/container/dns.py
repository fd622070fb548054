"""How a pod's containers find names: what goes into their resolv.conf, from the node's own, the cluster's and the pod's
settings."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid

_MOST_SERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_LONGEST_SEARCH: Final = 253
_LONGEST_LINE: Final = 2048
_CLUSTER_OPTIONS: Final = ("ndots:5",)


class Dns(Struct, frozen=True, kw_only=True):
    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class DnsSettings(Struct, frozen=True, kw_only=True):
    """The node's and the cluster's."""

    host: Dns = Dns()
    """What the node itself uses."""
    cluster_servers: tuple[str, ...] = ()
    cluster_domain: str = ""
    has_file: bool = True
    """Whether there is a file that the node's settings come from; without one, containers ask themselves."""


def parse_resolv_conf(text: str) -> Dns:
    """As a resolver reads it: servers add up, of the search lines the last one counts, an option that is repeated
    replaces. Raises Invalid."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    options: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match line.split():
            case ["nameserver"]:
                raise Invalid(f"line {number} names no name server")
            case ["nameserver", address, *_]:
                servers.append(address)
            case ["search", *domains]:
                searches = tuple(domain.removesuffix(".") for domain in domains if domain != ".")
            case ["options", *given]:
                options |= {option.partition(":")[0]: option for option in given}
    return Dns(servers=tuple(servers), searches=searches, options=tuple(options.values()))


def pod_dns(pod: Pod, settings: DnsSettings) -> tuple[Dns, tuple[str, ...]]:
    """-> the pod's settings, and what had to be left out of them, one sentence each."""
    dns = _base(pod, settings)
    if own := pod.spec.dns_config:
        options = {option.partition(":")[0]: option for option in dns.options}
        options |= {each.name: f"{each.name}:{each.value}" if each.value else each.name for each in own.options}
        dns = Dns(
            servers=_once((*dns.servers, *own.nameservers)),
            searches=_once((*dns.searches, *own.searches)),
            options=tuple(options.values()),
        )
    return _fitting(dns)


def _base(pod: Pod, settings: DnsSettings) -> Dns:
    policy = pod.spec.dns_policy
    if policy == "None":
        return Dns()
    in_cluster = policy == "ClusterFirstWithHostNet" or (policy != "Default" and not pod.spec.host_network)
    if in_cluster and settings.cluster_servers:
        return Dns(
            servers=settings.cluster_servers, searches=_cluster_searches(pod, settings), options=_CLUSTER_OPTIONS
        )
    if not settings.has_file:
        return Dns(servers=("127.0.0.1",), searches=(".",))
    return settings.host


def _cluster_searches(pod: Pod, settings: DnsSettings) -> tuple[str, ...]:
    domain, host = settings.cluster_domain, settings.host.searches
    if not domain:
        return host
    return _once((f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain, *host))


def _fitting(dns: Dns) -> tuple[Dns, tuple[str, ...]]:
    """No more than resolvers can stand."""
    said = []
    servers, searches = dns.servers[:_MOST_SERVERS], dns.searches[:_MOST_SEARCHES]
    if len(servers) < len(dns.servers):
        said.append(
            "Nameserver limits were exceeded, some nameservers have been omitted, "
            f"the applied nameserver line is: {' '.join(servers)}"
        )
    searches = tuple(each for each in searches if len(each) <= _LONGEST_SEARCH)
    while len(" ".join(searches)) > _LONGEST_LINE:
        searches = searches[:-1]
    if len(searches) < len(dns.searches):
        said.append(
            "Search Line limits were exceeded, some search paths have been omitted, "
            f"the applied search line is: {' '.join(searches)}"
        )
    return Dns(servers=servers, searches=searches, options=dns.options), tuple(said)


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
