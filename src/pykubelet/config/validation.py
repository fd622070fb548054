"""What cannot be meant, although each value is well written: upstream's ValidateKubeletConfiguration, and more."""

import ipaddress
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pykubelet.api.durations import parse_duration
from pykubelet.api.rules.well_known import KUBELET_LABELS
from pykubelet.api.validation.names import label_value, qualified_name
from pykubelet.config.configz import MASKED
from pykubelet.config.pinning import pinning_faults
from pykubelet.config.values import cpu_set
from pykubelet.pod.admission.sysctls import Sysctls
from pykubelet.pod.eviction.thresholds import parse_thresholds

log = logging.getLogger(__name__)

Values = Mapping[str, Any]

SOFT_EVICTION: Final = ("evictionSoft", "evictionSoftGracePeriod", "evictionMinimumReclaim")
_LAST_MINOR: Final = "1.33"
_ENFORCEABLE: Final = (
    *("none", "pods", "system-reserved", "kube-reserved"),
    *("system-reserved-compressible", "kube-reserved-compressible"),
)
_CHOICES: Final = {
    "--images": ("auto", "registry", "machine"),
    "cgroupDriver": ("cgroupfs", "systemd"),
    "authorization.mode": ("Webhook", "AlwaysAllow"),
    "configMapAndSecretChangeDetectionStrategy": ("Watch", "Cache", "Get"),
    "topologyManagerPolicy": ("none", "best-effort", "restricted", "single-numa-node"),
    "topologyManagerScope": ("container", "pod"),
    "cpuManagerPolicy": ("none", "static"),
    "memoryManagerPolicy": ("None", "Static"),
    "hairpinMode": ("none", "hairpin-veth", "promiscuous-bridge"),
    "memorySwap.swapBehavior": ("", "NoSwap", "LimitedSwap"),
    "logging.format": ("text", "json"),
    "--cloud-provider": ("", "external"),
}
_NOT_NEGATIVE: Final = (
    *("maxPods", "podsPerCore", "maxOpenFiles", "eventBurst", "eventRecordQPS", "kubeAPIBurst", "kubeAPIQPS"),
    *("registryBurst", "registryPullQPS", "logging.verbosity"),
)
_BETWEEN: Final = {
    "port": (0, 65535),
    "readOnlyPort": (0, 65535),
    "healthzPort": (0, 65535),
    "oomScoreAdj": (-1000, 1000),
    "imageGCHighThresholdPercent": (0, 100),
    "imageGCLowThresholdPercent": (0, 100),
    "iptablesMasqueradeBit": (0, 31),
    "iptablesDropBit": (0, 31),
    "tracing.samplingRatePerMillion": (0, 1_000_000),
}
_GATED: Final = {
    "imageMaximumGCAge": "ImageMaximumGCAge",
    "serverTLSBootstrap": "RotateKubeletServerCertificate",
    "shutdownGracePeriod": "GracefulNodeShutdown",
    "shutdownGracePeriodCriticalPods": "GracefulNodeShutdown",
    "shutdownGracePeriodByPodPriority": "GracefulNodeShutdownBasedOnPodPriority",
    "crashLoopBackOff.maxContainerRestartPeriod": "KubeletCrashLoopBackOffMax",
    "imagePullCredentialsVerificationPolicy": "KubeletEnsureSecretPulledImages",
    "preloadedImagesVerificationAllowlist": "KubeletEnsureSecretPulledImages",
    "enableSystemLogQuery": "NodeLogQuery",
    "qosReserved": "QOSReserved",
    "logging.options.text.splitStream": "LoggingAlphaOptions",
    "logging.options.json.splitStream": "LoggingAlphaOptions",
}
"""What may be other than nothing only with a feature gate."""


def faults(values: Values, gates: Mapping[str, bool]) -> Iterator[str]:
    """A sentence for each thing that is wrong with values by the options' keys."""
    yield from _of_single_values(values)
    yield from _of_odd_values(values)
    yield from _of_gates(values, gates)
    yield from _of_images(values)
    yield from _of_eviction(values)
    yield from _of_durations(values, gates)
    yield from _of_enforcement(values)
    yield from _of_pairs(values)
    yield from pinning_faults(values, gates)
    yield from _of_labels(values["--node-labels"])
    try:
        Sysctls(values["allowedUnsafeSysctls"])
    except ValueError as error:
        yield f"allowedUnsafeSysctls: {error}"


def _of_single_values(values: Values) -> Iterator[str]:
    for name in _NOT_NEGATIVE:
        if (values[name] or 0) < 0:
            yield f"{name}: must not be negative, got {values[name]}"
    for name, (low, high) in _BETWEEN.items():
        if values[name] is not None and not low <= values[name] <= high:
            yield f"{name}: must be from {low} to {high}, got {values[name]}"
    for name, choices in _CHOICES.items():
        if values[name] not in choices:
            yield f"{name}: must be {' or '.join(filter(None, choices))}, got {values[name]!r}"
    for name, least in (
        ("nodeLeaseDurationSeconds", 1),
        ("containerLogMaxFiles", 2),
        ("containerLogMaxWorkers", 1),
        ("nodeStatusMaxImages", -1),
    ):
        if values[name] < least:
            yield f"{name}: must be {least} or more, got {values[name]}"


