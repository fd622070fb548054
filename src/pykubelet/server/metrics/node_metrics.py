"""What the node tells of its pods and its runtime, in numbers: from the journal, and from the wrappers around ports."""

import asyncio
import re
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.rules.pod_kinds import is_static
from pykubelet.api.rules.well_known import SEEN_ANNOTATION
from pykubelet.base.journal import Moment
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.runtime import SandboxConfig
from pykubelet.pod.stats.startup_latency import PodStarts
from pykubelet.server.metrics.exposition import Meters

_REJECTIONS: Final = frozenset(
    {
        *("AppArmor", "PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "InvalidNodeInfo"),
        *("InitContainerRestartPolicyForbidden", "SupplementalGroupsPolicyNotSupported", "UnexpectedAdmissionError"),
        *("UnknownReason", "UnexpectedPredicateFailureType", "OutOfcpu", "OutOfmemory", "OutOfephemeral-storage"),
        *("OutOfpods", "PodLevelResourcesNotSupported", "node(s) had taints that the pod didn't tolerate", "Evicted"),
        *("SysctlForbidden", "TopologyAffinityError", "NodeShutdown", "VolumeAttachmentLimitExceeded"),
    }
)
_NOT_PULLED: Final = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"),
        *("RegistryUnavailable", "SignatureValidationFailed"),
    }
)
_SIZES: Final = (
    *((100 << 30, "GT100GB"), (60 << 30, "60GB-100GB"), (40 << 30, "40GB-60GB"), (30 << 30, "30GB-40GB")),
    *((20 << 30, "20GB-30GB"), (10 << 30, "10GB-20GB"), (5 << 30, "5GB-10GB"), (1 << 30, "1GB-5GB")),
    *((500 << 20, "500MB-1GB"), (100 << 20, "100MB-500MB"), (10 << 20, "10MB-100MB"), (0, "0-10MB")),
)
_SWEEP: Final = 2.0
"""Seconds between two looks for what belongs to nobody."""
_CLOCKS: Final = timedelta(seconds=2)
"""What a time in whole seconds may differ from ours."""


