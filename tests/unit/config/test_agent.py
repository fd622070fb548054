import os
import socket
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.app.foundations import check_reserved
from pykubelet.base.errors import Invalid
from pykubelet.config.agent import Config, make_config, tell_what_is_in_vain
from pykubelet.config.kubelet_configuration import load_configuration
from pykubelet.config.options import EVICTION_HARD
from pykubelet.host.cgroups import CgroupSettings
from pykubelet.host.credential_providers import CredentialProviderSettings
from pykubelet.host.dns import HostDnsSettings
from pykubelet.host.prepare import MachineSettings
from pykubelet.kube.settings import ClientSettings
from pykubelet.node.images import ImagePullSettings
from pykubelet.node.log_rotation import RotationSettings
from pykubelet.pod.eviction.thresholds import EvictionSettings, parse_thresholds
from pykubelet.pod.images.image_gc import ImageGcSettings
from pykubelet.pod.lifecycle.crash_loop_backoff import RestartWaits
from pykubelet.pod.lifecycle.node_shutdown import ShutdownPeriod
from pykubelet.pod.node.node_object import NodeSettings
from pykubelet.pod.pinning.settings import PinningSettings
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.runtime.settings import RuntimeSettings
from pykubelet.server.settings import ServerSettings, TlsSettings
from pykubelet.sources.settings import StaticPodSettings

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


HARD = parse_thresholds(EVICTION_HARD, {}, {}, {}, for_allocatable=False)


def load(tmp_path: Path, text: str) -> dict[str, Any]:
    file = tmp_path / "kubelet.yaml"
    file.write_text(text)
    return load_configuration(str(file))


def config(hidden: tuple[str, ...] = (), **fields: Any) -> Config:
    """As made for a node n1 with its state in /r, every room with its own defaults."""
    root, logs, pki = Path("/r"), Path("/r/logs"), Path("/r/pki")
    places = (root, logs, pki, *map(Path, hidden))
    rooms: dict[str, Any] = {
        "static_pods": StaticPodSettings(),
        "client": ClientSettings(node_name="n1", cert_dir=pki),
        "node": NodeSettings(name="n1", thresholds=HARD),
        "runtime": RuntimeSettings(endpoint="", root=root / "runtime", log_root=logs, hidden=places),
        "log_rotation": RotationSettings(),
        "image_pulls": ImagePullSettings(),
        "image_gc": ImageGcSettings(),
        "credential_providers": CredentialProviderSettings(),
        "cgroups": CgroupSettings(),
        "eviction": EvictionSettings(thresholds=(*HARD, changed(HARD[2], signal="allocatableMemory.available"))),
        "pinning": PinningSettings(),
        "dns": HostDnsSettings(),
        "machine": MachineSettings(),
        "restart_waits": RestartWaits(),
        "server": ServerSettings(tls=TlsSettings(cert_dir=pki, node_name="n1")),
    }
    return Config(root_dir=root, pod_logs_dir=logs, **rooms | fields)


def made(given: dict[str, Any]) -> Config:
    return changed(
        make_config({"--hostname-override": "n1", "--root-dir": "/r"} | given), configuration={}, feature_gates={}
    )


