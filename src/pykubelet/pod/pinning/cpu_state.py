"""Who has which processors for itself, and what is left for everybody else."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from pykubelet.pod.pinning.cpu_set import NO_CPUS, CpuSet
from pykubelet.pod.pinning.cpu_set import format_cpu_set as shown


class CpuState(Struct, frozen=True, kw_only=True):
    shared: CpuSet = NO_CPUS
    """Where every container runs that has none of its own."""
    assigned: Mapping[str, Mapping[str, CpuSet]] = {}
    """By the pod's uid and the container's name."""

    def of(self, uid: str, container: str) -> CpuSet | None:
        return self.assigned.get(uid, {}).get(container)

    def of_pod(self, uid: str) -> CpuSet:
        return NO_CPUS.union(*self.assigned.get(uid, {}).values())

    def __iter__(self) -> Iterator[tuple[str, str, CpuSet]]:
        for uid, containers in self.assigned.items():
            for name, cpus in containers.items():
                yield uid, name, cpus

    @property
    def exclusive(self) -> CpuSet:
        return NO_CPUS.union(*(cpus for _, _, cpus in self))

    def taken(self, uid: str, container: str, cpus: CpuSet) -> "CpuState":
        of_pod = {**self.assigned.get(uid, {}), container: cpus}
        return CpuState(shared=self.shared - cpus, assigned={**self.assigned, uid: of_pod})

    def released(self, uid: str, container: str) -> "CpuState":
        """What others of the pod use, too, stays theirs."""
        cpus = self.of(uid, container)
        if cpus is None:
            return self
        others = {name: each for name, each in self.assigned[uid].items() if name != container}
        pods = {each: containers for each, containers in self.assigned.items() if each != uid}
        if others:
            pods[uid] = others
        return CpuState(shared=self.shared | cpus - NO_CPUS.union(*others.values()), assigned=pods)


def cpu_state_fault(state: CpuState, cpus: CpuSet, reserved: CpuSet, *, strict: bool) -> str:
    """Why a state that was written down cannot be right on this machine, in upstream's words; empty: it can. With a
    strict reservation all others may be somebody's own, and nothing shared."""
    shared, known = state.shared, cpus - reserved if strict else cpus
    if not shared and not (strict and state.exclusive == known):
        return "default cpuset cannot be empty" if state.assigned else ""
    if strict and reserved & shared:
        return (
            f'some of strictly reserved cpus: "{shown(reserved & shared)}" are present in defaultCpuSet: '
            f'"{shown(shared)}"'
        )
    if not strict and not reserved <= shared:
        return f'not all reserved cpus: "{shown(reserved)}" are present in defaultCpuSet: "{shown(shared)}"'
    for uid, container, own in state:
        if own & shared:
            return (
                f'pod: {uid}, container: {container} cpuset: "{shown(own)}" overlaps with default cpuset '
                f'"{shown(shared)}"'
            )
    if shared | state.exclusive != known:
        return (
            f'current set of available CPUs "{shown(known)}" doesn\'t match with CPUs in state '
            f'"{shown(shared | state.exclusive)}"'
        )
    return ""
