"""Whether a pod may have its resources from where they are: upstream's topology policies, by container or by pod."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.pod.pinning.allocation_errors import TopologyAffinityError
from pykubelet.pod.pinning.machine_topology import MachineTopology
from pykubelet.pod.pinning.policy_options import NO_TOPOLOGY_OPTIONS, TopologyOptions
from pykubelet.pod.pinning.topology_hints import (
    Hint,
    HintProvider,
    Hints,
    by_distance,
    by_number,
    choices,
    mask_of,
    merged,
)

TopologyPolicy = Literal["none", "best-effort", "restricted", "single-numa-node"]
TopologyScope = Literal["container", "pod"]

_ANYWHERE: Final = Hint(None, False)
"""What a provider is told where nobody has asked for hints."""


class Topology:
    """One policy on one machine. Raises ValueError for a machine that it is not made for."""

    def __init__(
        self,
        machine: MachineTopology,
        policy: TopologyPolicy = "none",
        scope: TopologyScope = "container",
        options: TopologyOptions = NO_TOPOLOGY_OPTIONS,
    ) -> None:
        self.policy = policy
        self.scope = scope
        self._everywhere = mask_of(machine.numa_ids)
        distances: Mapping[int, Sequence[int]] = {node.id: node.distances for node in machine.nodes}
        if policy == "none":
            return
        if options.prefer_closest_numa and not all(distances.values()):
            raise ValueError("cannot discover NUMA topology: error getting NUMA distances from cadvisor")
        if len(machine.nodes) > options.max_allowable_numa_nodes:
            raise ValueError(f"unsupported on machines with more than {options.max_allowable_numa_nodes} NUMA Nodes")
        is_near = options.prefer_closest_numa and policy != "single-numa-node"
        self._order = by_distance(distances) if is_near else by_number

    @property
    def guarantees_alignment(self) -> bool:
        """Whether all that is admitted has what it needs on one NUMA node."""
        return self.policy == "single-numa-node"

    def answer(self, of_providers: Iterable[Hints]) -> tuple[Hint, bool]:
        """Where the resources come from, and whether that will do."""
        if self.policy == "none":
            return _ANYWHERE, True
        found = choices(of_providers)
        if self.policy != "single-numa-node":
            best = merged(found, self._everywhere, self._order)
            return best, best.preferred or self.policy == "best-effort"
        single = [[hint for hint in each if hint.preferred and _is_single(hint)] for each in found]
        best = merged(single, self._everywhere, self._order)
        if best.affinity == self._everywhere:
            best = Hint(None, best.preferred)
        return best, best.preferred

    def allocate(self, pod: Pod, providers: Sequence[HintProvider], counted: "Alignment") -> None:
        """For each container in the order in which they start. Raises AllocationError at the first that cannot have
        what it asks for; what was handed out till then is the caller's to take back."""
        of_pod = self._hint(pod, None, providers, counted) if self.policy != "none" and self.scope == "pod" else None
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            hint = of_pod if of_pod is not None else self._hint(pod, container, providers, counted)
            for provider in providers:
                provider.allocate(pod, container, hint)
            if self.guarantees_alignment and of_pod is None:
                counted.aligned += 1
        if self.guarantees_alignment and of_pod is not None:
            counted.aligned += 1

    def _hint(
        self, pod: Pod, container: Container | None, providers: Sequence[HintProvider], counted: "Alignment"
    ) -> Hint:
        if self.policy == "none":
            return _ANYWHERE
        if container is None:
            hint, will_do = self.answer([provider.pod_hints(pod) for provider in providers])
        else:
            hint, will_do = self.answer([provider.hints(pod, container) for provider in providers])
        if not will_do:
            counted.misaligned += self.guarantees_alignment
            raise TopologyAffinityError
        return hint


class Alignment(Struct):
    """What is counted of one admission: how often all came from one NUMA node where it has to, and how often not."""

    aligned: int = 0
    misaligned: int = 0


def _is_single(hint: Hint) -> bool:
    return hint.affinity is None or hint.affinity.bit_count() == 1
