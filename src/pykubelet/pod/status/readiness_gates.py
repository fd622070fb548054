"""Readiness gates: conditions that others set on a pod and that hold its readiness back until they are true."""

from collections.abc import Iterable

from pykubelet.api.pod import Pod, PodCondition


def why_gates_are_closed(pod: Pod, conditions: Iterable[PodCondition]) -> tuple[str, str]:
    """-> reason and message, both empty when every gate of the pod is open."""
    if not pod.spec.readiness_gates:
        return "", ""
    there = {condition.type: condition.status for condition in conditions}
    closed = []
    for gate in pod.spec.readiness_gates:
        status = there.get(gate.condition_type)
        if status is None:
            closed.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif status != "True":
            closed.append(f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {status}')
    return ("ReadinessGatesNotReady", ", ".join(closed)) if closed else ("", "")
