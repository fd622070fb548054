"""How a pod's containers find names: what goes into their resolv.conf, from the node's own, the cluster's and the pod's
settings."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import shown_pod
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


def missing_cluster_dns(pod: Pod, settings: DnsSettings) -> str:
    """What a pod is told that wants the cluster's name server where there is a domain and none. Empty: nothing."""
    if settings.cluster_servers or not settings.cluster_domain or not _is_in_cluster(pod):
        return ""
    return (
        f'pod: "{shown_pod(pod)}". kubelet does not have ClusterDNS IP configured and cannot create Pod using '
        '"ClusterFirst" policy. Falling back to "Default" policy.'
    )


def over_limits(path: str, settings: DnsSettings) -> str:
    """What is said of a resolv.conf that names more domains than pods can be given; empty: nothing."""
    searches, most = settings.host.searches, _MOST_SEARCHES - (3 if settings.cluster_domain else 0)
    if len(searches) > most:
        return f"Resolv.conf file '{path}' contains search line consisting of more than {most} domains!"
    allowed = "which length is more than allowed"
    if any(len(each) > _LONGEST_SEARCH for each in searches):
        return f'Resolv.conf file "{path}" contains a search path {allowed} {_LONGEST_SEARCH} chars!'
    if len(" ".join(searches)) > _LONGEST_LINE:
        return f"Resolv.conf file '{path}' contains search line {allowed} {_LONGEST_LINE} chars!"
    return ""


def _is_in_cluster(pod: Pod) -> bool:
    policy = pod.spec.dns_policy
    return policy == "ClusterFirstWithHostNet" or (policy not in ("Default", "None") and not pod.spec.host_network)


def _base(pod: Pod, settings: DnsSettings) -> Dns:
    if pod.spec.dns_policy == "None":
        return Dns()
    if _is_in_cluster(pod) and settings.cluster_servers:
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