@pytest.mark.parametrize(
    ("root", "endpoint", "user", "logs"),
    [
        ("/var/lib/kubelet", "", 0, "/var/log/pods"),
        ("/r", "unix:///run/containerd/containerd.sock", 0, "/var/log/pods"),
        ("/r", "unix:///run/containerd/containerd.sock", 1000, "/r/logs"),
        ("/r", "", 0, "/r/logs"),
        ("/r", "process", 0, "/r/logs"),
        ("/r", "process://plain", 0, "/r/logs"),
    ],
)
def test_logs_are_where_upstream_has_them_unless_the_node_is_not_the_machines_own(
    monkeypatch: pytest.MonkeyPatch, root: str, endpoint: str, user: int, logs: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    given = {"--hostname-override": "n1", "--root-dir": root, "containerRuntimeEndpoint": endpoint}
    assert make_config(given).pod_logs_dir == Path(logs)
    assert make_config(given | {"podLogsDir": "/elsewhere"}).pod_logs_dir == Path("/elsewhere")


def test_the_names_of_the_file_are_upstreams(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        HEAD + "staticPodPath: /etc/kubernetes/manifests\n"
        "staticPodURL: https://example.com/pods\n"
        "staticPodURLHeader: {Authorization: [Bearer x], X-Team: [a, b]}\n"
        "fileCheckFrequency: 10s\n"
        "httpCheckFrequency: 1m30s\n",
    )
    assert made(found) == config(
        hidden=("/etc/kubernetes/manifests",),
        static_pods=StaticPodSettings(
            path="/etc/kubernetes/manifests",
            url="https://example.com/pods",
            url_header={"Authorization": ("Bearer x",), "X-Team": ("a", "b")},
            file_check_period=10.0,
            http_check_period=90.0,
        ),
    )


def test_the_defaults_are_upstreams(tmp_path: Path) -> None:
    found = made(load(tmp_path, HEAD))
    assert found == made({}) == config()
    assert (found.static_pods.file_check_period, found.static_pods.http_check_period) == (20.0, 20.0)
    assert found.node.max_pods == 110
    assert not found.server.auth.anonymous
    assert found.server.auth.authorization == "Webhook"


def test_only_an_agent_called_kubelet_ignores_what_it_does_not_know_in_manifests() -> None:
    assert not made({}).static_pods.lenient
    assert make_config({"--hostname-override": "n1"}, is_kubelet=True).static_pods.lenient


def test_nulls_are_as_if_not_written(tmp_path: Path) -> None:
    text = HEAD + "staticPodPath: null\nstaticPodURLHeader:\nfileCheckFrequency: ~\n"
    assert made(load(tmp_path, text)) == config()


# --- durations


@pytest.mark.parametrize("text", ["0", "0s", "0h0m0s"])
def test_zero_means_the_default(text: str) -> None:
    static = made({"fileCheckFrequency": text, "httpCheckFrequency": text}).static_pods
    assert (static.file_check_period, static.http_check_period) == (20.0, 20.0)


def test_zero_stays_zero_where_it_means_something() -> None:
    assert made({"imageMinimumGCAge": "0s"}).image_gc.minimum_age == 0.0


@pytest.mark.parametrize("field", ["fileCheckFrequency", "httpCheckFrequency"])
@pytest.mark.parametrize("text", ["20", "", "soon", "-1s", "1d", "9999999h"])
def test_a_bad_duration_is_refused_by_its_name(field: str, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        made({field: text})
    assert str(caught.value).startswith(f"{field}: ")


# --- the node's name


def test_the_node_has_the_hosts_name_in_small_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "Box.Example.COM\n")
    assert make_config({}).node.name == "box.example.com"


@pytest.mark.parametrize(("given", "name"), [("n1", "n1"), ("Node-7", "node-7"), (" n1 ", "n1")])
def test_the_hosts_name_can_be_overridden(given: str, name: str) -> None:
    assert make_config({"--hostname-override": given}).node.name == name


@pytest.mark.parametrize("name", ["my_host", "-n1", "n1/../n2", "n" * 254, "Größe"])
def test_a_name_that_no_node_can_have_is_refused_with_a_way_out(name: str) -> None:
    with pytest.raises(Invalid, match="choose one with --hostname-override"):
        make_config({"--hostname-override": name})


# --- what cannot be meant


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("cgroupDriver: docker\n", "cgroupDriver: must be cgroupfs or systemd, got 'docker'"),
        ("imageGCLowThresholdPercent: 90\n", "imageGCLowThresholdPercent: must be below imageGCHighThresholdPercent"),
        ("serializeImagePulls: true\nmaxParallelImagePulls: 3\n", "maxParallelImagePulls: cannot be more than 1"),
        ("kubeReserved: {cpu: lots}\n", "kubeReserved.cpu: 'lots' is not a quantity"),
        ("systemReserved: {memory: -1Gi}\n", "systemReserved.memory: must not be negative"),
        ("kubeReserved: {gpu: '1'}\n", "kubeReserved: 'gpu' cannot be reserved; there are cpu, memory"),
        ("enforceNodeAllocatable: [everything]\n", "enforceNodeAllocatable: must be some of none, pods, system-"),
        ("enforceNodeAllocatable: [none, pods]\n", "enforceNodeAllocatable: cannot be none and something else"),
        ("containerLogMaxFiles: 1\n", "containerLogMaxFiles: must be 2 or more, got 1"),
        ("containerLogMaxSize: '0'\n", "containerLogMaxSize: must be positive"),
        ("clusterDNS: [ten]\n", "clusterDNS: 'ten' is not an address"),
        ("port: 70000\n", "port: must be from 0 to 65535, got 70000"),
        (
            "tracing: {samplingRatePerMillion: 1000001}\n",
            "tracing.samplingRatePerMillion: must be from 0 to 1000000, got 1000001",
        ),
        (
            "tracing: {endpoint: 'http://localhost:4317'}\n",
            "tracing.endpoint: unsupported scheme: http.  Options are none, dns, unix, or unix-abstract",
        ),
        ("tracing: {endpoint: 'localhost:port'}\n", "tracing.endpoint: is no address"),
        ("address: here\n", "address: 'here' is not an address"),
        (
            "configMapAndSecretChangeDetectionStrategy: Guess\n",
            "configMapAndSecretChangeDetectionStrategy: must be Watch or Cache or Get, got 'Guess'",
        ),
        ("authorization: {mode: Sometimes}\n", "authorization.mode: must be Webhook or AlwaysAllow, got 'Sometimes'"),
        ("tlsCertFile: /c\n", "tlsCertFile and tlsPrivateKeyFile need each other"),
        ("cpuCFSQuotaPeriod: 2s\n", "cpuCFSQuotaPeriod: must be from 1ms to 1s, got 2s"),
        ("nodeLeaseDurationSeconds: -1\n", "nodeLeaseDurationSeconds: must be 1 or more, got -1"),
        (
            "cpuCFSQuotaPeriod: 10ms\n",
            "cpuCFSQuotaPeriod: other than 100ms, it needs the feature gate CustomCPUCFSQuota",
        ),
        ("cpuCFSQuotaPeriod: 0s\n", "cpuCFSQuotaPeriod: must be from 1ms to 1s, got 0s"),
        ("oomScoreAdj: 1001\n", "oomScoreAdj: must be from -1000 to 1000, got 1001"),
        ("kubeAPIQPS: -1\n", "kubeAPIQPS: must not be negative, got -1"),
        ("nodeStatusMaxImages: -2\n", "nodeStatusMaxImages: must be -1 or more, got -2"),
        ("memoryThrottlingFactor: 1.5\n", "memoryThrottlingFactor: must be above 0 and at most 1, got 1.5"),
        ("runOnce: true\n", "runOnce: there is no such mode any more"),
        ("podLogsDir: logs\n", "podLogsDir: must be an absolute path, got 'logs'"),
        ("userNamespaces: {idsPerPod: 1000}\n", "userNamespaces.idsPerPod: must be a multiple of 65536"),
        (
            "topologyManagerPolicy: some\n",
            "topologyManagerPolicy: must be none or best-effort or restricted or single-",
        ),
        (
            "memorySwap: {swapBehavior: Always}\n",
            "memorySwap.swapBehavior: must be NoSwap or LimitedSwap, got 'Always'",
        ),
        ("imageMaximumGCAge: 1m\n", "imageMaximumGCAge: must be more than imageMinimumGCAge (2m), got 1m"),
        (
            "shutdownGracePeriodCriticalPods: 5s\n",
            "shutdownGracePeriodCriticalPods: must be within shutdownGracePeriod",
        ),
        ("shutdownGracePeriod: 10ms\n", "shutdownGracePeriod: must be 0s, or 1s or more, got 10ms"),
        ("enableSystemLogQuery: true\n", "enableSystemLogQuery: needs the feature gate NodeLogQuery"),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 5s}\n",
            "crashLoopBackOff.maxContainerRestartPeriod: needs the",
        ),
        (
            "featureGates: {KubeletCrashLoopBackOffMax: true}\n",
            "crashLoopBackOff.maxContainerRestartPeriod: must be from",
        ),
        ("enforceNodeAllocatable: [pods]\ncgroupsPerQOS: false\n", "enforceNodeAllocatable: pods needs cgroupsPerQOS"),
        ("enforceNodeAllocatable: [kube-reserved]\n", "enforceNodeAllocatable: kube-reserved needs kubeReservedCgroup"),
        ("evictionHard: {memory.free: 1Gi}\n", "evictionHard: unsupported eviction signal memory.free"),
        (
            "evictionHard: {memory.available: -1Gi}\n",
            "evictionHard: eviction threshold memory.available must be positive",
        ),
        ("evictionHard: {memory.available: 110%}\n", "evictionHard: eviction percentage threshold memory.available"),
        ("evictionHard: {memory.available: x%}\n", "evictionHard: 'x%' is no percentage"),
        (
            "evictionSoft: {memory.available: 1Gi}\n",
            "evictionSoft: grace period must be specified for the soft eviction",
        ),
        (
            "evictionSoftGracePeriod: {nodefs.available: -1s}\n",
            "evictionSoftGracePeriod: invalid eviction grace period",
        ),
        ("evictionMinimumReclaim: {nodefs.available: 0%}\n", "evictionMinimumReclaim: eviction percentage minimum"),
        ("systemCgroups: /system\n", "systemCgroups: needs cgroupRoot"),
        ("systemCgroups: /\ncgroupRoot: /\n", 'systemCgroups: system container cannot be root ("/")'),
        ("systemCgroups: system\ncgroupRoot: /\n", "systemCgroups: must be an absolute path"),
        ("reservedSystemCPUs: 0-x\n", "reservedSystemCPUs: '0-x' is no processor or range of them"),
        ("reservedSystemCPUs: 3-1\n", "reservedSystemCPUs: the range '3-1' ends before it begins"),
        ("staticPodURLHeader: {A: [<masked>]}\n", "staticPodURLHeader: <masked> is what /configz shows"),
        ("shutdownGracePeriod: soon\n", "shutdownGracePeriod: 'soon' is not a duration"),
    ],
)
def test_values_that_make_no_sense_are_refused(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        made(load(tmp_path, HEAD + text))
    assert str(caught.value).startswith(fault)


def test_what_is_reserved_for_the_system_and_the_agent_adds_up() -> None:
    found = made({"kubeReserved": {"cpu": "100m"}, "systemReserved": {"cpu": "1", "memory": "1Gi"}})
    assert {name: str(amount) for name, amount in found.node.reserved.items()} == {"cpu": "1100m", "memory": "1Gi"}


def test_a_node_cannot_keep_back_more_than_it_has() -> None:
    facts = MachineFacts(hostname="n1", ips=("10.0.0.1",), cpus=2, memory=1 << 30)
    check_reserved(made({"kubeReserved": {"cpu": "2", "ephemeral-storage": "1Ti"}}), facts)
    too_much = made({"kubeReserved": {"cpu": "1"}, "systemReserved": {"cpu": "1500m"}})
    with pytest.raises(Invalid, match=r"reservation of 2500m but capacity of 2\. Expected capacity >= reserv"):
        check_reserved(too_much, facts)
    short = made({"systemReserved": {"memory": "1000Mi"}, "evictionHard": {"memory.available": "25Mi"}})
    with pytest.raises(Invalid, match=r'evictionHard.*"memory" has a reservation of 1025Mi but capacity of 1Gi'):
        check_reserved(short, facts)


def test_processors_are_reserved_by_their_numbers() -> None:
    given = {"kubeReserved": {"cpu": "1", "memory": "1Mi"}, "reservedSystemCPUs": "0,2-3"}
    node = made(given).node
    assert (node.reserved["cpu"], node.reserved_cpus) == (parse("3"), frozenset((0, 2, 3)))
    assert node.kube_reserved.keys() == {"memory"}
    check_reserved(made(given), MachineFacts(hostname="n", ips=(), cpus=4, memory=2**30, cpus_online="0-3"))
    with pytest.raises(Invalid, match="reservedSystemCPUs: 0,2,3 is not a subset of online-cpus: 0-1"):
        check_reserved(made(given), MachineFacts(hostname="n", ips=(), cpus=4, memory=2**30, cpus_online="0-1"))


def test_one_pull_at_a_time_when_they_are_to_be_serial() -> None:
    assert made({}).image_pulls.most_at_once is None
    assert made({"maxParallelImagePulls": 4}).image_pulls.most_at_once == 4
    assert made({"serializeImagePulls": True}).image_pulls.most_at_once == 1


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (
            {"--image-credential-provider-config": "/c"},
            "--image-credential-provider-config and --image-credential-prov",
        ),
        ({"--bootstrap-kubeconfig": "/b"}, "--bootstrap-kubeconfig needs --kubeconfig: that is the file to be made"),
        ({"allowedUnsafeSysctls": ("kernel.sem,",)}, "allowedUnsafeSysctls: sysctl "),
        ({"maxPods": -1}, "maxPods: must not be negative, got -1"),
        ({"maxParallelImagePulls": 0}, "maxParallelImagePulls: must be 1 or more, got 0"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        made(given)
    assert str(caught.value).startswith(fault)


# --- what follows from several


def test_processors_that_are_not_for_pods_count_instead_of_those_reserved_by_number() -> None:
    found = made({"reservedSystemCPUs": "0-1,4", "kubeReserved": {"cpu": "1", "memory": "1Gi"}})
    assert {name: str(amount) for name, amount in found.node.reserved.items()} == {"cpu": "3", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("gates", "longest", "waits"),
    [
        ({}, None, RestartWaits(first=10.0, longest=300.0)),
        ({"KubeletCrashLoopBackOffMax": True}, "60s", RestartWaits(first=10.0, longest=60.0)),
        ({"KubeletCrashLoopBackOffMax": True}, "4s", RestartWaits(first=4.0, longest=4.0)),
        ({"ReduceDefaultCrashLoopBackOffDecay": True}, None, RestartWaits(first=1.0, longest=60.0)),
    ],
)
def test_gates_shorten_the_wait_of_what_keeps_failing(
    gates: dict[str, bool], longest: str | None, waits: RestartWaits
) -> None:
    given = {"featureGates": gates, "crashLoopBackOff.maxContainerRestartPeriod": longest}
    assert made(given).restart_waits == waits


def test_a_gate_turns_its_setting_off() -> None:
    off = made({"featureGates": dict.fromkeys(("ContainerCheckpoint", "KubeletFineGrainedAuthz"), False)})
    assert (off.server.checkpoints, off.server.auth.fine_grained) == (False, False)
    off = made({"featureGates": dict.fromkeys(("SystemdWatchdog", "UserNamespacesSupport"), False)})
    assert (off.watchdog, off.user_namespaces) == (False, False)


def test_an_agent_that_is_called_kubelet_does_as_kubelets_do_to_a_machine() -> None:
    own, kubelet = make_config({"--root-dir": "/r"}), make_config({"--root-dir": "/r"}, is_kubelet=True)
    assert own.machine == MachineSettings()
    assert kubelet.machine == MachineSettings(
        fail_swap_on=True, kernel="set", oom_score_adj=-999, max_open_files=1_000_000, has_iptables=True
    )
    assert make_config({"protectKernelDefaults": True}).machine.kernel == "check"
    assert kubelet.runtime.endpoint == "unix:///run/containerd/containerd.sock"
    assert kubelet.pod_logs_dir == Path("/var/log/pods")
    assert kubelet.image_pulls.most_at_once == 1
    assert make_config({"maxParallelImagePulls": 3}, is_kubelet=True).image_pulls.most_at_once == 3
    assert not kubelet.server.auth.anonymous  # nobody is let in for want of a file


def test_who_has_how_long_when_the_machine_goes_down() -> None:
    assert made({}).shutdown_periods == ()
    both = {"shutdownGracePeriod": "30s", "shutdownGracePeriodCriticalPods": "10s"}
    assert made(both).shutdown_periods == (ShutdownPeriod(0, 20), ShutdownPeriod(2_000_000_000, 10))
    crowds = ({"priority": 5, "shutdownGracePeriodSeconds": 7}, {"priority": 1, "shutdownGracePeriodSeconds": 9})
    by_priority = {"shutdownGracePeriodByPodPriority": crowds}
    assert made(by_priority).shutdown_periods == (ShutdownPeriod(1, 9), ShutdownPeriod(5, 7))
    with pytest.raises(Invalid, match="--shutdown-on-term: needs shutdownGracePeriod or shutdownGracePeriodByPodPrior"):
        made({"--shutdown-on-term": True})
    assert made({"--shutdown-on-term": True, **both}).shutdown_on_term


def test_swap_is_shared_only_where_people_want_that() -> None:
    assert not made({"memorySwap.swapBehavior": "NoSwap"}).machine.limited_swap
    assert made({"memorySwap.swapBehavior": "LimitedSwap"}).machine.limited_swap


def test_a_node_that_a_cloud_has_to_complete_says_so() -> None:
    (taint,) = made({"--cloud-provider": "external"}).node.taints
    assert (taint.key, taint.effect) == ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule")


def test_what_is_given_in_vain_is_told_but_not_what_is_so_anyway(caplog: pytest.LogCaptureFixture) -> None:
    tell_what_is_in_vain({"hairpinMode": "none", "contentType": "application/vnd.kubernetes.protobuf", "maxPods": 7})
    assert [record.getMessage() for record in caplog.records] == [
        "hairpinMode has no effect: the runtime's CNI plug-ins decide it"
    ]


# --- what people are shown


def test_the_configuration_in_force_is_shown_as_a_file_would_have_it() -> None:
    shown = make_config({"maxPods": 7, "authentication.anonymous.enabled": True, "--root-dir": "/r"}).configuration
    assert (shown["maxPods"], shown["port"], shown["fileCheckFrequency"]) == (7, 10250, "20s")
    assert shown["authentication"]["anonymous"] == {"enabled": True}
    assert shown["authorization"]["webhook"] == {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"}
    assert "maxParallelImagePulls" not in shown  # any number
    assert not [name for name in shown if name.startswith("--")]


def test_containers_see_none_of_the_credentials_that_the_agent_was_told_of() -> None:
    flags = ("kubeconfig", "bootstrap-kubeconfig", "cert-dir", "image-credential-provider-config")
    given = {f"--{name}": f"/etc/{name}" for name in flags} | {"podLogsDir": "/logs"}
    given |= {
        "--image-credential-provider-bin-dir": "/opt/bin",
        "tlsPrivateKeyFile": "/opt/key",
        "tlsCertFile": "/opt/crt",
    }
    wanted = {*(f"/etc/{name}" for name in flags), "/opt/bin", "/opt/key", "/opt/crt", "/logs", "/r"}
    assert {str(path) for path in made(given).runtime.hidden} == wanted


@pytest.mark.parametrize(("folder", "is_hidden"), [("/opt/plug-ins", True), ("/usr/local/bin", False)])
def test_plug_ins_are_hidden_unless_they_are_where_programs_are(folder: str, is_hidden: bool) -> None:
    given = {"--image-credential-provider-bin-dir": folder, "--image-credential-provider-config": "/etc/plug-ins"}
    assert (Path(folder) in made(given).runtime.hidden) == is_hidden
