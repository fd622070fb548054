"""Every field of upstream's KubeletConfiguration (1.34): a typing error is not the same as a field not used yet."""

from collections.abc import Iterator
from typing import Any, Final

_TEXT: Final = """
    address allowedUnsafeSysctls authentication.anonymous.enabled authentication.webhook.cacheTTL
    authentication.webhook.enabled authentication.x509.clientCAFile authorization.mode
    authorization.webhook.cacheAuthorizedTTL authorization.webhook.cacheUnauthorizedTTL cgroupDriver cgroupRoot
    cgroupsPerQOS clusterDNS clusterDomain configMapAndSecretChangeDetectionStrategy containerLogMaxFiles
    containerLogMaxSize containerLogMaxWorkers containerLogMonitorInterval containerRuntimeEndpoint contentType
    cpuCFSQuota cpuCFSQuotaPeriod cpuManagerPolicy cpuManagerPolicyOptions cpuManagerReconcilePeriod
    crashLoopBackOff.maxContainerRestartPeriod enableContentionProfiling enableControllerAttachDetach
    enableDebugFlagsHandler enableDebuggingHandlers enableProfilingHandler enableServer enableSystemLogHandler
    enableSystemLogQuery enforceNodeAllocatable eventBurst eventRecordQPS evictionHard evictionMaxPodGracePeriod
    evictionMinimumReclaim evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod failCgroupV1
    failSwapOn featureGates fileCheckFrequency hairpinMode healthzBindAddress healthzPort httpCheckFrequency
    imageGCHighThresholdPercent imageGCLowThresholdPercent imageMaximumGCAge imageMinimumGCAge
    imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit iptablesMasqueradeBit
    kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeReserved kubeReservedCgroup kubeletCgroups
    localStorageCapacityIsolation logging.flushFrequency logging.format logging.options.json logging.options.text
    logging.verbosity logging.vmodule makeIPTablesUtilChains maxOpenFiles maxParallelImagePulls maxPods
    memoryManagerPolicy memorySwap.swapBehavior memoryThrottlingFactor mergeDefaultEvictionSettings
    nodeLeaseDurationSeconds nodeStatusMaxImages nodeStatusReportFrequency nodeStatusUpdateFrequency oomScoreAdj
    podCIDR podLogsDir podPidsLimit podsPerCore port preloadedImagesVerificationAllowlist protectKernelDefaults
    providerID qosReserved readOnlyPort registerNode registerWithTaints registryBurst registryPullQPS
    reservedMemory.limits reservedMemory.numaNode reservedSystemCPUs resolvConf rotateCertificates runOnce
    runtimeRequestTimeout seccompDefault serializeImagePulls serverTLSBootstrap showHiddenMetricsForVersion
    shutdownGracePeriod shutdownGracePeriodByPodPriority.priority
    shutdownGracePeriodByPodPriority.shutdownGracePeriodSeconds shutdownGracePeriodCriticalPods singleProcessOOMKill
    staticPodPath staticPodURL staticPodURLHeader streamingConnectionIdleTimeout syncFrequency systemCgroups
    systemReserved systemReservedCgroup tlsCertFile tlsCipherSuites tlsMinVersion tlsPrivateKeyFile
    topologyManagerPolicy topologyManagerPolicyOptions topologyManagerScope tracing.endpoint
    tracing.samplingRatePerMillion userNamespaces.idsPerPod volumePluginDir volumeStatsAggPeriod
"""
_FIELDS: Final = frozenset(_TEXT.split())
_GROUPS: Final = frozenset(field.rpartition(".")[0] for field in _FIELDS if "." in field) | {"authentication"}


def unknown_fields(value: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths that upstream does not know either."""
    for name, member in value.items():
        field = f"{path}{name}"
        if field in _FIELDS or field in ("apiVersion", "kind"):
            continue
        if field not in _GROUPS:
            yield field
        for part in member if isinstance(member, list) else [member]:
            if field in _GROUPS and isinstance(part, dict):
                yield from unknown_fields(part, f"{field}.")


def given_fields(value: dict[str, Any], path: str = "") -> Iterator[str]:
    """The paths that a file sets, down to where upstream's own fields end."""
    for name, member in value.items():
        field = f"{path}{name}"
        if field in _GROUPS and isinstance(member, dict):
            yield from given_fields(member, f"{field}.")
        else:
            yield field
