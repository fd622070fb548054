"""The status of a pod: what the node reports of it, decided from its spec, what was seen of it and what was said last.

All times here are whole seconds, as the API keeps them, so that a report that is read back equals the one sent.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.pod import ContainerState, ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus
from pykubelet.api.rules.pod_kinds import is_static
from pykubelet.api.rules.qos import qos_class
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.rules.restarts import restarts_after
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.probe_results import NO_PROBES, ProbeResults
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.status.conditions import (
    DISRUPTION_TARGET,
    OWN_CONDITIONS,
    closed_by_phase,
    condition_of,
    is_ready_in,
    pod_conditions,
    stamped,
    with_condition,
)
from pykubelet.pod.status.container_status import (
    NodeFacts,
    Waiting,
    container_statuses,
    in_whole_seconds,
    lost_container,
    whole_seconds,
)
from pykubelet.pod.status.phase import FAILED, SUCCEEDED, is_terminal_phase, pod_phase

__all__ = [
    "Failure",
    "NodeFacts",
    "Waiting",
    "finished_status",
    "illegal_transition",
    "merge_status",
    "pod_status",
    "rejected_status",
    "same_status",
]

_NO_FACTS: Final = NodeFacts()
_LOST: Final = ContainerState(
    terminated=lost_container("The container could not be located when the pod was terminated")
)


class Failure(Struct, frozen=True):
    """Why the node ends a pod, whatever its containers do: DeadlineExceeded, Evicted, Preempting ..."""

    reason: str
    message: str = ""
    yields_to_success: bool = False
    """Unless all containers end well: then that is how it ends."""
    disruption: str = ""
    """Why others than the pod itself wanted that; empty: they did not."""


def pod_status(
    pod: Pod,
    observed: ObservedPod,
    previous: PodStatus,
    *,
    now: datetime,
    node: NodeFacts = _NO_FACTS,
    waiting: Mapping[str, Waiting] = {},
    probes: ProbeResults = NO_PROBES,
    is_terminal: bool = False,
    failure: Failure | None = None,
    resize: tuple[PodCondition, ...] = (),
    actuated: Mapping[str, ResourceRequirements] = {},
) -> PodStatus:
    """What to report of a pod, as it was allocated.

    `pod.status` is what the API shows; `previous` is what this node reported last, or the same when it has reported
    nothing yet. `waiting` tells why containers (by name) could not be started; `is_terminal` that none will be started
    again. A pod that has Succeeded or Failed stays so. `resize` is what is said of its other size, if it asks for one,
    and `actuated` what its containers were told to have.
    """
    init, main, ephemeral = container_statuses(
        pod, observed, previous, node=node, waiting=waiting, probes=probes, actuated=actuated
    )
    from_containers = pod_phase(pod, init, main, is_terminal=is_terminal, has_begun=_has_begun(pod, observed))
    phase, reason, message = _verdict(pod, previous, from_containers, failure)
    second = whole_seconds(now)
    if failure is not None and failure.disruption:
        previous = _disrupted(pod, previous, failure.disruption, second)
    pod_ips = _pod_ips(pod, observed, previous, node)
    return PodStatus(
        observed_generation=_observed_generation(pod, previous),
        phase=phase,
        conditions=pod_conditions(pod, observed, previous, init, main, phase, second, () if is_terminal else resize),
        message=message,
        reason=reason,
        host_ip=node.host_ips[0] if node.host_ips else "",
        host_ips=tuple(HostIP(ip=ip) for ip in node.host_ips[:2]),
        pod_ip=pod_ips[0] if pod_ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in pod_ips),
        start_time=previous.start_time or second,
        init_container_statuses=init,
        container_statuses=main,
        qos_class=qos_class(pod),
        ephemeral_container_statuses=ephemeral,
    )


def rejected_status(pod: Pod, reason: str, message: str, now: datetime) -> PodStatus:
    """Of a pod that the node does not admit. It is Failed for good: its owner makes another."""
    return PodStatus(
        observed_generation=_observed_generation(pod, pod.status),
        phase=FAILED,
        reason=reason,
        message=f"Pod was rejected: {message}",
        start_time=pod.status.start_time or whole_seconds(now),
        qos_class=qos_class(pod),
    )


def finished_status(pod: Pod, previous: PodStatus, *, now: datetime) -> PodStatus:
    """Of a pod that has been stopped and of which nothing is left. The last word: `previous`, without loose ends.

    A container whose end nobody saw counts as failed, unless it never had its turn. A static pod keeps its phase: it
    may come back under the same name.
    """
    main = previous.container_statuses
    if _was_initialized(pod):
        main = tuple(map(_ended, main))
    begun = _count_of_begun(previous.init_container_statuses)
    init = previous.init_container_statuses
    phase = previous.phase if is_static(pod) or is_terminal_phase(previous.phase) else FAILED
    conditions: tuple[PodCondition, ...] = previous.conditions
    second = whole_seconds(now)
    if is_terminal_phase(phase) and is_ready_in(previous):
        conditions = stamped(closed_by_phase(conditions, pod.metadata.generation or None, phase), previous, second)
    return changed(
        previous,
        phase=phase,
        conditions=conditions,
        start_time=previous.start_time or second,
        init_container_statuses=(*map(_ended, init[:begun]), *init[begun:]),
        container_statuses=main,
    )


def merge_status(
    old_api: PodStatus, new: PodStatus, *, now: datetime | None = None, could_be_running: bool = False
) -> PodStatus:
    """What to write over `old_api`, which the API shows, to report `new`.

    What is not the kubelet's own stays as it is. While containers of the pod `could_be_running` it does not become
    Succeeded or Failed: others take that as leave to use what it holds. `now` dates what only changes here.
    """
    ending = is_terminal_phase(new.phase) and not is_terminal_phase(old_api.phase)
    conditions = [condition for condition in old_api.conditions if condition.type not in OWN_CONDITIONS]
    for condition in new.conditions:
        if condition.type in OWN_CONDITIONS:
            conditions.append(condition)
        elif condition.type == DISRUPTION_TARGET and ending and not could_be_running:
            # It was held back until the containers had ended; only now it becomes true for others.
            sent = stamped([condition], old_api, whole_seconds(now))[0] if now else condition
            conditions = with_condition(conditions, sent)
    verdict = old_api if ending and could_be_running else new
    if is_terminal_phase(verdict.phase) and is_ready_in(new):
        closed = closed_by_phase(conditions, new.observed_generation, verdict.phase)
        conditions = list(stamped(closed, new, whole_seconds(now))) if now else closed
    return changed(
        new,
        phase=verdict.phase,
        reason=verdict.reason,
        message=verdict.message,
        conditions=tuple(conditions),
        resource_claim_statuses=old_api.resource_claim_statuses,
        extended_resource_claim_status=old_api.extended_resource_claim_status,
    )


def same_status(a: PodStatus, b: PodStatus) -> bool:
    """Whether reporting one after the other would tell nobody anything new.

    Conditions of others do not count, nor when ours changed, nor fractions of seconds, nor the order of containers.
    """
    return a == b or (_claims(a) == _claims(b) and _comparable(a) == _comparable(b))


def illegal_transition(pod: Pod, old: PodStatus, new: PodStatus) -> str:
    """Which container would come back from an end that its restart policy makes final; "" when none does.

    Such a report comes from a mistake, and must not be sent: others have already acted on the end.
    """
    spec = pod.spec
    if spec.restart_policy == "Always":
        return ""
    alive = {status.name for status in new.container_statuses if status.state.terminated is None}
    for status in old.container_statuses:
        if _is_final(status, spec, spec.containers) and status.name in alive:
            return f"terminated container {status.name} attempted illegal transition to non-terminated state"
    alive = {status.name for status in new.init_container_statuses if status.state.terminated is None}
    for container, status in _paired(spec.init_containers, old.init_container_statuses):
        if container is None:
            return f"found mismatch between pod spec and status, container: {status.name}"
        if not is_sidecar(container) and _is_final(status, spec, (container,)) and status.name in alive:
            return f"terminated init container {status.name} attempted illegal transition to non-terminated state"
    return ""


# --- the phase


def _verdict(pod: Pod, previous: PodStatus, phase: str, failure: Failure | None) -> tuple[str, str, str]:
    """-> phase, reason, message. An end that has been told stays told; the API's word is the last."""
    told = pod.status
    if not is_terminal_phase(phase):
        phase = next((each.phase for each in (previous, told) if is_terminal_phase(each.phase)), phase)
    reason = message = ""
    if phase == previous.phase:
        reason = previous.reason or told.reason
        message = previous.message or told.message
    if failure is not None and not (failure.yields_to_success and phase == SUCCEEDED):
        phase, reason, message = FAILED, failure.reason, failure.message
    return (told.phase if is_terminal_phase(told.phase) else phase), reason, message


