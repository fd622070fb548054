"""The packet filter's rules for services, as one text that is in force as a whole or not at all.

One table of our own in each family of addresses. A packet that opens a connection is looked up by where it goes; a
chain of the service chooses an endpoint, and a chain of the endpoint leads it there. What still goes to a service's
address after that is refused. Sets stay as long as they are wanted: clients keep the endpoint that they had.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from pykubelet.services.fronts import Backend, Family, Front, Place

_MARK: Final = "0x4000"
"""On a packet between two hooks: its sender is to be hidden behind this machine. The same bit as kube-proxy's."""
_MOST_CLIENTS: Final = 65536
_WORDS: Final = {4: ("ip", "ipv4_addr", "127.0.0.0/8"), 6: ("ip6", "ipv6_addr", "::1")}
_UNTOLD: Final = re.compile(r"[^A-Za-z0-9./:_-]")
_HOOKS: Final = {
    "prerouting": "type nat hook prerouting priority dstnat",
    "output": "type nat hook output priority -100",
    "postrouting": "type nat hook postrouting priority srcnat",
    "refuse-input": "type filter hook input priority filter",
    "refuse-forward": "type filter hook forward priority filter",
    "refuse-output": "type filter hook output priority filter",
}


class Ruleset(Struct, frozen=True):
    text: str
    made: frozenset[str]
    """The chains and sets that come and go with services, as `chain x` and `set x`."""


def ruleset(
    fronts: Iterable[Front], place: Place, family: Family, table: str, before: frozenset[str] | None = None
) -> Ruleset:
    """`before` is what the last one has made; None: whatever there is of the table goes."""
    lines = _Lines(family, table)
    table_name = f"{lines.family} {table}"
    head = [f"add table {table_name}"]
    if before is None:
        head += [f"delete table {table_name}", f"add table {table_name}"]
    for front in fronts:
        lines.add_front(front, place)
    made = frozenset((*(f"chain {name}" for name in lines.chains), *(f"set {name}" for name in lines.sticky)))
    body = [
        *(f"add chain {table_name} {name} {{ {hook}; }}" for name, hook in _HOOKS.items()),
        *(f"add chain {table_name} {name}" for name in ("services", "refuse")),
        *lines.declared(),
        f"flush table {table_name}",
        *(f"flush {kind} {table_name} {name}" for kind, name, _ in lines.tables()),
        *(f"add chain {table_name} {name}" for name in lines.chains),
        *(
            f"add set {table_name} {name} {{ type {lines.type}; flags dynamic,timeout; size {_MOST_CLIENTS}; }}"
            for name in lines.sticky
        ),
        *lines.common_rules(place),
        *(f"add rule {table_name} {name} {rule}" for name, rules in lines.chains.items() for rule in rules),
        *(f"add element {table_name} {name} {{ {', '.join(each)} }}" for _, name, each in lines.tables() if each),
        *(f"delete {kind} {table_name} {name}" for kind, name in _gone(before, made)),
    ]
    return Ruleset("\n".join([*head, *body, ""]), made)


def removal(family: Family, table: str) -> str:
    """Harmless when it is not there."""
    name = f"{_WORDS[family][0]} {table}"
    return f"add table {name}\ndelete table {name}\n"


def _gone(before: frozenset[str] | None, made: frozenset[str]) -> list[list[str]]:
    """As kind and name. Nothing leads to these chains any more; the sets are named by the rules in them."""
    return sorted(each.split(" ") for each in (before or frozenset()) - made)


