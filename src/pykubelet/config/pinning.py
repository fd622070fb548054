"""The options of the CPU, memory and topology managers: what is wrong with them, in upstream's words, and what they say
together."""

from collections.abc import Iterator, Mapping
from typing import Any

from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.rules.resources import CPU, HUGEPAGES_PREFIX, MEMORY
from pykubelet.config.values import cpu_set
from pykubelet.pod.pinning.policy_options import cpu_options, topology_options

Values = Mapping[str, Any]
Gates = Mapping[str, bool]


def pinning_faults(values: Values, gates: Gates) -> Iterator[str]:
    yield from _of_cpu_policy(values, gates)
    yield from _of_topology_policy(values, gates)
    yield from _of_reserved_memory(values["reservedMemory"])


def pinning_settings(values: Values, gates: Gates) -> dict[str, Any]:
    """By their paths in `Config`, of values that have no faults."""
    is_static, has_topology = values["cpuManagerPolicy"] == "static", values["topologyManagerPolicy"] != "none"
    return {
        "pinning.cpu_options": cpu_options(values["cpuManagerPolicyOptions"] if is_static else {}, gates),
        "pinning.topology_options": topology_options(
            values["topologyManagerPolicyOptions"] if has_topology else {}, gates
        ),
        "pinning.reserved_cpus": cpu_set("reservedSystemCPUs", values["reservedSystemCPUs"]),
        "pinning.reserved_memory": _by_node(values["reservedMemory"]),
    }


def _of_cpu_policy(values: Values, gates: Gates) -> Iterator[str]:
    options = values["cpuManagerPolicyOptions"]
    if values["cpuManagerPolicy"] != "static":
        if options:
            told = " ".join(f"{name}:{options[name]}" for name in sorted(options))
            yield f"cpuManagerPolicyOptions: None policy: received unsupported options=map[{told}]"
        return
    try:
        chosen = cpu_options(options, gates)
    except ValueError as error:
        yield f"cpuManagerPolicyOptions: {error}"
        return
    if chosen.align_by_socket and values["topologyManagerPolicy"] == "single-numa-node":
        yield (
            "cpuManagerPolicyOptions: Topolgy manager single-numa-node policy is incompatible with CPUManager "
            "align-by-socket policy option"
        )
    if not values["reservedSystemCPUs"] and not _reserved_cpu(values):
        yield (
            "cpuManagerPolicy: [cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be "
            "greater than zero; set one of them, or reservedSystemCPUs"
        )


def _reserved_cpu(values: Values) -> bool:
    for name in ("kubeReserved", "systemReserved"):
        try:
            if parse_quantity(str(values[name].get(CPU, "0"))):
                return True
        except ValueError:
            return True  # that is told where it is read
    return False


def _of_topology_policy(values: Values, gates: Gates) -> Iterator[str]:
    options = values["topologyManagerPolicyOptions"]
    if options and not gates["TopologyManagerPolicyOptions"]:
        yield (
            f"topologyManagerPolicyOptions: topology manager policy options {', '.join(sorted(options))} require "
            'feature gates "TopologyManagerPolicyOptions" enabled'
        )
    elif values["topologyManagerPolicy"] != "none":
        try:
            topology_options(options, gates)
        except ValueError as error:
            yield f"topologyManagerPolicyOptions: {error}"


def _of_reserved_memory(reservations: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    seen = set()
    for each in reservations:
        node = each.get("numaNode", 0)
        for name, text in (each.get("limits") or {}).items():
            where = f'NUMA node {node} and resource "{name}"'
            if name != MEMORY and not name.startswith(HUGEPAGES_PREFIX):
                yield (
                    f'reservedMemory: the limit type "{name}" for NUMA node {node} is not supported, '
                    "only [memory hugepages-<HugePageSize>] is accepted"
                )
            try:
                amount = parse_quantity(str(text))
            except ValueError as error:
                yield f"reservedMemory: {where}: {error}"
                continue
            if amount.sign <= 0:
                yield f"reservedMemory: reserved memory may not be zero for {where}"
            if (node, name) in seen:
                yield f"reservedMemory: the reserved memory has a duplicate value for {where}"
            seen.add((node, name))


def _by_node(reservations: tuple[Mapping[str, Any], ...]) -> dict[int, ResourceList]:
    found: dict[int, dict[str, Quantity]] = {}
    for each in reservations:
        limits = {name: parse_quantity(str(text)) for name, text in (each.get("limits") or {}).items()}
        found.setdefault(each.get("numaNode", 0), {}).update(limits)
    return dict(found)