def _disrupted(pod: Pod, previous: PodStatus, why: str, now: datetime) -> PodStatus:
    """With the condition that tells owners not to blame the pod."""
    if condition_of(previous.conditions, DISRUPTION_TARGET) is not None:
        return previous
    condition = PodCondition(
        type=DISRUPTION_TARGET,
        observed_generation=pod.metadata.generation or None,
        status="True",
        reason="TerminationByKubelet",
        message=why,
        last_transition_time=now,
    )
    return changed(previous, conditions=(*previous.conditions, condition))


def _has_begun(pod: Pod, observed: ObservedPod) -> bool:
    if not observed.sandboxes or not observed.sandboxes[0].ready:
        return False
    sandbox = observed.sandboxes[0].id
    main = {container.name for container in pod.spec.containers}
    return any(container.sandbox_id == sandbox and container.name in main for container in observed.containers)


def _observed_generation(pod: Pod, previous: PodStatus) -> int | None:
    return max(pod.metadata.generation or 0, previous.observed_generation or 0) or None


# --- addresses


def _pod_ips(pod: Pod, observed: ObservedPod, previous: PodStatus, node: NodeFacts) -> tuple[str, ...]:
    """One of each family, the node's preferred family first. A pod keeps its addresses when its sandbox has ended."""
    ips = _sorted_ips(observed.sandboxes[0].ips, node) if observed.sandboxes else ()
    if pod.spec.host_network:
        ips = ips or node.host_ips[:1]
        if len(node.host_ips) > 1 and len(ips) == 1 and _family(ips[0]) != _family(node.host_ips[1]):
            ips = (*ips, node.host_ips[1])
    elif not ips and not any(sandbox.ready for sandbox in observed.sandboxes):
        ips = tuple(each.ip for each in previous.pod_ips)
    return ips


