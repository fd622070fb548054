"""What monitoring is told, and in which words."""

import asyncio
import gzip
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from kit.moments import one_of_each
from kit.pods import make_pod
from kit.readings import Fixed, reading
from kit.tls_files import OnlyAdmin
from pykubelet.api.pod import Pod
from pykubelet.api.rules.well_known import SOURCE_ANNOTATION
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.pod import moments as m
from pykubelet.pod.container.volume_moments import VolumeChanged
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.lifecycle.pod_update import Op
from pykubelet.pod.lifecycle.probe_results import Result
from pykubelet.pod.moments import Journal, about
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.ports.server import Access, Decision, Identity
from pykubelet.pod.stats.census import Census, Working, census
from pykubelet.pod.stats.stats import Disk, VolumeUsage
from pykubelet.server.application import Route, application
from pykubelet.server.auth.measured_reviews import MeasuredReviews
from pykubelet.server.endpoints import healthz
from pykubelet.server.metrics.metric_labels import image_size, operation_type
from pykubelet.server.metrics.metrics import Metrics
from pykubelet.web.serving import serving

T0 = datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Away:
    """An API server that does not answer."""

    async def who(self, token: str) -> Identity | None:
        raise Retry("it hung up")

    async def may(self, identity: Identity, access: Access) -> Decision:
        raise Retry("it hung up")


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> datetime:
        return T0 + timedelta(seconds=self.seconds)


