"""One pod in one line: how many of its containers are ready, and the one word that says how it is."""

from datetime import datetime
from typing import Any

from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.tables.table_text import NONE, ago

Status = dict[str, Any]


def pod_cells(pod: Object, now: datetime) -> list[Any]:
    count = _Count(pod)
    restarts = str(count.restarts)
    if count.restarts and count.last_restart:
        restarts = f"{count.restarts} ({ago(count.last_restart, now)} ago)"
    addresses = at(pod, "status.podIPs", ())
    return [
        pod["metadata"].get("name", ""),
        f"{count.ready}/{count.total}",
        count.reason,
        restarts,
        ago(pod["metadata"].get("creationTimestamp"), now),
        (addresses[0].get("ip") if addresses else "") or NONE,
        at(pod, "spec.nodeName", "") or NONE,
        at(pod, "status.nominatedNodeName", "") or NONE,
        _gates(pod),
    ]


def pod_conditions(pod: Object) -> list[dict[str, str]]:
    """What marks the row of a pod that has ended."""
    phase = at(pod, "status.phase")
    if phase not in ("Succeeded", "Failed"):
        return []
    message = {
        "Succeeded": "The pod has completed successfully.",
        "Failed": "The pod failed.",
    }[phase]
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


class _Count:
    """What a walk over the containers finds."""

    def __init__(self, pod: Object) -> None:
        self.pod = pod
        status = pod.get("status", {})
        self.conditions = {each.get("type"): each for each in status.get("conditions", ())}
        self.reason = status.get("reason") or status.get("phase", "")
        if self.conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
            self.reason = "SchedulingGated"
        init = at(pod, "spec.initContainers", ())
        self.sidecars = {each.get("name") for each in init if each.get("restartPolicy") == "Always"}
        self.total = len(at(pod, "spec.containers", ())) + len(self.sidecars)
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        is_starting = self._init(status.get("initContainerStatuses", ()), len(init))
        if not is_starting or self.conditions.get("Initialized", {}).get("status") == "True":
            self._main(status)
        self._leaving(status)

    def _init(self, statuses: list[Status], total: int) -> bool:
        """-> whether the pod is still being initialized"""
        for index, each in enumerate(statuses):
            self._add_restarts(each)
            state, is_sidecar = each.get("state", {}), each.get("name") in self.sidecars
            ended, waiting = state.get("terminated"), state.get("waiting")
            if ended and not ended.get("exitCode"):
                continue
            if is_sidecar and each.get("started"):
                self.ready += bool(each.get("ready"))
                continue
            if ended:
                self.reason = f"Init:{_end(ended)}"
            elif waiting and waiting.get("reason") not in (None, "", "PodInitializing"):
                self.reason = f"Init:{waiting['reason']}"
            else:
                self.reason = f"Init:{index}/{total}"
            return True
        return False

    def _main(self, status: Status) -> None:
        self.restarts, self.last_restart = 0, ""
        for each in status.get("initContainerStatuses", ()):
            if each.get("name") in self.sidecars:
                self._add_restarts(each)
        has_running = False
        for each in reversed(status.get("containerStatuses", ())):
            self._add_restarts(each)
            state = each.get("state", {})
            waiting, ended = state.get("waiting"), state.get("terminated")
            if waiting and waiting.get("reason"):
                self.reason = waiting["reason"]
            elif ended:
                self.reason = _end(ended)
            elif each.get("ready") and state.get("running") is not None:
                has_running = True
                self.ready += 1
        if self.reason == "Completed" and has_running:
            is_ready = self.conditions.get("Ready", {}).get("status") == "True"
            self.reason = "Running" if is_ready else "NotReady"

    def _leaving(self, status: Status) -> None:
        if not at(self.pod, "metadata.deletionTimestamp"):
            return
        if status.get("reason") == "NodeLost":
            self.reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            self.reason = "Terminating"

    def _add_restarts(self, each: Status) -> None:
        self.restarts += each.get("restartCount", 0)
        finished = at(each, "lastState.terminated.finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def _end(ended: Status) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _gates(pod: Object) -> str:
    gates = at(pod, "spec.readinessGates", ())
    if not gates:
        return NONE
    true = {c.get("type") for c in at(pod, "status.conditions", ()) if c.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"
