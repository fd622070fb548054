"""Which kind of pod this is: where it came from, and how much the node depends on it."""

from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION, SOURCE_ANNOTATION

FILE_SOURCE: Final = "file"
URL_SOURCE: Final = "http"
API_SOURCE: Final = "api"

_SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000


def full_name(pod: Pod) -> str:
    """`name_namespace`: unique among the pods of a node at any one time."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}"


def shown_pod(pod: Pod) -> str:
    """As upstream shows a pod in its messages."""
    return f"{full_name(pod)}({pod.metadata.uid})"


def source_of(pod: Pod) -> str:
    return pod.metadata.annotations.get(SOURCE_ANNOTATION, "")


def is_static(pod: Pod) -> bool:
    """A pod from a file or a URL: the node runs it whether or not there is an API server."""
    return source_of(pod) not in ("", API_SOURCE)


def is_mirror(pod: Pod) -> bool:
    """An API server's image of a static pod: shown to people, never run."""
    return MIRROR_ANNOTATION in pod.metadata.annotations


def is_critical(pod: Pod) -> bool:
    return is_static(pod) or is_mirror(pod) or (pod.spec.priority or 0) >= _SYSTEM_CRITICAL_PRIORITY


def is_node_critical(pod: Pod) -> bool:
    return is_critical(pod) and pod.spec.priority_class_name == "system-node-critical"