def _sorted_ips(ips: tuple[str, ...], node: NodeFacts) -> tuple[str, ...]:
    known = [_canonical_ip(ip) for ip in ips]
    if "" in known:
        return ()  # a runtime that reports nonsense is not believed in part
    first = _family(node.host_ips[0]) if node.host_ips else 4
    firsts = [next((ip for ip in known if _family(ip) == family), "") for family in (first, 10 - first)]
    return tuple(ip for ip in firsts if ip)


def _family(ip: str) -> int:
    return 6 if ":" in ip else 4


@lru_cache(maxsize=4096)
def _canonical_ip(text: str) -> str:
    """The one spelling of an address; "" when it is none. Leading zeros, which some runtimes write, mean nothing."""
    if "%" in text:
        return ""
    if ":" not in text:
        text = ".".join(part.lstrip("0") or "0" if part else part for part in text.split("."))
    try:
        ip = ip_address(text)
    except ValueError:
        return ""
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ip)


# --- ends


def _ended(status: ContainerStatus) -> ContainerStatus:
    return status if status.state.terminated is not None else changed(status, state=_LOST)


def _was_initialized(pod: Pod) -> bool:
    """Whether the API shows that main containers have had their turn."""
    if not pod.spec.init_containers:
        return True
    shown = pod.status
    if any(each.last_state.terminated is not None or each.state.waiting is None for each in shown.container_statuses):
        return True
    pairs = list(_paired(pod.spec.init_containers, shown.init_container_statuses))
    container, status = pairs[-1] if pairs else (None, None)
    if container is None or status is None:
        return False
    if is_sidecar(container):
        return status.state.running is not None and bool(status.started)
    ends = (status.state.terminated, status.last_state.terminated)
    return any(end is not None and end.exit_code == 0 for end in ends)


def _count_of_begun(init: tuple[ContainerStatus, ...]) -> int:
    """How many init containers have been tried; the first always counts."""
    for count in range(len(init), 1, -1):
        status = init[count - 1]
        if status.state.waiting is None or status.last_state.terminated is not None:
            return count
    return min(len(init), 1)


def _paired(
    containers: tuple[Container, ...], statuses: tuple[ContainerStatus, ...]
) -> Iterable[tuple[Container | None, ContainerStatus]]:
    """Each status with the container in the same place of the spec; None when that is another one."""
    for place, status in enumerate(statuses):
        container = containers[place] if place < len(containers) else None
        yield (container if container is not None and container.name == status.name else None), status


def _is_final(status: ContainerStatus, spec: PodSpec, containers: tuple[Container, ...]) -> bool:
    ended = status.state.terminated
    if ended is None or (ended.exit_code != 0 and spec.restart_policy == "OnFailure"):
        return False
    return not any(restarts_after(spec, each, ended.exit_code) for each in containers if each.name == status.name)


# --- comparison


def _claims(status: PodStatus) -> dict[str, tuple[str, str, str]]:
    return {
        condition.type: (condition.status, condition.reason, condition.message)
        for condition in status.conditions
        if condition.type in OWN_CONDITIONS or condition.type == DISRUPTION_TARGET
    }


def _comparable(status: PodStatus) -> PodStatus:
    return changed(
        status,
        conditions=(),
        start_time=whole_seconds(status.start_time) if status.start_time else None,
        init_container_statuses=_comparable_containers(status.init_container_statuses),
        container_statuses=_comparable_containers(status.container_statuses),
        ephemeral_container_statuses=_comparable_containers(status.ephemeral_container_statuses),
        resource_claim_statuses=(),
        extended_resource_claim_status=None,
    )


def _comparable_containers(statuses: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
    return tuple(
        changed(each, state=in_whole_seconds(each.state), last_state=in_whole_seconds(each.last_state))
        for each in sorted(statuses, key=lambda status: status.name)
    )
