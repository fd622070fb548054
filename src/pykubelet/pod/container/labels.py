"""What sandboxes and containers are marked with in a runtime: by these marks any agent, ours or upstream's, finds out
which pod they belong to and what they were made from."""

from collections.abc import Mapping
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.pod.container.hash import container_hash, go_json

POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"

CONTAINER_HASH: Final = "io.kubernetes.container.hash"
RESTART_COUNT: Final = "io.kubernetes.container.restartCount"
TERMINATION_MESSAGE_PATH: Final = "io.kubernetes.container.terminationMessagePath"
TERMINATION_MESSAGE_POLICY: Final = "io.kubernetes.container.terminationMessagePolicy"
PRE_STOP_HANDLER: Final = "io.kubernetes.container.preStopHandler"
PORTS: Final = "io.kubernetes.container.ports"
DELETION_GRACE_PERIOD: Final = "io.kubernetes.pod.deletionGracePeriod"
TERMINATION_GRACE_PERIOD: Final = "io.kubernetes.pod.terminationGracePeriod"


def sandbox_labels(pod: Pod) -> Mapping[str, str]:
    return {**pod.metadata.labels, **pod_identity(pod)}


def sandbox_annotations(pod: Pod) -> Mapping[str, str]:
    return pod.metadata.annotations


def container_labels(pod: Pod, container: Container) -> Mapping[str, str]:
    return {**pod_identity(pod), CONTAINER_NAME: container.name}


def container_annotations(pod: Pod, container: Container, restart_count: int) -> Mapping[str, str]:
    """What has to be known of a container even when nobody knows its pod any more."""
    annotations = {
        CONTAINER_HASH: container_hash(container),
        RESTART_COUNT: str(restart_count),
        TERMINATION_MESSAGE_PATH: container.termination_message_path,
        TERMINATION_MESSAGE_POLICY: container.termination_message_policy,
    }
    if pod.metadata.deletion_grace_period_seconds is not None:
        annotations[DELETION_GRACE_PERIOD] = str(pod.metadata.deletion_grace_period_seconds)
    if pod.spec.termination_grace_period_seconds is not None:
        annotations[TERMINATION_GRACE_PERIOD] = str(pod.spec.termination_grace_period_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        annotations[PRE_STOP_HANDLER] = go_json(container.lifecycle.pre_stop).decode()
    if container.ports:
        # A host port of 0 means none, and upstream leaves it out.
        ports = [changed(port, host_port=port.host_port or None) for port in container.ports]
        annotations[PORTS] = go_json(ports).decode()
    return annotations


def pod_identity(pod: Pod) -> dict[str, str]:
    return {
        POD_NAME: pod.metadata.name,
        POD_NAMESPACE: pod.metadata.namespace,
        POD_UID: pod.metadata.uid,
    }
