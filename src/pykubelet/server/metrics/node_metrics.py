"""What the node tells of its pods and its runtime, in numbers: a reader of the journal."""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Literal, assert_never

from pykubelet.pod import moments as m
from pykubelet.pod.claims.moments import ClaimDriverCalled, ClaimsHandled, OfClaims
from pykubelet.pod.container.volume_moments import DriverCalled, VolumeChanged
from pykubelet.pod.devices.moments import DevicesAllocated, DevicesOffered, OfDevices, PodResourcesAsked
from pykubelet.pod.lifecycle.pod_update import Op
from pykubelet.pod.lifecycle.probe_results import Result
from pykubelet.pod.ports.runtime import IMAGE_VOLUME_FAILED
from pykubelet.pod.resize.moments import ResizeAsked, Resized
from pykubelet.pod.stats.startup_latency import PodStarts
from pykubelet.server.metrics.meters import Meters
from pykubelet.server.metrics.metric_labels import image_size, operation_type, rejection

_COUNTED: Final = frozenset(
    {
        *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"),
        *("RegistryUnavailable", "SignatureValidationFailed", "CreateContainerError", "RunContainerError"),
    }
)
"""Why a container did not start, as far as that is counted."""
_RESIZES: Final = {
    "Infeasible": "kubelet_pod_infeasible_resizes_total",
    "Begun": "kubelet_pod_deferred_accepted_resizes_total",
}
_RESULTS: Final = {Result.SUCCESS: "successful", Result.FAILURE: "failed", Result.UNKNOWN: "unknown"}
_RENEWALS: Final = {
    "client": "kubelet_certificate_manager_client_expiration_renew_errors",
    "server": "kubelet_server_expiration_renew_errors",
}
_STAGES: Final = ("pre_kubelet", "pre_registration", "registration", "post_registration")
_NEEDED_CALL: Final = "RuntimeConfig"
_LACKING: Final = ("unknown method", "unknown service", "UNIMPLEMENTED")
_NEEDED_FROM: Final = "1.38.0"
"""The kubelet that asks a runtime for nothing else to find out its control group driver."""
_SWEEP: Final = 2.0
"""Seconds between two looks for what belongs to nobody."""
_CLOCKS: Final = timedelta(seconds=2)
"""What a time in whole seconds may differ from ours."""


class _Starting:
    """A pod that does not run yet."""

    def __init__(self, seen: datetime) -> None:
        self.seen = seen
        """For the first time."""
        self.is_running = False
        self.running_since: datetime | None = None


