"""Made-up machines and pods for pinning, and a replay of what upstream was asked about them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.quantity import parse
from pykubelet.pod.pinning.allocation_errors import AllocationError
from pykubelet.pod.pinning.cpu_set import format_cpu_set, parse_cpu_set
from pykubelet.pod.pinning.cpu_state import CpuState
from pykubelet.pod.pinning.cpu_static import StaticCpus
from pykubelet.pod.pinning.machine_topology import Core, CpuTopology, MachineTopology, NumaNode
from pykubelet.pod.pinning.memory_state import MemoryState
from pykubelet.pod.pinning.memory_static import StaticMemory
from pykubelet.pod.pinning.policy_options import CpuOptions, cpu_options, topology_options
from pykubelet.pod.pinning.topology_hints import Hint, HintProvider, Hints
from pykubelet.pod.pinning.topology_policies import Alignment, Topology

GATES = dict.fromkeys(
    (
        *("CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions"),
        *("TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions"),
    ),
    True,
)


def made_up(
    *,
    sockets: int = 1,
    nodes_per_socket: int = 1,
    cores_per_node: int = 4,
    threads: int = 1,
    memory: int = 0,
    hugepages: dict[int, int] | None = None,
) -> MachineTopology:
    """Numbered as most machines are: first threads of all cores first."""
    cores = sockets * nodes_per_socket * cores_per_node
    nodes = sockets * nodes_per_socket
    return MachineTopology(
        nodes=tuple(
            NumaNode(
                id=node,
                memory=memory,
                hugepages=hugepages or {},
                distances=tuple(10 if node == other else 20 for other in range(nodes)),
                cores=tuple(
                    Core(
                        socket=node // nodes_per_socket,
                        threads=tuple(core + cores * thread for thread in range(threads)),
                    )
                    for core in range(node * cores_per_node, (node + 1) * cores_per_node)
                ),
            )
            for node in range(nodes)
        )
    )


def container(
    name: str = "main",
    cpu: str = "1",
    memory: str = "1Mi",
    *,
    sidecar: bool = False,
    more: Mapping[str, str] = MappingProxyType({}),
) -> Container:
    amounts = {each: parse(text) for each, text in {"cpu": cpu, "memory": memory, **more}.items()}
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    return Container(name=name, resources=resources, restart_policy="Always" if sidecar else None)


def guaranteed(uid: str = "pod", *containers: Container, init: tuple[Container, ...] = ()) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=uid, namespace="default", uid=uid),
        spec=PodSpec(containers=containers or (container(),), init_containers=init),
    )


# --- replay


class _Asked:
    """A provider that writes down what it answers."""

    def __init__(self, provider: HintProvider, said: list[Any]) -> None:
        self._provider = provider
        self._said = said

    def hints(self, pod: Pod, container: Container) -> Hints:
        return self._noted(self._provider.hints(pod, container))

    def pod_hints(self, pod: Pod) -> Hints:
        return self._noted(self._provider.pod_hints(pod))

    def allocate(self, pod: Pod, container: Container, hint: Hint) -> None:
        self._provider.allocate(pod, container, hint)

    def _noted(self, hints: Hints) -> Hints:
        self._said.append({name: [_hint(each) for each in some or ()] for name, some in hints.items()})
        return hints


def replayed(case: dict[str, Any]) -> dict[str, Any]:
    """What we answer where upstream was asked the same."""
    try:
        return _merged(case) if case["kind"] == "merge" else _lived(case)
    except ValueError as error:
        return {"error": str(error)}


def _merged(case: dict[str, Any]) -> dict[str, Any]:
    options = topology_options(case["topoOptions"], GATES)
    topology = Topology(machine_of(case), case["topoPolicy"], options=options)
    told = [{name: _hints(some) for name, some in provider.items()} for provider in case["hints"]]
    hint, admit = topology.answer(told)
    return {"hint": _hint(hint), "admit": admit}


def _hints(some: list[dict[str, Any]] | None) -> list[Hint] | None:
    return None if some is None else [Hint(each["m"], each["p"]) for each in some]


def _lived(case: dict[str, Any]) -> dict[str, Any]:
    machine = machine_of(case)
    topology = Topology(machine, case["topoPolicy"], case["scope"], topology_options(case["topoOptions"], GATES))
    options = cpu_options(case["cpuOptions"], GATES)
    cpus = static_cpus(case, machine, options) if case["cpuPolicy"] == "static" else None
    memory = static_memory(case, machine) if case["memPolicy"] == "Static" else None
    steps = [_step(op, topology, cpus, memory) for op in case["ops"]]
    return {"steps": steps}


def static_cpus(case: dict[str, Any], machine: MachineTopology, options: CpuOptions) -> StaticCpus:
    return StaticCpus(CpuTopology(machine), parse_cpu_set(case["reserved"]) or case["numReserved"], options)


def static_memory(case: dict[str, Any], machine: MachineTopology) -> StaticMemory:
    return StaticMemory(machine, {int(node): kinds for node, kinds in case["memReserved"].items()})


def _step(
    op: dict[str, Any], topology: Topology, cpus: StaticCpus | None, memory: StaticMemory | None
) -> dict[str, Any]:
    said: list[Any] = []
    answer: dict[str, Any] = {}
    if op["op"] == "remove":
        if cpus is not None:
            cpus.release(op["uid"], op["container"])
        if memory is not None:
            memory.release(op["uid"], op["container"])
    else:
        answer = {"admit": True, "reason": "", "message": ""}
        asked = [_Asked(provider, said) for provider in (cpus, memory) if provider is not None]
        try:
            topology.allocate(pod_of(op), asked, Alignment())
        except AllocationError as error:
            answer = {"admit": False, "reason": error.reason, "message": error.message}
    answer["hints"] = said or None
    if cpus is not None:
        answer["cpu"] = cpu_answer(cpus.state)
    if memory is not None:
        answer["mem"] = memory_answer(memory.state)
    return answer


def cpu_answer(state: CpuState) -> dict[str, Any]:
    assigned: dict[str, dict[str, str]] = {}
    for uid, name, cpus in state:
        assigned.setdefault(uid, {})[name] = format_cpu_set(cpus)
    return {"default": format_cpu_set(state.shared), "assigned": assigned}


def memory_answer(state: MemoryState) -> dict[str, Any]:
    assigned: dict[str, dict[str, Any]] = {}
    for uid, name, blocks in state:
        assigned.setdefault(uid, {})[name] = [
            {"numaAffinity": list(block.nodes), "type": block.type, "size": block.size} for block in blocks
        ]
    machine = {
        str(each): {
            "n": node.assignments,
            "g": list(node.group),
            "t": {
                name: [table.total, table.system_reserved, table.allocatable, table.reserved, table.free]
                for name, table in node.tables.items()
            },
        }
        for each, node in state.machine.items()
    }
    return {"machine": machine, "assigned": assigned}


def machine_of(case: dict[str, Any]) -> MachineTopology:
    return MachineTopology(
        nodes=tuple(
            NumaNode(
                id=node["id"],
                memory=node["memory"],
                hugepages={int(size): count for size, count in node["hugepages"].items()},
                distances=tuple(node["distances"]),
                cores=tuple(
                    Core(socket=core["socket"], threads=tuple(core["threads"]), uncore_cache=core["uncore"])
                    for core in node["cores"]
                ),
            )
            for node in case["nodes"]
        )
    )


def pod_of(op: dict[str, Any]) -> Pod:
    def amounts(texts: dict[str, str]) -> dict[str, Any]:
        return {name: parse(text) for name, text in texts.items()}

    def made(each: dict[str, Any]) -> Container:
        resources = ResourceRequirements(requests=amounts(each["req"]), limits=amounts(each["lim"]))
        return Container(name=each["name"], resources=resources, restart_policy="Always" if each["sidecar"] else None)

    whole = op.get("podReq")
    return Pod(
        metadata=ObjectMeta(name=op["uid"], namespace="default", uid=op["uid"]),
        spec=PodSpec(
            init_containers=tuple(made(each) for each in op["containers"] if each["init"] or each["sidecar"]),
            containers=tuple(made(each) for each in op["containers"] if not (each["init"] or each["sidecar"])),
            resources=ResourceRequirements(requests=amounts(whole), limits=amounts(whole)) if whole else None,
        ),
    )


def _hint(hint: Hint) -> dict[str, Any]:
    return {"m": hint.affinity, "p": hint.preferred}
