"""What people may ask of a policy beyond its name, with upstream's words for what they may not."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Gates = Mapping[str, bool]
_Stage = Literal["", "Alpha", "Beta"]

DEFAULT_MAX_NUMA_NODES: Final = 8
_TRUTHS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_FULL: Final = "full-pcpus-only"
_NUMA: Final = "distribute-cpus-across-numa"
_SOCKET: Final = "align-by-socket"
_CORES: Final = "distribute-cpus-across-cores"
_STRICT: Final = "strict-cpu-reservation"
_UNCORE: Final = "prefer-align-cpus-by-uncorecache"
_CPU_OPTIONS: Final[Mapping[str, tuple[str, _Stage]]] = {
    _FULL: ("full_cores_only", ""),
    _NUMA: ("across_numa", "Beta"),
    _SOCKET: ("align_by_socket", "Alpha"),
    _CORES: ("across_cores", "Alpha"),
    _STRICT: ("strict_reservation", "Beta"),
    _UNCORE: ("by_uncore_cache", "Beta"),
}
_APART: Final = ((_FULL, _CORES), (_NUMA, _CORES), (_UNCORE, _CORES), (_UNCORE, _NUMA))
"""Two that contradict each other."""
_CLOSEST: Final = "prefer-closest-numa-nodes"
_MAX_NODES: Final = "max-allowable-numa-nodes"
_TOPOLOGY_OPTIONS: Final[Mapping[str, _Stage]] = {_CLOSEST: "", _MAX_NODES: "Beta"}


class CpuOptions(Struct, frozen=True, kw_only=True):
    """Of the static CPU policy."""

    full_cores_only: bool = False
    across_numa: bool = False
    align_by_socket: bool = False
    across_cores: bool = False
    strict_reservation: bool = False
    by_uncore_cache: bool = False


class TopologyOptions(Struct, frozen=True, kw_only=True):
    prefer_closest_numa: bool = False
    max_allowable_numa_nodes: int = DEFAULT_MAX_NUMA_NODES


NO_CPU_OPTIONS: Final = CpuOptions()
NO_TOPOLOGY_OPTIONS: Final = TopologyOptions()


def cpu_options(written: Mapping[str, str], gates: Gates) -> CpuOptions:
    """Raises ValueError."""
    options = NO_CPU_OPTIONS
    for name, value in written.items():
        if name not in _CPU_OPTIONS:
            raise ValueError(f'unknown CPU Manager Policy option: "{name}"; there are {", ".join(_CPU_OPTIONS)}')
        field, stage = _CPU_OPTIONS[name]
        if stage and not gates[f"CPUManagerPolicy{stage}Options"]:
            raise ValueError(
                f'CPU Manager Policy {stage}-level Options not enabled, but option "{name}" provided; '
                f"turn on the feature gate CPUManagerPolicy{stage}Options"
            )
        options = replace(options, **{field: _truth(name, value)})
    for one, other in _APART:
        if getattr(options, _CPU_OPTIONS[one][0]) and getattr(options, _CPU_OPTIONS[other][0]):
            raise ValueError(f"static policy options {one} and {other} can not be used at the same time")
    return options


def topology_options(written: Mapping[str, str], gates: Gates) -> TopologyOptions:
    """Raises ValueError."""
    options = NO_TOPOLOGY_OPTIONS
    for name, value in written.items():
        if name not in _TOPOLOGY_OPTIONS:
            raise ValueError(
                f'unknown Topology Manager Policy option: "{name}"; there are {", ".join(_TOPOLOGY_OPTIONS)}'
            )
        stage = _TOPOLOGY_OPTIONS[name]
        if stage and not gates[f"TopologyManagerPolicy{stage}Options"]:
            raise ValueError(
                f'topology manager policy {stage.lower()}-level options not enabled, but option "{name}" provided; '
                f"turn on the feature gate TopologyManagerPolicy{stage}Options"
            )
        if name == _CLOSEST:
            options = replace(options, prefer_closest_numa=_truth(name, value))
        else:
            options = replace(options, max_allowable_numa_nodes=_node_count(name, value))
    return options


def _truth(name: str, value: str) -> bool:
    if value not in _TRUTHS:
        raise ValueError(f'bad value for option "{name}": must be true or false, got "{value}"')
    return _TRUTHS[value]


def _node_count(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal()):
        raise ValueError(f'unable to convert policy option to integer "{name}": got "{value}"')
    if int(value) < DEFAULT_MAX_NUMA_NODES:
        raise ValueError(f'the minimum value of "{name}" should not be less than {DEFAULT_MAX_NUMA_NODES}')
    return int(value)