class NodeMetrics:
    """`read` is a reader of the journal. It is shown everything, and counts what upstream counts."""

    def __init__(self, meters: Meters, probes: Meters, *, now: Callable[[], datetime], booted: float = 0.0) -> None:
        """`booted` is when the machine was started, in seconds since 1970; 0: that is not known."""
        self._meters = meters
        self._times = {"": booted or now().timestamp(), "begun": now().timestamp()}
        """When each stage of a new node was reached."""
        self._probes = probes
        self._now = now
        self._starts = PodStarts()
        self._first_network_pod_seen = False
        self._starting: dict[str, _Starting] = {}
        self._wanted: set[str] = set()
        """What the sources have, by uid."""
        self._back: set[str] = set()
        """Wished for again while they were being removed."""
        self._orphans: set[str] = set()
        self._swept: deque[tuple[float, bool]] = deque(maxlen=10_000)
        for static in ("", "true"):
            meters.count("kubelet_restarted_pods_total", static, by=0)

    def read(self, noted: m.Noted) -> None:
        moment, uid = noted.moment, noted.about.uid
        if isinstance(moment, m.OfNode):
            self._read_node(moment)
        elif isinstance(moment, m.OfApi):
            self._read_api(moment)
        elif isinstance(moment, OfClaims):
            self._read_claims(moment)
        elif isinstance(moment, OfDevices):
            self._read_devices(moment)
        elif isinstance(moment, m.Work):
            self._read_work(moment, uid)
        elif isinstance(moment, m.Probing):
            self._read_probe(moment, noted)
        elif isinstance(moment, m.Reporting):
            self._read_report(moment, noted)
        elif isinstance(moment, m.Containers):
            self._read_containers(moment, noted)
        else:
            self._read_arrival(moment, uid)

    def sweep(self) -> None:
        """Bring up to date what counts only for a while."""
        since = asyncio.get_running_loop().time() - _SWEEP
        while self._swept and self._swept[0][0] < since:
            self._swept.popleft()
        failures = sum(failed for _, failed in self._swept)
        self._meters.set("kubelet_orphan_pod_cleaned_volumes", len(self._swept) - failures)
        self._meters.set("kubelet_orphan_pod_cleaned_volumes_errors", failures)

    # --- by theme

    def _read_eviction(self, moment: m.Evicted) -> None:
        self._meters.count("kubelet_evictions", moment.signal)
        if moment.stats_age is not None:
            self._meters.observe("kubelet_eviction_stats_age_seconds", moment.stats_age, moment.signal)

    def _read_resize(self, moment: Resized | ResizeAsked) -> None:
        if isinstance(moment, ResizeAsked):
            labels = (moment.resource, moment.requirement, moment.operation)
            self._meters.count("kubelet_container_requested_resizes_total", *labels)
            return
        if moment.seconds is not None:
            success = "true" if moment.stage == "Told" else "false"
            self._meters.observe("kubelet_pod_resize_duration_milliseconds", moment.seconds * 1000, success)
        if (name := _RESIZES.get(moment.stage)) and moment.cause:
            self._meters.count(name, moment.cause)

    def _read_arrival(self, moment: m.Arrival, uid: str) -> None:
        count = self._meters.count
        match moment:
            case m.Watched():
                self._starts.watch(uid, moment)
            case m.Merged(op):
                if op in (Op.REMOVE, Op.DELETE):
                    self._forget(uid)
                    self._back.discard(uid)
                (self._wanted.discard if op is Op.REMOVE else self._wanted.add)(uid)
            case m.Admitted(is_static):
                if uid in self._back:
                    self._back.discard(uid)
                    count("kubelet_restarted_pods_total", "true" if is_static else "")
            case m.Rejected(reason):
                self._starts.forget(uid)
                count("kubelet_admission_rejections_total", rejection(reason))
            case m.Preempted():
                count("kubelet_preemptions", "")
            case m.Evicted():
                self._read_eviction(moment)
            case Resized() | ResizeAsked():
                self._read_resize(moment)
            case m.OrphanFound(in_runtime):
                self._orphans.add(uid)
                if in_runtime:
                    count("kubelet_orphaned_runtime_pods_total")
            case _:
                assert_never(moment)

    def _read_work(self, moment: m.Work, uid: str) -> None:
        observe = self._meters.observe
        match moment:
            case m.Began():
                self._began(moment, uid)
            case m.WorkEnded("remove", _, error):
                if uid in self._orphans:
                    self._swept.append((asyncio.get_running_loop().time(), bool(error)))
                    if not error:
                        self._orphans.discard(uid)
            case m.WorkEnded(operation, seconds):
                observe("kubelet_pod_worker_duration_seconds", seconds, operation)
                self._worked(uid, operation)
            case m.CgroupChanged(operation, seconds):
                observe("kubelet_cgroup_manager_duration_seconds", seconds, operation)
            case m.PhaseEntered(phase):
                if phase is m.Phase.GONE:
                    self._forget(uid)
                    if uid in self._wanted:
                        self._back.add(uid)
            case m.WorkBegun() | m.Resting() | m.StepBegun() | m.StepEnded() | m.Awaiting():
                pass
            case m.StopAsked() | m.DeadlinePassed():
                pass
            case _:
                assert_never(moment)

    def _read_containers(self, moment: m.Containers, noted: m.Noted) -> None:
        uid, at = noted.about.uid, noted.at
        match moment:
            case m.SandboxMade():
                self._sandbox_made(moment)
            case m.PullBegun():
                self._starts.pull_began(uid, at)
            case m.PullEnded(_, seconds, _, size, is_shared, error):
                self._starts.pull_ended(uid, at)
                if not is_shared and not error:
                    self._meters.observe("kubelet_image_pull_duration_seconds", seconds, image_size(size))
            case m.ContainerStarted(_, kind):
                self._meters.count("kubelet_started_containers_total", kind)
            case m.ContainerCreated(image_volumes=images):
                self._meters.count("kubelet_image_volume_requested_total", by=images)
                self._meters.count("kubelet_image_volume_mounted_succeed_total", by=images)
            case m.StartFailed():
                self._start_failed(moment)
            case m.Exited():
                self._starts.exited(uid, moment)
            case m.HookFailed():
                if moment.was_asleep:
                    self._meters.count("kubelet_sleep_action_terminated_early_total")
            case m.BackedOff() | m.ContainerStopping() | m.PullProgressed():
                pass
            case _:
                assert_never(moment)

    def _start_failed(self, moment: m.StartFailed) -> None:
        if moment.message.startswith(IMAGE_VOLUME_FAILED):
            self._meters.count("kubelet_image_volume_requested_total")
            self._meters.count("kubelet_image_volume_mounted_errors_total")
        if moment.reason in _COUNTED:
            self._meters.count("kubelet_started_containers_total", moment.kind)
            self._meters.count("kubelet_started_containers_errors_total", moment.kind, moment.reason)

    def _read_probe(self, moment: m.Probing, noted: m.Noted) -> None:
        namespace, pod, uid = noted.about.namespace, noted.about.name, noted.about.uid
        kind, container = moment.kind.title(), moment.container
        match moment:
            case m.Probed(_, _, result, seconds):
                self._probes.count("prober_probe_total", kind, _RESULTS[result], container, pod, namespace, uid)
                if result is not Result.FAILURE:  # a failure's time says nothing
                    self._probes.observe("prober_probe_duration_seconds", seconds, kind, container, pod, namespace)
            case m.ProbingEnded():
                for word in _RESULTS.values():
                    self._probes.drop("prober_probe_total", kind, word, container, pod, namespace, uid)
                self._probes.drop("prober_probe_duration_seconds", kind, container, pod, namespace)
            case m.HealthChanged():
                pass
            case _:
                assert_never(moment)

    def _read_report(self, moment: m.Reporting, noted: m.Noted) -> None:
        uid = noted.about.uid
        match moment:
            case m.StatusSet(phase, running_since=running_since):
                if (starting := self._starting.get(uid)) is not None:
                    starting.is_running, starting.running_since = phase == "Running", running_since
            case m.StatusSent(_, has_started):
                if has_started:
                    self._started(uid, noted.at)
            case m.StatusAcknowledged(seconds):
                self._meters.observe("kubelet_pod_status_sync_duration_seconds", seconds)
            case m.PodDeleted() | m.EventRecorded():
                pass
            case _:
                assert_never(moment)

    def _read_node(self, moment: m.OfNode) -> None:
        count, observe = self._meters.count, self._meters.observe
        match moment:
            case m.RuntimeCalled(method, seconds, error):
                operation = operation_type(method)
                count("kubelet_runtime_operations_total", operation)
                observe("kubelet_runtime_operations_duration_seconds", seconds, operation)
                if error:
                    count("kubelet_runtime_operations_errors_total", operation)
                if method == _NEEDED_CALL and error.startswith(_LACKING):
                    self._meters.set("kubelet_cri_losing_support", 1, _NEEDED_FROM)
            case m.EventsFollowed(error):
                count(f"kubelet_evented_pleg_connection_{'error' if error else 'success'}_count")
            case VolumeChanged(plugin, volume_operation, seconds, error):
                status = "fail-unknown" if error else "success"
                observe("storage_operation_duration_seconds", seconds, plugin, volume_operation, status, "false")
                if not error:
                    observe("volume_operation_total_seconds", seconds, plugin, volume_operation)
            case DriverCalled(driver, method, code, seconds):
                observe("csi_operations_seconds", seconds, driver, f"/csi.v1.Node/{method}", code, "false")
            case m.NodeStage(stage):
                self._stage(stage)
            case m.Relisted(seconds, interval):
                observe("kubelet_pleg_relist_duration_seconds", seconds)
                if interval is not None:
                    observe("kubelet_pleg_relist_interval_seconds", interval)
                self._meters.set("kubelet_pleg_last_seen_seconds", self._now().timestamp())
            case m.ImageRemoved(_, reason):
                count("kubelet_image_garbage_collected_total", reason)
            case _:
                assert_never(moment)

    def _read_claims(self, moment: OfClaims) -> None:
        match moment:
            case ClaimsHandled(operation, seconds, error):
                succeeded = "false" if error else "true"  # the label says the opposite, here as upstream
                self._meters.observe("dra_operations_duration_seconds", seconds, operation, succeeded)
            case ClaimDriverCalled(driver, method, code, seconds):
                self._meters.observe("dra_grpc_operations_duration_seconds", seconds, driver, method, code)
            case _:
                assert_never(moment)

    def _read_devices(self, moment: OfDevices) -> None:
        match moment:
            case DevicesOffered(resource):
                self._meters.count("kubelet_device_plugin_registration_total", resource)
            case DevicesAllocated(resource, seconds):
                self._meters.observe("kubelet_device_plugin_alloc_duration_seconds", seconds, resource)
            case PodResourcesAsked(version, method, error):
                self._meters.count("kubelet_pod_resources_endpoint_requests_total", version)
                if version == "v1":
                    self._meters.count(f"kubelet_pod_resources_endpoint_requests_{method}", version)
                    if error:
                        self._meters.count(f"kubelet_pod_resources_endpoint_errors_{method}", version)
            case _:
                assert_never(moment)

    def _read_api(self, moment: m.OfApi) -> None:
        count, observe = self._meters.count, self._meters.observe
        match moment:
            case m.ApiRetried(method, host, code):
                count("rest_client_request_retries_total", code, method, host)
            case m.ApiAnswered(method, host, code):
                count("rest_client_requests_total", code, method, host)
            case m.ApiRequested(method, host, waited, seconds, sent, received):
                observe("rest_client_rate_limiter_duration_seconds", waited, method, host)
                observe("rest_client_request_duration_seconds", seconds, method, host)
                observe("rest_client_request_size_bytes", sent, method, host)
                if received is not None:
                    observe("rest_client_response_size_bytes", received, method, host)
            case m.CertificateRotated(kind, age):
                if kind == "server" and age:
                    observe("kubelet_certificate_manager_server_rotation_seconds", age)
            case m.CertificateRenewalFailed(kind):
                count(_RENEWALS[kind])
            case _:
                assert_never(moment)

    # --- inside

    def _stage(self, stage: Literal["registering", "registered", "ready"]) -> None:
        """What a node's start took is told at its end."""
        times = self._times
        times[stage] = self._now().timestamp()
        if stage == "ready":
            whole = itertools.pairwise(("", "begun", "registering", "registered", "ready"))
            for name, (since, until) in zip(_STAGES, whole, strict=True):
                self._meters.set(f"kubelet_node_startup_{name}_duration_seconds", max(times[until] - times[since], 0.0))
            self._meters.set("kubelet_node_startup_duration_seconds", max(times["ready"] - times[""], 0.0))

    def _sandbox_made(self, made: m.SandboxMade) -> None:
        count = self._meters.count
        self._meters.observe("kubelet_run_podsandbox_duration_seconds", made.seconds, made.handler)
        count("kubelet_started_pods_total")
        if made.has_own_users:
            count("kubelet_started_user_namespaced_pods_total")
        if made.error:
            count("kubelet_run_podsandbox_errors_total", made.handler)
            count("kubelet_started_pods_errors_total")
            if made.has_own_users:
                count("kubelet_started_user_namespaced_pods_errors_total")

    def _began(self, began: m.Began, uid: str) -> None:
        self._meters.observe("kubelet_containers_per_pod_count", began.containers)
        if began.first_seen is not None:
            self._meters.observe("kubelet_pod_worker_start_duration_seconds", self._since(began.first_seen))
            if began.is_new:
                self._starting[uid] = _Starting(began.first_seen)

    def _worked(self, uid: str, operation: m.Operation) -> None:
        starting = self._starting.get(uid)
        if starting is None:
            return
        if operation in ("kill", "terminated"):
            del self._starting[uid]
        elif starting.is_running:
            del self._starting[uid]
            seen = starting.seen
            if (starting.running_since or seen) >= seen - _CLOCKS:  # else an earlier agent has started it
                self._meters.observe("kubelet_pod_start_duration_seconds", self._since(seen))

    def _started(self, uid: str, at: datetime) -> None:
        start = self._starts.started(uid, at)
        if start is None:
            return
        self._meters.observe("kubelet_pod_start_total_duration_seconds", start.total)
        if start.sli is None:
            return
        self._meters.observe("kubelet_pod_start_sli_duration_seconds", start.sli)
        if start.has_own_network and not self._first_network_pod_seen:
            self._first_network_pod_seen = True
            self._meters.set("kubelet_first_network_pod_start_sli_duration_seconds", start.sli)

    def _forget(self, uid: str) -> None:
        self._starts.forget(uid)
        self._starting.pop(uid, None)

    def _since(self, moment: datetime) -> float:
        return max((self._now() - moment).total_seconds(), 0.0)
