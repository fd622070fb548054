"""The node and its pods at one moment, as the page and `/page/state` show them: values, and how they are made."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from pykubelet.api import codec
from pykubelet.api.container import Container
from pykubelet.api.handlers import Probe
from pykubelet.api.node import Node
from pykubelet.api.pod import ContainerStatus, Pod
from pykubelet.api.rules.printed_pod import PrintedPod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.rules.well_known import SOURCE_ANNOTATION
from pykubelet.pod import moments as m
from pykubelet.pod.stats.loop_picture import LoopPicture
from pykubelet.pod.story.diagnosis import NodeTrouble
from pykubelet.pod.story.story import Story
from pykubelet.server.page.usage import Usage

VERSION: Final = 1
ContainerKind = Literal["container", "init", "sidecar", "ephemeral"]
_PROBES: Final = ("startup", "readiness", "liveness")


class ContainerRow(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    kind: ContainerKind
    image: str
    state: Literal["waiting", "running", "terminated"]
    reason: str = ""
    message: str = ""
    is_ready: bool = False
    restarts: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    """Of its last end."""


class PodRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of a list of pods, with its containers."""

    uid: str
    namespace: str
    name: str
    source: str
    state: str
    """Of its story."""
    is_well: bool
    sentence: str
    phase: str
    reason: str
    """STATUS of `kubectl get pods`."""
    ready: int
    total: int
    restarts: int
    ip: str
    created_at: datetime | None
    started_at: datetime | None
    qos: str
    cpu_limit: float | None
    """Of all containers together; none when one of them has none."""
    memory_limit: int | None
    containers: tuple[ContainerRow, ...]


class ConditionRow(Struct, frozen=True, kw_only=True, rename="camel"):
    type: str
    status: str
    reason: str
    message: str
    since: datetime | None