def _of_odd_values(values: Values) -> Iterator[str]:
    if not 0 < values["memoryThrottlingFactor"] <= 1:
        yield f"memoryThrottlingFactor: must be above 0 and at most 1, got {values['memoryThrottlingFactor']}"
    for name in ("kubeletCgroups", "systemCgroups"):
        if (group := values[name]) and (not group.startswith("/") or ".." in group.split("/")):
            yield f"{name}: must be an absolute path, got {group!r}"
    if values["showHiddenMetricsForVersion"] not in ("", _LAST_MINOR):
        told = values["showHiddenMetricsForVersion"]
        yield f"showHiddenMetricsForVersion: must be the minor version before this one, {_LAST_MINOR}, got {told!r}"
    for cidr in filter(None, values["podCIDR"].split(",")):
        try:
            ipaddress.ip_network(cidr, strict=False)
        except ValueError:
            yield f"podCIDR: {cidr!r} is not a range of addresses, such as 10.244.0.0/24"
    if (endpoint := values["tracing.endpoint"]) is not None and (fault := _endpoint_fault(endpoint)):
        yield f"tracing.endpoint: {fault}, got {endpoint!r}"
    if values["runOnce"]:
        yield "runOnce: there is no such mode any more; run the pods with a runtime's own tools instead"
    if (logs := values["podLogsDir"]) and not logs.startswith("/"):  # Go's wants ASCII, but people's homes are not
        yield f"podLogsDir: must be an absolute path, got {logs!r}"
    ids = values["userNamespaces.idsPerPod"]
    if ids is not None and (ids < 65536 or ids % 65536 or ids >= 1 << 32):
        yield f"userNamespaces.idsPerPod: must be a multiple of 65536 below {1 << 32}, got {ids}"


def _endpoint_fault(endpoint: str) -> str:
    try:
        url = urlsplit(endpoint if "//" in endpoint else f"dns://{endpoint}")
        _ = url.port if url.scheme == "dns" else None
    except ValueError as error:
        return f"is no address: {error}"
    if url.scheme in ("dns", "unix", "unix-abstract"):
        return ""
    return f"unsupported scheme: {url.scheme}.  Options are none, dns, unix, or unix-abstract"


def _of_gates(values: Values, gates: Mapping[str, bool]) -> Iterator[str]:
    for name, gate in _GATED.items():
        value = values[name]
        if not gates[gate] and value not in (None, "", (), {}, False, "0s"):
            yield f"{name}: needs the feature gate {gate}"
    longest = values["crashLoopBackOff.maxContainerRestartPeriod"]
    if gates["KubeletCrashLoopBackOffMax"] and (longest is None or not 1 <= parse_duration(longest) <= 300):
        told = "nothing" if longest is None else longest
        yield f"crashLoopBackOff.maxContainerRestartPeriod: must be from 1s to 300s, got {told}"
    if values["enableSystemLogQuery"] and not values["enableSystemLogHandler"]:
        yield "enableSystemLogQuery: needs enableSystemLogHandler"


def _of_images(values: Values) -> Iterator[str]:
    high, low = values["imageGCHighThresholdPercent"], values["imageGCLowThresholdPercent"]
    most = values["maxParallelImagePulls"]
    if low >= high:
        yield f"imageGCLowThresholdPercent: must be below imageGCHighThresholdPercent ({high}), got {low}"
    if most is not None and most < 1:
        yield f"maxParallelImagePulls: must be 1 or more, got {most}"
    if values["serializeImagePulls"] and most is not None and most > 1:
        yield "maxParallelImagePulls: cannot be more than 1 while serializeImagePulls is true"
    oldest, youngest = values["imageMaximumGCAge"], values["imageMinimumGCAge"]
    if 0 < parse_duration(oldest) <= parse_duration(youngest):
        yield f"imageMaximumGCAge: must be more than imageMinimumGCAge ({youngest}), got {oldest}"


def _of_eviction(values: Values) -> Iterator[str]:
    soft, graces, reclaims = (values[name] or {} for name in SOFT_EVICTION)
    for field, said in (
        ("evictionHard", (values["evictionHard"], {}, {}, {})),
        ("evictionSoftGracePeriod", ({}, {}, graces, {})),
        ("evictionSoft", ({}, soft, graces, {})),
        ("evictionMinimumReclaim", ({}, {}, {}, reclaims)),
    ):
        try:
            parse_thresholds(*said, for_allocatable=False)
        except ValueError as error:
            yield f"{field}: {error}"
            return


