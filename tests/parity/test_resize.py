"""Who is resized, and how, replayed against what the Go kubelet decides for the same pods."""

from datetime import UTC, datetime
from typing import Any

from kit.vectors import Case, replay, unequal
from pykubelet.api.codec import convert
from pykubelet.api.container import ResourceRequirements
from pykubelet.api.pod import Pod, PodCondition
from pykubelet.api.quantity import parse
from pykubelet.api.rules.pod_kinds import is_static
from pykubelet.pod.container.hash import container_hash
from pykubelet.pod.lifecycle.plan import plan
from pykubelet.pod.lifecycle.probe_results import NO_PROBES
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.resize.actions import MemoryUse, Update, falling_limits, memory_refusal
from pykubelet.pod.resize.allocation import Allocation, is_in_progress, with_allocation
from pykubelet.pod.resize.feasibility import ResizeRules, asks_for_more, resize_order, too_large, unchangeable


def test_containers_are_told_what_upstream_tells_them() -> None:
    replay("resize-actions", _other_actions)


def test_sizes_are_given_as_upstream_gives_them() -> None:
    replay("resize-decisions", _other_decision)


def _allocation(resources: dict[str, Any]) -> Allocation:
    return {name: convert(ResourceRequirements, each) for name, each in resources.items()}


def _other_actions(recorded: Case) -> str:
    case, upstream = recorded["case"], recorded["upstream"]
    pod, actuated = convert(Pod, case["Pod"]), _allocation(case["Actuated"])
    actions = plan(pod, _observed(pod, case["States"]), NO_PROBES, None if is_static(pod) else actuated)
    if actions.kill_pod:
        return unequal("killed", upstream["KillPod"], True)
    refusal = memory_refusal(
        *falling_limits(pod, actuated, actions.resizes),
        MemoryUse(pod=case["PodUsage"], containers=case["Usage"]),
    )
    ours = (
        [_told(each) for each in actions.resizes.memory],
        [_told(each) for each in actions.resizes.cpu],
        sorted(f"{each.name}: {each.message}" for each in actions.kills),
        list(actions.containers),
        sorted(actions.init_containers),
        actions.resizes.restarts,
        bool(refusal),
    )
    theirs = (
        upstream["Memory"] or [],
        upstream["CPU"] or [],
        sorted(upstream["Kills"] or []),
        upstream["Starts"] or [],
        sorted(upstream["Inits"] or []),
        upstream["UpdatePod"],
        bool(upstream["Refusal"]),
    )
    return unequal("actions", ours, theirs)


def _observed(pod: Pod, states: dict[str, str]) -> ObservedPod:
    containers = tuple(
        ObservedContainer(id=each.name, name=each.name, state=State(states[each.name]), hash=container_hash(each))
        for each in (*pod.spec.init_containers, *pod.spec.containers)
        if each.name in states
    )
    return ObservedPod(
        uid="u", sandboxes=(ObservedSandbox(id="s", ready=True, ips=("192.0.2.1",)),), containers=containers
    )


def _told(update: Update) -> dict[str, object]:
    new, old = update.wanted, update.current
    return {
        "Name": update.container,
        "ML": new.memory_limit,
        "MR": new.memory_request,
        "CL": new.cpu_limit,
        "CR": new.cpu_request,
        "OML": old.memory_limit,
        "OMR": old.memory_request,
        "OCL": old.cpu_limit,
        "OCR": old.cpu_request,
    }


def _other_decision(recorded: Case) -> str:
    case, upstream = recorded["case"], recorded["upstream"]
    pods, given = [convert(Pod, each) for each in case["Pods"]], [_allocation(each) for each in case["Allocated"]]
    pod, allocated = pods[0], with_allocation(pods[0], given[0])
    pinned = tuple(
        name for name, policy in (("cpu", case["CPU"]), ("memory", case["Mem"])) if policy.lower() == "static"
    )
    why = None
    if allocated is not pod:
        allocatable = {name: parse(text) for name, text in case["Allocatable"].items()}
        why = unchangeable(pod, allocated, ResizeRules(pinned=pinned)) or too_large(pod, allocatable)
    running = {name: "running" if runs else "exited" for name, runs in case["Running"].items()}
    ours = (
        [with_allocation(each, has) is not each for each, has in zip(pods, given, strict=True)],
        is_in_progress(allocated, _observed(pod, running), _allocation(case["Actuated"])),
        (why.reason, why.message) if why else ("", ""),
        allocated is not pod and why is None,
        _order(case, pods, given),
    )
    theirs = (
        upstream["Updated"],
        upstream["InProgress"],
        (upstream["Reason"], upstream["Message"]),
        upstream["Done"],
        [uid for uid in upstream["Order"] if uid in _ranked(case, pods, given)],
    )
    return unequal("decision", ours, theirs)


def _order(case: Case, pods: list[Pod], given: list[Allocation]) -> list[str]:
    def pending(since: int) -> PodCondition | None:
        when = datetime.fromtimestamp(since, UTC)
        return PodCondition(type="PodResizePending", last_transition_time=when) if since else None

    ordered = resize_order(zip(pods, given, map(pending, case["Since"]), strict=True))
    return [pod.metadata.uid for pod in ordered if pod.metadata.uid in _ranked(case, pods, given)]


def _ranked(case: Case, pods: list[Pod], given: list[Allocation]) -> set[str]:
    """Those whose place upstream's comparison defines: the others come before them, or in the order of a map."""
    return {
        pod.metadata.uid
        for pod, has, since in zip(pods, given, case["Since"], strict=True)
        if since and asks_for_more(pod, with_allocation(pod, has))
    }