class NodeRow(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    is_ready: bool = False
    is_schedulable: bool = True
    conditions: tuple[ConditionRow, ...] = ()
    addresses: tuple[str, ...] = ()
    capacity: Mapping[str, str] = {}
    allocatable: Mapping[str, str] = {}
    cpus: float = 0.0
    memory: int = 0
    os: str = ""
    kernel: str = ""
    runtime: str = ""
    kubelet: str = ""
    version: str = ""
    trouble: NodeTrouble | None = None


class EventRow(Struct, frozen=True, kw_only=True, rename="camel"):
    at: datetime
    """When it came last."""
    kind: str
    reason: str
    message: str
    times: int = 1
    first_at: datetime | None = None


class ProbeRow(Struct, frozen=True, kw_only=True, rename="camel"):
    container: str
    kind: str
    asks: str
    """What it does, in a few words."""
    period: int
    failure_threshold: int
    result: str = ""
    """Of the last time; empty: it has not been asked yet."""
    at: datetime | None = None
    times: int = 0
    """How often in a row."""
    seconds: float | None = None


class Done(Struct, frozen=True, kw_only=True, rename="camel"):
    """What was counted since somebody first looked at the page."""

    calls: Mapping[str, int]
    """Of the runtime, by the CRI's name for them."""
    statuses: int
    """That the API server has taken."""


class NodeState(Struct, frozen=True, kw_only=True, rename="camel"):
    """All of it, or what has changed since the message before: then what is unchanged is left out."""

    version: int = VERSION
    kind: Literal["NodeState", "NodeChange"] = "NodeState"
    at: datetime
    node: NodeRow | UnsetType = UNSET
    loop: LoopPicture | UnsetType | None = UNSET
    pods: Sequence[PodRow] = ()
    gone: Sequence[str] = ()
    """Uids of pods that are no more."""
    usage: Mapping[str, Usage] | UnsetType = UNSET
    """By uid; the node's under the empty one."""
    done: Done | UnsetType = UNSET


class PodDetails(Struct, frozen=True, kw_only=True, rename="camel"):
    version: int = VERSION
    story: Story
    pod: PodRow | None
    """None: it is gone, and only its story is left."""
    events: tuple[EventRow, ...]
    probes: tuple[ProbeRow, ...]


# --- how they are made


def pod_row(pod: Pod, story: Story) -> PodRow:
    meta, spec, status = pod.metadata, pod.spec, pod.status
    printed = PrintedPod(_printable(pod))
    containers = (*filter(is_sidecar, spec.init_containers), *spec.containers)
    return PodRow(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        source=meta.annotations.get(SOURCE_ANNOTATION, ""),
        state=story.state,
        is_well=story.is_well,
        sentence=story.sentence,
        phase=status.phase,
        reason=printed.reason,
        ready=printed.ready,
        total=printed.total,
        restarts=printed.restarts,
        ip=status.pod_ip,
        created_at=meta.creation_timestamp,
        started_at=status.start_time,
        qos=status.qos_class,
        cpu_limit=_limit(containers, "cpu"),
        memory_limit=round(memory) if (memory := _limit(containers, "memory")) is not None else None,
        containers=_containers(pod),
    )


def node_row(node: Node | None, name: str, trouble: NodeTrouble, version: str) -> NodeRow:
    if node is None:
        return NodeRow(name=name, version=version, trouble=_known(trouble))
    status, info = node.status, node.status.node_info
    cpu, memory = status.capacity.get("cpu"), status.capacity.get("memory")
    return NodeRow(
        name=name,
        is_ready=any(each.type == "Ready" and each.status == "True" for each in status.conditions),
        is_schedulable=not node.spec.unschedulable,
        conditions=tuple(
            ConditionRow(
                type=each.type,
                status=each.status,
                reason=each.reason,
                message=each.message,
                since=each.last_transition_time,
            )
            for each in status.conditions
        ),
        addresses=tuple(each.address for each in status.addresses),
        capacity={key: str(value) for key, value in status.capacity.items()},
        allocatable={key: str(value) for key, value in status.allocatable.items()},
        cpus=cpu.nanos / 1e9 if cpu is not None else 0.0,
        memory=memory.value if memory is not None else 0,
        os=info.os_image,
        kernel=info.kernel_version,
        runtime=info.container_runtime_version,
        kubelet=info.kubelet_version,
        version=version,
        trouble=_known(trouble),
    )


def event_rows(moments: Iterable[m.Noted]) -> tuple[EventRow, ...]:
    """The newest first."""
    found = [
        EventRow(
            at=noted.until or noted.at,
            kind=noted.moment.kind,
            reason=noted.moment.reason,
            message=noted.moment.message,
            times=noted.times,
            first_at=noted.at if noted.times > 1 else None,
        )
        for noted in moments
        if isinstance(noted.moment, m.EventRecorded)
    ]
    return tuple(sorted(found, key=lambda row: row.at, reverse=True))


def probe_rows(pod: Pod, moments: Iterable[m.Noted]) -> tuple[ProbeRow, ...]:
    last: dict[tuple[str, str], m.Noted] = {}
    for noted in moments:
        if isinstance(noted.moment, m.Probed):
            last[noted.moment.container, noted.moment.kind] = noted
    return tuple(
        _probe_row(container, kind, probe, last.get((container.name, kind)))
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for kind in _PROBES
        if (probe := getattr(container, f"{kind}_probe")) is not None
    )


def _probe_row(container: Container, kind: str, probe: Probe, noted: m.Noted | None) -> ProbeRow:
    probed = noted.moment if noted and isinstance(noted.moment, m.Probed) else None
    return ProbeRow(
        container=container.name,
        kind=kind,
        asks=_asks(probe),
        period=probe.period_seconds or 10,
        failure_threshold=probe.failure_threshold or 3,
        result=probed.result if probed else "",
        at=(noted.until or noted.at) if noted else None,
        times=noted.times if noted else 0,
        seconds=round(probed.seconds, 3) if probed else None,
    )


def _asks(probe: Probe) -> str:
    if probe.http_get is not None:
        return f"HTTP GET {probe.http_get.path or '/'} on port {probe.http_get.port}"
    if probe.tcp_socket is not None:
        return f"TCP to port {probe.tcp_socket.port}"
    if probe.grpc is not None:
        return f"gRPC on port {probe.grpc.port}"
    return " ".join(probe.exec.command) if probe.exec is not None else ""


def _printable(pod: Pod) -> dict[str, object]:
    """As much of it as the one word takes."""
    init = [{"name": each.name, "restartPolicy": each.restart_policy} for each in pod.spec.init_containers]
    return {
        "metadata": {"deletionTimestamp": pod.metadata.deletion_timestamp},
        "spec": {"initContainers": init, "containers": pod.spec.containers},
        "status": codec.to_builtins(pod.status),
    }


def _containers(pod: Pod) -> tuple[ContainerRow, ...]:
    spec, status = pod.spec, pod.status
    told = {
        each.name: each
        for each in (
            *status.init_container_statuses,
            *status.container_statuses,
            *status.ephemeral_container_statuses,
        )
    }
    return (
        *(_container(each, "sidecar" if is_sidecar(each) else "init", told) for each in spec.init_containers),
        *(_container(each, "container", told) for each in spec.containers),
        *(_container(each, "ephemeral", told) for each in spec.ephemeral_containers),
    )


def _container(container: Container, kind: ContainerKind, told: Mapping[str, ContainerStatus]) -> ContainerRow:
    name, image, status = container.name, container.image, told.get(container.name)
    if status is None:
        return ContainerRow(name=name, kind=kind, image=image, state="waiting")
    waiting, running, ended = status.state.waiting, status.state.running, status.state.terminated
    last = ended or status.last_state.terminated
    why = waiting or ended
    return ContainerRow(
        name=name,
        kind=kind,
        image=image,
        state="running" if running else "terminated" if ended else "waiting",
        reason=why.reason if why else "",
        message=why.message if why else "",
        is_ready=status.ready,
        restarts=status.restart_count,
        started_at=running.started_at if running else ended.started_at if ended else None,
        finished_at=last.finished_at if last else None,
        exit_code=last.exit_code if last else None,
    )


def _limit(containers: Sequence[Container], name: str) -> float | None:
    """Of those that run side by side."""
    limits = [each.resources.limits.get(name) for each in containers]
    known = [each.nanos / 1e9 for each in limits if each is not None]
    return sum(known) if known and len(known) == len(limits) else None


def _known(trouble: NodeTrouble) -> NodeTrouble | None:
    return trouble if trouble != NodeTrouble() else None
