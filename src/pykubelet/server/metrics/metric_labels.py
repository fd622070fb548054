"""Words that metrics are told apart by: upstream's, and few enough that nobody can make series without end."""

import re
from functools import cache
from typing import Final

_REJECTIONS: Final = frozenset(
    {
        *("AppArmor", "PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "InvalidNodeInfo"),
        *("InitContainerRestartPolicyForbidden", "SupplementalGroupsPolicyNotSupported", "UnexpectedAdmissionError"),
        *("UnknownReason", "UnexpectedPredicateFailureType", "OutOfcpu", "OutOfmemory", "OutOfephemeral-storage"),
        *("OutOfpods", "PodLevelResourcesNotSupported", "node(s) had taints that the pod didn't tolerate", "Evicted"),
        *("SysctlForbidden", "TopologyAffinityError", "NodeShutdown", "VolumeAttachmentLimitExceeded"),
    }
)
_SIZES: Final = (
    *((100 << 30, "GT100GB"), (60 << 30, "60GB-100GB"), (40 << 30, "40GB-60GB"), (30 << 30, "30GB-40GB")),
    *((20 << 30, "20GB-30GB"), (10 << 30, "10GB-20GB"), (5 << 30, "5GB-10GB"), (1 << 30, "1GB-5GB")),
    *((500 << 20, "500MB-1GB"), (100 << 20, "100MB-500MB"), (10 << 20, "10MB-100MB"), (0, "0-10MB")),
)


@cache
def operation_type(method: str) -> str:
    """`RunPodSandbox` -> `run_podsandbox`, `UpdateContainerResources` -> `update_container`: upstream's words."""
    if method == "UpdateContainerResources":
        return "update_container"
    return re.sub(r"(?<!^)(?=[A-Z])", "_", method.replace("PodSandbox", "Podsandbox")).lower()


def image_size(size: int) -> str:
    return next((label for least, label in _SIZES if size > least), "N/A")


def rejection(reason: str) -> str:
    """Reasons may hold anybody's words; series may not."""
    if reason in _REJECTIONS:
        return reason
    return "OutOfExtendedResources" if reason.startswith("OutOf") else "Other"