def _of_durations(values: Values, gates: Mapping[str, bool]) -> Iterator[str]:
    period, interval = values["cpuCFSQuotaPeriod"], values["containerLogMonitorInterval"]
    if not 0.001 <= parse_duration(period) <= 1.0:
        yield f"cpuCFSQuotaPeriod: must be from 1ms to 1s, got {period}"
    elif parse_duration(period) != 0.1 and not gates["CustomCPUCFSQuotaPeriod"]:
        yield f"cpuCFSQuotaPeriod: other than 100ms, it needs the feature gate CustomCPUCFSQuotaPeriod; got {period}"
    if parse_duration(interval) < 3:
        yield f"containerLogMonitorInterval: must be 3s or more, got {interval}"
    all_pods, critical = values["shutdownGracePeriod"], values["shutdownGracePeriodCriticalPods"]
    if parse_duration(critical) > parse_duration(all_pods):
        yield f"shutdownGracePeriodCriticalPods: must be within shutdownGracePeriod ({all_pods}), got {critical}"
    for name in ("shutdownGracePeriod", "shutdownGracePeriodCriticalPods"):
        if 0 < parse_duration(values[name]) < 1:
            yield f"{name}: must be 0s, or 1s or more, got {values[name]}"
    if values["--shutdown-on-term"] and not parse_duration(all_pods) and not values["shutdownGracePeriodByPodPriority"]:
        yield "--shutdown-on-term: needs shutdownGracePeriod or shutdownGracePeriodByPodPriority"
    if values["shutdownGracePeriodByPodPriority"] and parse_duration(all_pods):
        yield "shutdownGracePeriodByPodPriority: cannot be given together with shutdownGracePeriod"


def _of_enforcement(values: Values) -> Iterator[str]:
    wanted = values["enforceNodeAllocatable"]
    if unknown := [each for each in wanted if each not in _ENFORCEABLE]:
        yield f"enforceNodeAllocatable: must be some of {', '.join(_ENFORCEABLE)}, got {unknown[0]!r}"
    if "none" in wanted and len(wanted) > 1:
        yield "enforceNodeAllocatable: cannot be none and something else"
    if len(set(wanted)) < len(wanted):
        yield "enforceNodeAllocatable: each may be given once"
    for kind in ("system", "kube"):
        asked = [each for each in wanted if each.startswith(f"{kind}-reserved")]
        if len(set(asked)) > 1:
            yield f"enforceNodeAllocatable: {asked[0]} and {asked[1]} cannot be given together"
        if asked and not values[f"{kind}ReservedCgroup"]:
            yield f"enforceNodeAllocatable: {asked[0]} needs {kind}ReservedCgroup"
    if not values["cgroupsPerQOS"] and set(wanted) - {"none"}:
        yield f"enforceNodeAllocatable: {wanted[0]} needs cgroupsPerQOS"


def _of_pairs(values: Values) -> Iterator[str]:
    if bool(values["--image-credential-provider-config"]) != bool(values["--image-credential-provider-bin-dir"]):
        yield "--image-credential-provider-config and --image-credential-provider-bin-dir need each other"
    if values["--bootstrap-kubeconfig"] and not values["--kubeconfig"]:
        yield "--bootstrap-kubeconfig needs --kubeconfig: that is the file to be made"
    if bool(values["tlsCertFile"]) != bool(values["tlsPrivateKeyFile"]):
        yield "tlsCertFile and tlsPrivateKeyFile need each other"
    if values["systemCgroups"] and not values["cgroupRoot"]:
        yield "systemCgroups: needs cgroupRoot"
    if values["systemCgroups"] == "/":
        yield 'systemCgroups: system container cannot be root ("/")'
    if cpu_set("reservedSystemCPUs", values["reservedSystemCPUs"]):
        for name in ("systemReservedCgroup", "kubeReservedCgroup"):
            if values[name]:
                yield f"reservedSystemCPUs: cannot be given together with {name}"
    if any(MASKED in texts for texts in values["staticPodURLHeader"].values()):
        yield f"staticPodURLHeader: {MASKED} is what /configz shows instead of the value; write the value itself"


_OWN_PREFIXES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")


def _of_labels(labels: Mapping[str, str]) -> Iterator[str]:
    for name, value in labels.items():
        domain = name.rpartition("/")[0]
        is_kubernetes = domain in ("kubernetes.io", "k8s.io") or domain.endswith((".kubernetes.io", ".k8s.io"))
        is_own = name in KUBELET_LABELS or any(domain == own or domain.endswith(f".{own}") for own in _OWN_PREFIXES)
        if is_kubernetes and not is_own:
            yield f"--node-labels: {name} is not for a node to give itself; there are *.{' and *.'.join(_OWN_PREFIXES)}"
        for problem in (*qualified_name(name), *label_value(value)):
            yield f"--node-labels: {name}={value}: {problem}"
