"""What a pod is called and how it finds others: host names, DNS, host aliases, the host's network."""

from collections.abc import Sequence
from typing import Final

from pykubelet.api.field_errors import forbidden, invalid, required, too_long
from pykubelet.api.pod import HostAlias, PodDNSConfig, PodSpec
from pykubelet.api.validation import names
from pykubelet.api.validation.options import Errors, PodValidationOptions
from pykubelet.api.validation.rules import spelled

DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")

_MOST_NAMESERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_LONGEST_SEARCH_LIST: Final = 2048
_LONGEST_HOSTNAME: Final = 64


def validate_host_network_ports(spec: PodSpec, path: str, options: PodValidationOptions) -> Errors:
    if not spec.host_network:
        return
    for index, container in enumerate(spec.containers):
        for number, port in enumerate(container.ports):
            host_port = port.host_port or 0
            if host_port != port.container_port and (host_port or options.resource_is_pod):
                yield invalid(
                    f"{path}.containers[{index}].ports[{number}].hostPort",
                    host_port,
                    f"must be the containerPort, which is {port.container_port}, when hostNetwork is true",
                )


def validate_dns_config(spec: PodSpec, path: str) -> Errors:
    config = spec.dns_config
    if spec.dns_policy == "None" and config is None:
        yield required(path, "is required when dnsPolicy is None")
    elif spec.dns_policy == "None" and config is not None and not config.nameservers:
        yield required(f"{path}.nameservers", "must have at least one nameserver when dnsPolicy is None")
    elif config is not None:
        yield from _dns_config(config, path)


def validate_host_aliases(aliases: Sequence[HostAlias], path: str) -> Errors:
    for index, alias in enumerate(aliases):
        place = f"{path}[{index}]"
        yield from spelled(f"{place}.ip", alias.ip, names.ip_address(alias.ip))
        for number, hostname in enumerate(alias.hostnames):
            yield from spelled(f"{place}.hostnames[{number}]", hostname, names.dns_subdomain(hostname))


def validate_hostname_override(spec: PodSpec, path: str) -> Errors:
    name = spec.hostname_override
    if name is None:
        return
    if spec.set_hostname_as_fqdn:
        yield forbidden(path, "must not be set when setHostnameAsFQDN is true")
    if spec.host_network:
        yield forbidden(path, "must not be set when hostNetwork is true")
    if names.size(name) > _LONGEST_HOSTNAME:
        yield too_long(path, _LONGEST_HOSTNAME)
    yield from spelled(path, name, names.dns_subdomain(name))


def _dns_config(config: PodDNSConfig, path: str) -> Errors:
    if len(config.nameservers) > _MOST_NAMESERVERS:
        yield invalid(f"{path}.nameservers", None, f"must have at most {_MOST_NAMESERVERS} nameservers")
    for index, server in enumerate(config.nameservers):
        yield from spelled(f"{path}.nameservers[{index}]", server, names.ip_address(server))
    if len(config.searches) > _MOST_SEARCHES:
        yield invalid(f"{path}.searches", None, f"must have at most {_MOST_SEARCHES} search domains")
    if names.size(" ".join(config.searches)) > _LONGEST_SEARCH_LIST:
        yield invalid(f"{path}.searches", None, f"must have at most {_LONGEST_SEARCH_LIST} characters in all")
    for index, search in enumerate(config.searches):
        if search != ".":
            yield from spelled(f"{path}.searches[{index}]", search, names.search_domain(search.removesuffix(".")))
    for index, option in enumerate(config.options):
        if not option.name:
            yield required(f"{path}.options[{index}]", "must have a name")
