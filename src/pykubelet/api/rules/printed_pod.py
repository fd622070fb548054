"""A pod in a few words, as kubectl prints it: how many of its containers are ready, and the one word for how it is."""

from typing import Any

Object = dict[str, Any]
Status = dict[str, Any]


class PrintedPod:
    """What a walk over the containers finds: READY, STATUS and RESTARTS of `kubectl get pods`."""

    def __init__(self, pod: Object) -> None:
        status = pod.get("status", {})
        self.conditions = {each.get("type"): each for each in status.get("conditions", ())}
        self.reason = status.get("reason") or status.get("phase", "")
        if self.conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
            self.reason = "SchedulingGated"
        spec = pod.get("spec", {})
        init = spec.get("initContainers", ())
        self.sidecars = {each.get("name") for each in init if each.get("restartPolicy") == "Always"}
        self.total = len(spec.get("containers", ())) + len(self.sidecars)
        self.ready = 0
        self.restarts = 0
        self.last_restart = ""
        is_starting = self._init(status.get("initContainerStatuses", ()), len(init))
        if not is_starting or self.conditions.get("Initialized", {}).get("status") == "True":
            self._main(status)
        if pod.get("metadata", {}).get("deletionTimestamp"):
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
        if status.get("reason") == "NodeLost":
            self.reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            self.reason = "Terminating"

    def _add_restarts(self, each: Status) -> None:
        self.restarts += each.get("restartCount", 0)
        finished = (each.get("lastState", {}).get("terminated") or {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, finished)


def _end(ended: Status) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