class NodeMetrics:
    def __init__(self, meters: Meters, *, now: Callable[[], datetime]) -> None:
        self.meters = meters
        self.now = now
        self._starts = PodStarts()
        self._first_network_pod_seen = False
        self._starting: dict[str, datetime] = {}
        """When each pod was first seen that does not run yet."""
        self._gone: set[str] = set()
        self._swept: deque[tuple[float, bool]] = deque(maxlen=10_000)
        self._pod: Callable[[str], Pod | None] = lambda uid: None
        self._status: Callable[[str], PodStatus | None] = lambda uid: None
        for static in ("", "true"):
            meters.count("kubelet_restarted_pods_total", static, by=0)

    def know_pods(self, pod: Callable[[str], Pod | None], status: Callable[[str], PodStatus | None]) -> None:
        """Where pods and their statuses are found by uid. The journal has only names."""
        self._pod, self._status = pod, status

    # --- the journal

    def read(self, moment: Moment) -> None:
        """A reader of the journal (`journal.read_by`)."""
        uid = moment.uid
        match moment.stage:
            case "watched":
                self._starts.watch(uid)
            case "event":
                self._read_event(moment)
            case "reported":
                self._reported(uid, moment.at)
            case "admitted":
                self._admitted(uid)
            case "rejected":
                self._starts.forget(uid)
                self.meters.count("kubelet_admission_rejections_total", _rejection(moment.detail.partition(": ")[0]))
            case "preempted":
                self.meters.count("kubelet_preemptions", "")
            case "removed" | "deleting":
                self._forget(uid)
                self._gone.discard(uid)
            case "gone":
                self._forget(uid)
                if self._pod(uid) is not None:  # it was wished for again while it was being removed
                    self._gone.add(uid)

    def _read_event(self, moment: Moment) -> None:
        reason, _, message = moment.detail.partition(": ")
        if reason == "Pulling":
            self._starts.pull_began(moment.uid, moment.at)
        elif reason == "Pulled" or message.startswith("Failed to pull image"):
            self._starts.pull_ended(moment.uid, moment.at)
        elif reason == "Failed" and (code := message.removeprefix("Error: ")) in _NOT_PULLED:
            self._count_start("init_container" if self._is_initializing(moment.uid) else "container", code)

    def _reported(self, uid: str, at: datetime) -> None:
        pod, status = self._pod(uid), self._status(uid)
        start = self._starts.reported(pod, status, at) if pod is not None and status is not None else None
        if pod is None or start is None:
            return
        self.meters.observe("kubelet_pod_start_total_duration_seconds", start.total)
        if start.sli is None:
            return
        self.meters.observe("kubelet_pod_start_sli_duration_seconds", start.sli)
        if not pod.spec.host_network and not self._first_network_pod_seen:
            self._first_network_pod_seen = True
            self.meters.set("kubelet_first_network_pod_start_sli_duration_seconds", start.sli)

    def _admitted(self, uid: str) -> None:
        if uid in self._gone:
            self._gone.discard(uid)
            pod = self._pod(uid)
            self.meters.count("kubelet_restarted_pods_total", "true" if pod is not None and is_static(pod) else "")

    def _forget(self, uid: str) -> None:
        self._starts.forget(uid)
        self._starting.pop(uid, None)

    def _is_initializing(self, uid: str) -> bool:
        pod, status = self._pod(uid), self._status(uid)
        if pod is None or status is None or not pod.spec.init_containers:
            return False
        return all(each.status != "True" for each in status.conditions if each.type == "Initialized")

    # --- the workers

    def pod_begins(self, pod: Pod) -> None:
        self.meters.observe("kubelet_containers_per_pod_count", len(pod.spec.containers))
        seen = _first_seen(pod)
        if seen is not None:
            self.meters.observe("kubelet_pod_worker_start_duration_seconds", self._since(seen))
            if pod.status.phase in ("", "Pending"):
                self._starting[pod.metadata.uid] = seen

    def pod_worked(self, pod: Pod, operation: str, seconds: float) -> None:
        self.meters.observe("kubelet_pod_worker_duration_seconds", seconds, operation)
        uid = pod.metadata.uid
        if uid not in self._starting:
            return
        status = self._status(uid)
        if operation in ("kill", "terminated"):
            del self._starting[uid]
        elif status is not None and status.phase == "Running":
            seen = self._starting.pop(uid)
            if _earliest(status, seen) >= seen - _CLOCKS:  # else an earlier agent has started it
                self.meters.observe("kubelet_pod_start_duration_seconds", self._since(seen))

    def pod_seen(self, observed: ObservedPod) -> None:
        self._starts.seen(observed)

    def orphan_found(self) -> None:
        self.meters.count("kubelet_orphaned_runtime_pods_total")

    def orphan_removed(self, failed: bool) -> None:
        self._swept.append((asyncio.get_running_loop().time(), failed))

    def sweep(self) -> None:
        """Bring up to date what counts only for a while."""
        since = asyncio.get_running_loop().time() - _SWEEP
        while self._swept and self._swept[0][0] < since:
            self._swept.popleft()
        failures = sum(failed for _, failed in self._swept)
        self.meters.set("kubelet_orphan_pod_cleaned_volumes", len(self._swept) - failures)
        self.meters.set("kubelet_orphan_pod_cleaned_volumes_errors", failures)

    def status_synced(self, seconds: float) -> None:
        """An API server has a pod's status, so long after it changed."""
        self.meters.observe("kubelet_pod_status_sync_duration_seconds", seconds)

    def evicted(self, signal: str) -> None:
        self.meters.count("kubelet_evictions", signal)

    def hook_fell_back(self) -> None:
        """A hook that was asked for over HTTPS ran over HTTP."""
        self.meters.count("kubelet_lifecycle_handler_http_fallbacks_total")

    # --- the runtime

    def runtime_call(self, method: str, seconds: float, error: Exception | None) -> None:
        """`method` is the CRI's name of it, such as RunPodSandbox."""
        operation = operation_type(method)
        self.meters.count("kubelet_runtime_operations_total", operation)
        self.meters.observe("kubelet_runtime_operations_duration_seconds", seconds, operation)
        if error is not None:
            self.meters.count("kubelet_runtime_operations_errors_total", operation)

    def relisted(self, seconds: float, interval: float | None) -> None:
        self.meters.observe("kubelet_pleg_relist_duration_seconds", seconds)
        if interval is not None:
            self.meters.observe("kubelet_pleg_relist_interval_seconds", interval)
        self.meters.set("kubelet_pleg_last_seen_seconds", self.now().timestamp())

    def sandbox_run(self, config: SandboxConfig, seconds: float, failed: bool) -> None:
        handler, has_own_users = config.runtime_handler, config.pod.spec.host_users is False
        self.meters.observe("kubelet_run_podsandbox_duration_seconds", seconds, handler)
        self.meters.count("kubelet_started_pods_total")
        if has_own_users:
            self.meters.count("kubelet_started_user_namespaced_pods_total")
        if failed:
            self.meters.count("kubelet_run_podsandbox_errors_total", handler)
            self.meters.count("kubelet_started_pods_errors_total")
            if has_own_users:
                self.meters.count("kubelet_started_user_namespaced_pods_errors_total")

    def container_started(self, pod: Pod, container: str, code: str) -> None:
        self._count_start(_container_type(pod, container), code)

    def image_pulled(self, size: int, seconds: float) -> None:
        self.meters.observe("kubelet_image_pull_duration_seconds", seconds, image_size(size))

    def image_removed(self, reason: str) -> None:
        """To make room: `age` or `space`."""
        self.meters.count("kubelet_image_garbage_collected_total", reason)

    def cgroup_changed(self, operation: str, seconds: float) -> None:
        self.meters.observe("kubelet_cgroup_manager_duration_seconds", seconds, operation)

    # --- certificates

    def certificate_renewal_failed(self, kind: str) -> None:
        """`client` or `server`."""
        names = {
            "client": "kubelet_certificate_manager_client_expiration_renew_errors",
            "server": "kubelet_server_expiration_renew_errors",
        }
        self.meters.count(names[kind])

    def certificate_rotated(self, age: float) -> None:
        """A serving certificate was replaced after so many seconds."""
        self.meters.observe("kubelet_certificate_manager_server_rotation_seconds", age)

    def _count_start(self, kind: str, code: str) -> None:
        self.meters.count("kubelet_started_containers_total", kind)
        if code:
            self.meters.count("kubelet_started_containers_errors_total", kind, code)

    def _since(self, moment: datetime) -> float:
        return max((self.now() - moment).total_seconds(), 0.0)


