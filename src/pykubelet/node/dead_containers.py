"""What the runtime still holds of pods that have ended: kept for people to look at, until the disk runs full."""

from collections.abc import Callable, Iterable

from pykubelet.base.errors import PykubeletError, Retry
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.ports.machine import LogFiles
from pykubelet.pod.ports.runtime import Runtime


async def remove_dead(
    runtime: Runtime, logs: LogFiles | None, pods: Iterable[ObservedPod], has_ended: Callable[[str], bool]
) -> None:
    """Containers go with their logs. Raises Retry when something could not be removed; the rest is, all the same."""
    failures = []
    for pod in pods:
        if not has_ended(pod.uid) or any(each.state is State.RUNNING for each in pod.containers):
            continue
        for container in pod.containers:
            try:
                await runtime.remove_container(container.id)
                if logs is not None:
                    attempt = container.attempt
                    await logs.forget(pod.namespace, pod.name, pod.uid, container.name, attempt, container.id)
            except PykubeletError as error:
                failures.append(f"container {container.id}: {error}")
        for sandbox in pod.sandboxes:
            try:
                await runtime.remove_sandbox(sandbox.id)
            except PykubeletError as error:
                failures.append(f"sandbox {sandbox.id}: {error}")
    if failures:
        raise Retry("; ".join(failures))