class _Lines:
    """What is collected of one table."""

    def __init__(self, family: Family, table: str) -> None:
        self.family, self.type, self._loopback = _WORDS[family]
        self._table = f"{self.family} {table}"
        self.chains: dict[str, list[str]] = {}
        self.sticky: list[str] = []
        self._services: list[str] = []
        self._node_ports: list[str] = []
        self._cluster: dict[str, None] = {}
        self._unserved: list[str] = []
        self._unserved_ports: list[str] = []

    def tables(self) -> Iterator[tuple[str, str, list[str]]]:
        """Each kind, name and elements."""
        yield "map", "to-services", self._services
        yield "map", "to-node-ports", self._node_ports
        yield "set", "cluster-ips", list(self._cluster)
        yield "set", "unserved", self._unserved
        yield "set", "unserved-ports", self._unserved_ports

    def declared(self) -> Iterator[str]:
        place = f"{self.type} . inet_proto . inet_service"
        kinds = {
            "to-services": f"{place} : verdict",
            "to-node-ports": "inet_proto . inet_service : verdict",
            "cluster-ips": self.type,
            "unserved": place,
            "unserved-ports": "inet_proto . inet_service",
        }
        for kind, name, _ in self.tables():
            yield f"add {kind} {self._table} {name} {{ type {kinds[name]}; }}"

    def common_rules(self, place: Place) -> Iterator[str]:
        where = f"{self.family} daddr . meta l4proto . th dport"
        # What comes from the loopback address cannot leave the machine, to pods on networks of their own.
        here = "fib daddr type local" + ("" if place.shares_network else f" {self.family} daddr != {self._loopback}")
        rules = {
            "prerouting": ["jump services"],
            "output": ["jump services"],
            "postrouting": [
                f"meta mark & {_MARK} == 0 return",
                f"meta mark set meta mark ^ {_MARK}",
                "masquerade fully-random",
            ],
            "services": [f"{where} vmap @to-services", f"{here} meta l4proto . th dport vmap @to-node-ports"],
            "refuse": [
                f"{self.family} daddr @cluster-ips reject",
                f"{where} @unserved reject",
                f"{here} meta l4proto . th dport @unserved-ports reject",
            ],
            **{name: ["ct state new jump refuse"] for name in ("refuse-input", "refuse-forward", "refuse-output")},
        }
        for chain, each in rules.items():
            for rule in each:
                yield f"add rule {self._table} {chain} {rule}"

    def add_front(self, front: Front, place: Place) -> None:
        protocol = front.protocol.lower()
        self._cluster |= dict.fromkeys(front.cluster)
        outside = [f"{address} . {protocol} . {front.port}" for address in front.external]
        node_ports = [f"{protocol} . {front.node_port}"] if front.node_port else []
        if not front.backends:
            self._unserved += outside
            self._unserved_ports += node_ports
            return
        inside = self._chosen(front, front.local if front.is_internal_local else front.backends, place)
        self._services += [f"{address} . {protocol} . {front.port} : {inside}" for address in front.cluster]
        if outside or node_ports:
            verdict = self._outside(front, place)
            self._services += [f"{each} : {verdict}" for each in outside]
            self._node_ports += [f"{each} : {verdict}" for each in node_ports]

    def _outside(self, front: Front, place: Place) -> str:
        """For what comes by a node port or an external address."""
        everybody = self._chosen(front, front.backends, place)
        if front.is_external_local:  # senders stay who they are; those of this machine may go anywhere
            rules = [f"fib saddr type local {everybody}", self._chosen(front, front.local, place)]
        else:
            rules = [f"fib saddr type != local meta mark set meta mark | {_MARK}", everybody]
        name = f"outside-{_hash(front.name, front.protocol)}"
        self.chains[name] = rules
        return f"goto {name}"

    def _chosen(self, front: Front, backends: tuple[Backend, ...], place: Place) -> str:
        """-> the verdict that leads to one of them."""
        if not backends:
            return "drop"
        ends = [self._endpoint(front, each, place) for each in backends]
        name = f"service-{_hash(*ends)}"
        rules = []
        if front.affinity_seconds:
            rules = [f"{self.family} saddr @{_sticky(end)} goto {end}" for end in ends]
        choices = ", ".join(f"{number} : goto {end}" for number, end in enumerate(ends))
        comment = f'comment "{_UNTOLD.sub("", front.name)[:100]}"'
        self.chains[name] = [*rules, f"numgen random mod {len(ends)} vmap {{ {choices} }} {comment}"]
        return f"goto {name}"

    def _endpoint(self, front: Front, backend: Backend, place: Place) -> str:
        name = f"endpoint-{_hash(front.name, front.protocol, backend.address, str(backend.port))}"
        if name in self.chains:
            return name
        rules = []
        hide = f"meta mark set meta mark | {_MARK}"
        if backend.address not in place.addresses:
            rules.append(f"{self.family} saddr {backend.address} {hide}")  # it would not take an answer from itself
            if backend.is_local and not place.bridges_are_filtered:
                rules.append(f'meta iifkind "bridge" {hide}')
        if front.affinity_seconds:
            self.sticky.append(_sticky(name))
            rules.append(f"update @{_sticky(name)} {{ {self.family} saddr timeout {front.affinity_seconds}s }}")
        host = f"[{backend.address}]" if ":" in backend.address else backend.address
        rules.append(f"meta l4proto {front.protocol.lower()} dnat to {host}:{backend.port}")
        self.chains[name] = rules
        return name


def _sticky(endpoint: str) -> str:
    return endpoint.replace("endpoint-", "clients-")


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