@cache
def operation_type(method: str) -> str:
    """`RunPodSandbox` -> `run_podsandbox`, `UpdateContainerResources` -> `update_container`: upstream's words."""
    if method == "UpdateContainerResources":
        return "update_container"
    return re.sub(r"(?<!^)(?=[A-Z])", "_", method.replace("PodSandbox", "Podsandbox")).lower()


def image_size(size: int) -> str:
    return next((label for least, label in _SIZES if size > least), "N/A")


def _rejection(reason: str) -> str:
    """Reasons may hold anybody's words; series may not."""
    if reason in _REJECTIONS:
        return reason
    return "OutOfExtendedResources" if reason.startswith("OutOf") else "Other"


def _container_type(pod: Pod, name: str) -> str:
    if any(container.name == name for container in pod.spec.init_containers):
        return "init_container"
    if any(container.name == name for container in pod.spec.ephemeral_containers):
        return "ephemeral_container"
    return "container"


def _first_seen(pod: Pod) -> datetime | None:
    try:
        return datetime.fromisoformat(pod.metadata.annotations.get(SEEN_ANNOTATION, ""))
    except ValueError:
        return None


def _earliest(status: PodStatus, otherwise: datetime) -> datetime:
    """When the first of its running containers has started."""
    running = (each.state.running.started_at for each in status.container_statuses if each.state.running is not None)
    return min((moment for moment in running if moment is not None), default=otherwise)
