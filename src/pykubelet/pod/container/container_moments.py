"""What a container's moments are made of: its kind, from the pod's spec, and its end, from two looks at it."""

from collections.abc import Iterator

from pykubelet.api.pod import Pod
from pykubelet.pod.moments import ContainerKind, Exited
from pykubelet.pod.observed import ObservedPod, State


def container_kind(pod: Pod, name: str) -> ContainerKind:
    if any(container.name == name for container in pod.spec.init_containers):
        return "init_container"
    if any(container.name == name for container in pod.spec.ephemeral_containers):
        return "ephemeral_container"
    return "container"


def exits(before: ObservedPod | None, now: ObservedPod) -> Iterator[Exited]:
    """Of the containers that have ended between two looks at a pod, the oldest first."""
    known = {each.id for each in before.containers if each.state is State.EXITED} if before else set()
    ended = [each for each in now.containers if each.state is State.EXITED and each.id not in known]
    for each in reversed(ended):  # the newest are seen first
        yield Exited(
            each.name, each.attempt, each.exit_code, each.reason, each.started_at, each.finished_at, each.peak
        )  # fmt: skip