class Node:
    """Metrics with a journal, and no agent."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.gauges: dict[str, Callable[[], Mapping[tuple[str, ...], float]]] = {}
        self.census: Census | None = None
        self.metrics = Metrics("n1", gauges=self.gauges, census=lambda: self.census, now=self.clock)
        self.journal = Journal(rule, now=self.clock)
        self.journal.read_by(self.metrics.read)

    def note(self, *moments: m.Moment, after: float = 0.0) -> None:
        """Of the pod."""
        self.clock.seconds += after
        for moment in moments:
            self.journal.note(moment, about(make_pod()))

    async def text(self, path: str = "/metrics") -> str:
        route = next(route for route in self.metrics.routes() if route.path == path)
        async with client([route]) as session, session.get(path) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            return await answer.text()

    async def samples(self, path: str = "/metrics") -> Samples:
        families = text_string_to_metric_families(await self.text(path))
        return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}

    async def value(self, name: str, path: str = "/metrics", **labels: str) -> float | None:
        return (await self.samples(path)).get((name, tuple(sorted(labels.items()))))


@asynccontextmanager
async def client(routes: list[Route], metrics: Metrics | None = None) -> AsyncIterator[aiohttp.ClientSession]:
    app = application(routes, None)
    if metrics is not None:
        metrics.attend(app, "readonly")
    async with serving(app, "127.0.0.1", 0) as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield session


# --- the text


async def test_buckets_and_old_counters_are_written_as_go_writes_them() -> None:
    node = Node()
    node.note(m.Relisted(0.3, 1.0))
    node.metrics.meters.count("kubelet_evictions", "memory.available")
    text = await node.text()
    assert 'kubelet_pleg_relist_duration_seconds_bucket{le="1"} 1\n' in text
    assert 'kubelet_pleg_relist_duration_seconds_bucket{le="0.25"} 0\n' in text
    assert 'kubelet_pleg_relist_duration_seconds_bucket{le="+Inf"} 1\n' in text
    assert '# TYPE kubelet_evictions counter\nkubelet_evictions{eviction_signal="memory.available"} 1\n' in text
    assert 'kubelet_certificate_manager_server_rotation_seconds_bucket{le="1.24416e+08"} 0\n' in text
    assert "_created" not in text


async def test_values_of_labels_are_escaped() -> None:
    node = Node()
    node.metrics.meters.count("kubelet_evictions", 'a"b\\c\nd')
    assert 'kubelet_evictions{eviction_signal="a\\"b\\\\c\\nd"} 1\n' in await node.text()


async def test_the_process_the_node_and_the_build_are_told() -> None:
    node = Node()
    samples = await node.samples()
    names = {name for name, _ in samples}
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"} <= names
    assert samples["kubelet_node_name", (("node", "n1"),)] == 1
    build = next(dict(labels) for name, labels in samples if name == "kubernetes_build_info")
    assert (build["major"], build["minor"]) == ("1", "34")


async def test_who_takes_gzip_gets_it() -> None:
    node = Node()
    async with client(list(node.metrics.routes())) as session:
        raw = aiohttp.ClientSession(session._base_url, auto_decompress=False)
        async with raw, raw.get("/metrics", headers={"Accept-Encoding": "deflate, gzip;q=0.5"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert b"kubelet_node_name" in gzip.decompress(await answer.read())
        async with session.get("/metrics", headers={"Accept-Encoding": "gzip;q=0"}) as answer:
            assert "Content-Encoding" not in answer.headers


async def test_those_who_ask_at_once_share_one_look() -> None:
    node, looks = Node(), []

    def values() -> dict[tuple[str, ...], float]:
        looks.append(1)
        return {("default", "data"): 7.0}

    node.gauges["kubelet_volume_stats_used_bytes"] = values
    async with client(list(node.metrics.routes())) as session:

        async def ask() -> str:
            async with session.get("/metrics") as answer:
                return await answer.text()

        texts = await asyncio.gather(*(ask() for _ in range(8)))
    assert all(
        'kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="data"} 7' in t for t in texts
    )
    assert len(looks) < 8


async def test_samples_that_are_gone_are_no_longer_told() -> None:
    node = Node()
    values: dict[tuple[str, ...], float] = {("u", "default", "web", "c"): 10.0}
    node.gauges["kubelet_container_log_filesystem_used_bytes"] = lambda: values
    assert "kubelet_container_log_filesystem_used_bytes" in await node.text()
    values.clear()
    assert "kubelet_container_log_filesystem_used_bytes" not in await node.text()


# --- pods


async def test_the_start_of_a_pod_is_told_with_and_without_what_it_had_to_wait_for() -> None:
    node = Node()
    node.note(m.Watched(T0, is_stateful=False, has_own_network=True, init_containers=("init",)), after=1)
    node.note(m.PullBegun("a"), after=1)
    node.note(m.PullEnded("a", 10.0), after=10)
    node.note(m.Exited("init", 0, 0, "Completed", T0, T0 + timedelta(seconds=3)))
    node.note(m.StatusSent("Pending", has_started=False), after=1)
    assert await node.value("kubelet_pod_start_total_duration_seconds_count") == 0
    node.note(m.StatusSent("Running", has_started=True), after=7)
    node.note(m.StatusSent("Running", has_started=True), after=7)
    samples = await node.samples()
    assert samples["kubelet_pod_start_total_duration_seconds_count", ()] == 1
    assert samples["kubelet_pod_start_total_duration_seconds_sum", ()] == 20
    assert samples["kubelet_pod_start_sli_duration_seconds_sum", ()] == 7
    assert samples["kubelet_first_network_pod_start_sli_duration_seconds", ()] == 7


async def test_evictions_are_counted_by_what_ran_short_and_how_old_that_word_was() -> None:
    node = Node()
    node.note(m.Evicted("memory.available", "it was low", 0.25), m.Evicted("emptydirfs.limit", "it is too large"))
    text = await node.text()
    for signal in ("memory.available", "emptydirfs.limit"):
        assert f'kubelet_evictions{{eviction_signal="{signal}"}} 1\n' in text
    age = "kubelet_eviction_stats_age_seconds"
    assert await node.value(f"{age}_sum", eviction_signal="memory.available") == 0.25
    assert await node.value(f"{age}_count", eviction_signal="emptydirfs.limit") is None


async def test_a_pod_that_was_not_seen_from_the_beginning_does_not_count_as_a_start() -> None:
    node = Node()
    node.note(m.StatusSent("Running", has_started=True))
    assert await node.value("kubelet_pod_start_total_duration_seconds_count") == 0


async def test_a_worker_tells_how_long_its_steps_took_and_when_its_pod_ran() -> None:
    node = Node()
    node.note(m.Began(1, T0, is_new=True), m.WorkEnded("create", 1.5), after=2)
    node.note(m.StatusSet("Running", "", True, T0 + timedelta(seconds=5)))
    node.note(m.WorkEnded("sync", 0.5), m.WorkEnded("sync", 0.5), after=4)
    samples = await node.samples()
    assert samples["kubelet_containers_per_pod_count_sum", ()] == 1
    assert samples["kubelet_pod_worker_start_duration_seconds_sum", ()] == 2
    assert samples["kubelet_pod_worker_duration_seconds_count", (("operation_type", "sync"),)] == 2
    assert samples["kubelet_pod_start_duration_seconds_count", ()] == 1
    assert samples["kubelet_pod_start_duration_seconds_sum", ()] == 6


async def test_a_pod_that_an_earlier_agent_has_started_does_not_count_as_a_start() -> None:
    node = Node()
    node.note(m.Began(1, T0, is_new=True), m.StatusSet("Running", "", True, T0 - timedelta(hours=1)))
    node.note(m.WorkEnded("create", 0.1))
    assert await node.value("kubelet_pod_start_duration_seconds_count") == 0


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("OutOfcpu", "OutOfcpu"),
        ("OutOfexample.com/gpu", "OutOfExtendedResources"),
        ("Whatever it is", "Other"),
    ],
)
async def test_rejections_are_counted_by_a_handful_of_reasons(told: str, reason: str) -> None:
    node = Node()
    node.note(m.Rejected(told, "Node didn't have enough resource"))
    assert await node.value("kubelet_admission_rejections_total", reason=reason) == 1


async def test_a_static_pod_that_comes_back_counts_as_restarted() -> None:
    node = Node()
    node.note(m.Merged(Op.ADD, "file"), m.Admitted(is_static=True))
    node.note(m.Merged(Op.REMOVE, "file"), m.Merged(Op.ADD, "file"))  # while it is being removed
    node.note(m.PhaseEntered(m.Phase.GONE), m.Admitted(is_static=True))
    assert await node.value("kubelet_restarted_pods_total", static="true") == 1
    assert await node.value("kubelet_restarted_pods_total", static="") == 0


async def test_a_census_is_taken_at_each_scrape() -> None:
    node = Node()
    static = make_pod("static", annotations={SOURCE_ANNOTATION: "file"})
    seen = ObservedPod(
        uid="u",
        sandboxes=(ObservedSandbox(id="s", ready=True),),
        containers=(ObservedContainer(id="1", name="c", state=State.RUNNING),),
    )
    node.census = census(
        desired=[make_pod(), static],
        active=[static],
        mirrors=1,
        working=[Working(static, "sync"), Working(make_pod("old"), "terminating"), Working(Pod(), "terminating")],
        seen=[seen],
        lateness=0.25,
    )
    samples = await node.samples()

    def of(name: str, **labels: str) -> float:
        return samples[name, tuple(sorted(labels.items()))]

    assert (of("kubelet_desired_pods", static=""), of("kubelet_desired_pods", static="true")) == (1, 1)
    assert (of("kubelet_active_pods", static=""), of("kubelet_active_pods", static="true")) == (0, 1)
    assert of("kubelet_mirror_pods") == 1
    assert of("kubelet_working_pods", lifecycle="sync", config="desired", static="true") == 1
    assert of("kubelet_working_pods", lifecycle="terminating", config="orphan", static="") == 1
    assert of("kubelet_working_pods", lifecycle="terminating", config="runtime_only", static="unknown") == 1
    assert of("kubelet_working_pods", lifecycle="terminated", config="desired", static="") == 0
    assert of("kubelet_running_pods") == 1
    assert of("kubelet_running_containers", container_state="running") == 1
    assert of("kubelet_running_containers", container_state="exited") == 0
    assert of("pykubelet_sync_loop_lateness_seconds") == 0.25


# --- the runtime


async def test_calls_to_the_runtime_are_told_in_upstreams_words() -> None:
    node = Node()
    node.note(m.RuntimeCalled("RunPodSandbox", 0.2), m.RuntimeCalled("RunPodSandbox", 0.2, "no"))
    samples = await node.samples()
    label = (("operation_type", "run_podsandbox"),)
    assert samples["kubelet_runtime_operations_total", label] == 2
    assert samples["kubelet_runtime_operations_errors_total", label] == 1
    assert samples["kubelet_runtime_operations_duration_seconds_bucket", (("le", "0.1953125"), *label)] == 0


@pytest.mark.parametrize(
    ("method", "operation"),
    [
        ("ListPodSandboxStats", "list_podsandbox_stats"),
        ("UpdateContainerResources", "update_container"),
        ("ImageFsInfo", "image_fs_info"),
        ("PodSandboxStatus", "podsandbox_status"),
        ("Version", "version"),
    ],
)
def test_the_words_for_calls(method: str, operation: str) -> None:
    assert operation_type(method) == operation


@pytest.mark.parametrize(
    ("size", "label"),
    [
        (0, "N/A"),
        (1, "0-10MB"),
        (10 << 20, "0-10MB"),
        (11 << 20, "10MB-100MB"),
        (2 << 30, "1GB-5GB"),
        (1 << 40, "GT100GB"),
    ],
)
def test_the_words_for_sizes(size: int, label: str) -> None:
    assert image_size(size) == label


async def test_sandboxes_and_containers_are_counted_as_attempts_and_failures() -> None:
    node = Node()
    node.note(m.SandboxMade(0, "runc", True, 0.1, "no"), m.SandboxMade(1, "runc", True, 0.1))
    node.note(m.ContainerStarted("init", "init_container", 0))
    node.note(m.StartFailed("c", "container", "RunContainerError", "some text of the runtime", 10.0))
    samples = await node.samples()
    assert samples["kubelet_started_pods_total", ()] == 2
    assert samples["kubelet_started_pods_errors_total", ()] == 1
    assert samples["kubelet_started_user_namespaced_pods_errors_total", ()] == 1
    assert samples["kubelet_run_podsandbox_errors_total", (("runtime_handler", "runc"),)] == 1
    assert samples["kubelet_started_containers_total", (("container_type", "init_container"),)] == 1
    failed = (("code", "RunContainerError"), ("container_type", "container"))
    assert samples["kubelet_started_containers_errors_total", failed] == 1


async def test_an_image_that_cannot_be_had_is_a_container_that_did_not_start() -> None:
    node = Node()
    node.note(m.StartFailed("init", "init_container", "ErrImagePull", "there is no such image", 10.0))
    node.note(m.StartFailed("init", "init_container", "CrashLoopBackOff", "it waits", 10.0))
    failed = {"code": "ErrImagePull", "container_type": "init_container"}
    assert await node.value("kubelet_started_containers_errors_total", **failed) == 1
    assert await node.value("kubelet_started_containers_total", container_type="init_container") == 1


# --- requests, probes, checks


async def test_requests_are_counted_by_a_handful_of_paths() -> None:
    node = Node()
    async with client(list(node.metrics.routes()), node.metrics) as session:
        for path in ("/metrics/probes", "/metrics", "/metrics/slis", "/anything/else"):
            async with session.get(path):
                pass
    samples = await node.samples()

    def requests(path: str) -> float:
        labels = {"method": "GET", "path": path, "server_type": "readonly", "long_running": "false"}
        assert samples["kubelet_http_inflight_requests", tuple(sorted(labels.items()))] == 0
        assert samples["kubelet_http_requests_duration_seconds_count", tuple(sorted(labels.items()))] > 0
        return samples["kubelet_http_requests_total", tuple(sorted(labels.items()))]

    assert (requests("metrics/probes"), requests("metrics"), requests("other")) == (1, 1, 2)


async def test_requests_to_an_api_server_are_told() -> None:
    node = Node()
    node.note(m.ApiAnswered("GET", "10.0.0.1:6443", "200"))
    node.note(m.ApiRequested("GET", "10.0.0.1:6443", waited=0.5, seconds=0.01, sent=0, received=100))
    samples = await node.samples()
    assert samples["rest_client_requests_total", (("code", "200"), ("host", "10.0.0.1:6443"), ("method", "GET"))] == 1
    where = (("host", "10.0.0.1:6443"), ("verb", "GET"))
    assert samples["rest_client_rate_limiter_duration_seconds_sum", where] == 0.5
    assert samples["rest_client_request_duration_seconds_sum", where] == 0.01


async def test_a_request_that_is_sent_once_more_is_told_with_the_answer_before() -> None:
    node = Node()
    node.note(m.ApiRetried("GET", "10.0.0.1:6443", "401"))
    assert await node.value("rest_client_request_retries_total", code="401", verb="GET", host="10.0.0.1:6443") == 1


async def test_volumes_are_told_when_they_are_made_and_given_back() -> None:
    node = Node()
    node.gauges["volume_manager_total_volumes"] = lambda: {("kubernetes.io/secret", "desired_state_of_world"): 3.0}
    node.note(
        VolumeChanged("kubernetes.io/secret", "volume_mount", 0.2, "no such secret"),
        VolumeChanged("kubernetes.io/secret", "volume_mount", 0.3),
        VolumeChanged("kubernetes.io/empty-dir", "volume_unmount", 0.4),
    )
    samples = await node.samples()

    def took(plugin: str, operation: str, status: str) -> float:
        labels = {"volume_plugin": plugin, "operation_name": operation, "status": status, "migrated": "false"}
        return samples["storage_operation_duration_seconds_sum", tuple(sorted(labels.items()))]

    assert took("kubernetes.io/secret", "volume_mount", "fail-unknown") == 0.2
    assert took("kubernetes.io/secret", "volume_mount", "success") == 0.3
    assert took("kubernetes.io/empty-dir", "volume_unmount", "success") == 0.4
    whose = (("operation_name", "volume_mount"), ("plugin_name", "kubernetes.io/secret"))
    assert samples["volume_operation_total_seconds_count", whose] == 1
    whose = (("plugin_name", "kubernetes.io/secret"), ("state", "desired_state_of_world"))
    assert samples["volume_manager_total_volumes", whose] == 3


async def test_what_a_new_nodes_start_took_is_told_when_it_is_ready() -> None:
    node = Node()
    node.metrics = Metrics("n1", now=node.clock, booted=T0.timestamp() - 30, cgroup_version=2)
    node.journal.read_by(node.metrics.read)
    for stage, after in (("registering", 4.0), ("registered", 2.0)):
        node.note(m.NodeStage(stage), after=after)  # type: ignore[arg-type]
        assert await node.value("kubelet_node_startup_duration_seconds") == 0
    node.note(m.NodeStage("ready"), after=5.0)
    told = {name: value for (name, _), value in (await node.samples()).items() if "_node_startup_" in name}
    assert told == {
        "kubelet_node_startup_pre_kubelet_duration_seconds": 30,
        "kubelet_node_startup_pre_registration_duration_seconds": 4,
        "kubelet_node_startup_registration_duration_seconds": 2,
        "kubelet_node_startup_post_registration_duration_seconds": 5,
        "kubelet_node_startup_duration_seconds": 41,
    }
    assert await node.value("kubelet_cgroup_version") == 2


async def test_events_of_the_runtime_and_what_it_lacks_are_told() -> None:
    node = Node()
    node.note(m.EventsFollowed(), m.EventsFollowed("the runtime does not answer"), m.EventsFollowed())
    node.note(m.RuntimeCalled("RuntimeConfig", 0.1, "the runtime does not answer: connection refused"))
    text = await node.text()
    assert "\nkubelet_evented_pleg_connection_success_count 2\n" in text
    assert "\nkubelet_evented_pleg_connection_error_count 1\n" in text
    assert await node.value("kubelet_cri_losing_support", version="1.38.0") is None
    node.note(m.RuntimeCalled("RuntimeConfig", 0.1, "unknown method RuntimeConfig for service runtime.v1"))
    assert await node.value("kubelet_cri_losing_support", version="1.38.0") == 1


async def test_no_certificate_to_renew_is_no_alarm() -> None:
    node = Node()
    for kind in ("client", "server"):
        assert await node.value(f"kubelet_certificate_manager_{kind}_ttl_seconds") == math.inf
    node.gauges["kubelet_certificate_manager_client_ttl_seconds"] = lambda: {(): 60.0}
    assert await node.value("kubelet_certificate_manager_client_ttl_seconds") == 60


async def test_a_sleep_that_is_longer_than_the_grace_is_told() -> None:
    node = Node()
    node.note(m.HookFailed("c", "preStop", "it has used up the grace"))
    assert await node.value("kubelet_sleep_action_terminated_early_total") == 0
    node.note(m.HookFailed("c", "preStop", "it has used up the grace", was_asleep=True))
    assert await node.value("kubelet_sleep_action_terminated_early_total") == 1


async def test_volumes_and_logs_are_measured_once_a_minute_and_only_if_somebody_asks() -> None:
    node, found = Node(), reading()
    disk = Disk(at=0, capacity=100, available=60, used=40, inodes=10, inodes_free=7, inodes_used=3)
    (pod, *_) = found.pods
    container = changed(pod.containers[0], logs=changed(disk, used=7))
    volumes = (VolumeUsage(name="data", disk=disk, claim="mine"), VolumeUsage(name="scratch", disk=disk))
    stats = Fixed(changed(found, pods=(changed(pod, containers=(container,), volumes=volumes),)))
    node.metrics.measure(stats)
    assert stats.asked == []
    samples = await node.samples()
    await node.samples()
    assert stats.asked == [True]
    claim = (("namespace", "default"), ("persistentvolumeclaim", "mine"))
    told = {name: value for (name, labels), value in samples.items() if labels == claim}
    assert told == {
        "kubelet_volume_stats_capacity_bytes": 100,
        "kubelet_volume_stats_available_bytes": 60,
        "kubelet_volume_stats_used_bytes": 40,
        "kubelet_volume_stats_inodes": 10,
        "kubelet_volume_stats_inodes_free": 7,
        "kubelet_volume_stats_inodes_used": 3,
    }
    whose = {"uid": "u", "namespace": "default", "pod": "web", "container": "c"}
    assert samples["kubelet_container_log_filesystem_used_bytes", tuple(sorted(whose.items()))] == 7


async def test_what_the_api_server_is_asked_about_others_is_told() -> None:
    node = Node()
    meters = node.metrics.meters
    reviews = MeasuredReviews(OnlyAdmin(), meters)
    await reviews.who("admin-token")
    await reviews.may(Identity(name="admin"), Access(verb="get", subresource="pods", node="n1"))
    with pytest.raises(Retry):
        await MeasuredReviews(Away(), meters).who("token")
    samples = await node.samples()
    for kind in ("authn", "authz"):
        assert samples[f"apiserver_delegated_{kind}_request_total", (("code", "201"),)] == 1
        assert samples[f"apiserver_delegated_{kind}_request_duration_seconds_count", (("code", "201"),)] == 1
    assert samples["apiserver_delegated_authn_request_total", (("code", "<error>"),)] == 1
    assert samples["authentication_token_cache_fetch_total", (("status", "ok"),)] == 1
    assert samples["authentication_token_cache_fetch_total", (("status", "error"),)] == 1
    assert samples["authentication_token_cache_active_fetch_count", (("status", "in_flight"),)] == 0


async def test_probes_are_told_until_they_end() -> None:
    node = Node()
    node.note(m.Probed("liveness", "c", Result.SUCCESS, 0.1), m.Probed("liveness", "c", Result.FAILURE, 0.1))
    labels = {"probe_type": "Liveness", "container": "c", "pod": "web", "namespace": "default"}
    samples = await node.samples("/metrics/probes")
    for result in ("successful", "failed"):
        every = {**labels, "pod_uid": "uid-web", "result": result}
        assert samples["prober_probe_total", tuple(sorted(every.items()))] == 1
    assert samples["prober_probe_duration_seconds_count", tuple(sorted(labels.items()))] == 1
    node.note(m.ProbingEnded("liveness", "c"))
    assert {name for name, _ in await node.samples("/metrics/probes")} == {"process_start_time_seconds"}


async def test_health_checks_are_counted_when_they_are_made() -> None:
    node, late = Node(), [0.0]
    checks = node.metrics.checked(healthz.checks(lambda: late[0]))
    async with client([*node.metrics.routes(), *healthz.routes(checks)]) as session:
        for seconds in (0.0, 500.0):
            late[0] = seconds
            async with session.get("/healthz"):
                pass
    samples = await node.samples("/metrics/slis")
    assert samples["kubernetes_healthcheck", (("name", "syncloop"), ("type", "healthz"))] == 0
    assert samples["kubernetes_healthcheck", (("name", "ping"), ("type", "healthz"))] == 1
    failed = (("name", "syncloop"), ("status", "error"), ("type", "healthz"))
    assert samples["kubernetes_healthchecks_total", failed] == 1


# --- the journal


async def test_every_moment_is_known_to_the_metrics(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    for error in ("", "why"):
        node.note(*one_of_each(error=error))
    assert not caplog.records  # no reader has failed
    await node.text()
