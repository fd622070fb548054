"""One container as a runtime is asked for it: everything about it decided."""

from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.pod_kinds import shown_pod
from pykubelet.api.rules.resources import CPU, MEMORY, is_pod_level_resource
from pykubelet.api.security import PodSecurityContext, SecurityContext
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.cgroup import container_hugepages, quota_of, shares_of
from pykubelet.pod.container.env import Environment, expand_all
from pykubelet.pod.container.labels import container_annotations, container_labels
from pykubelet.pod.container.oom_score import oom_score_adj
from pykubelet.pod.container.swap import swap_limit
from pykubelet.pod.ports.devices import ContainerDevices
from pykubelet.pod.ports.runtime import ContainerConfig, Image, Limits, Mount

_LARGEST_USER: Final = 2**31 - 1
_NO_DEVICES: Final = ContainerDevices()


def container_config(
    pod: Pod,
    container: Container,
    attempt: int,
    *,
    image: Image,
    env: Environment,
    mounts: tuple[Mount, ...],
    memory_capacity: int,
    swap_capacity: int = 0,
    termination_log: str = "",
    cpu_cfs_quota: bool = True,
    devices: ContainerDevices = _NO_DEVICES,
) -> ContainerConfig:
    """`swap_capacity` is what pods may have of it together; `termination_log` the file on this machine that is mounted
    at the container's termination message path.

    Raises Invalid when the pod forbids to run as root and the image would.
    """
    check_user(pod, container, image)
    own = {name for name, _ in env}
    return ContainerConfig(
        name=container.name,
        attempt=attempt,
        image=container.image,
        image_id=image.id,
        command=expand_all(container.command, env),
        args=expand_all(container.args, env),
        working_dir=container.working_dir,
        env=(*((name, value) for name, value in devices.env.items() if name not in own), *env),
        mounts=(*devices.mounts, *mounts),
        devices=devices.devices,
        cdi_devices=devices.cdi_devices,
        limits=changed(
            container_limits(pod, container, memory_capacity, cpu_cfs_quota=cpu_cfs_quota),
            swap=swap_limit(pod, container, memory_capacity, swap_capacity),
        ),
        log_path=log_path(container.name, attempt),
        labels=container_labels(pod, container),
        annotations={**devices.annotations, **container_annotations(pod, container, attempt)},
        stdin=bool(container.stdin),
        stdin_once=bool(container.stdin_once),
        tty=bool(container.tty),
        stop_signal=(container.lifecycle.stop_signal if container.lifecycle else None) or "",
        termination_message_path=termination_log,
    )


def log_path(container_name: str, attempt: int) -> str:
    """Below the pod's log directory."""
    return f"{container_name}/{attempt}.log"


def container_limits(pod: Pod, container: Container, memory_capacity: int, *, cpu_cfs_quota: bool = True) -> Limits:
    """What the kernel is told, on a machine with `memory_capacity` bytes of memory."""
    cpu = _limit(pod, container, CPU)
    request = container.resources.requests.get(CPU, cpu)
    return Limits(
        cpu_shares=shares_of(request.milli),
        cpu_quota=quota_of(cpu.milli) if cpu and cpu_cfs_quota else None,
        memory=_limit(pod, container, MEMORY).value or None,
        hugepages=container_hugepages(pod, container),
        oom_score_adj=oom_score_adj(pod, container, memory_capacity),
    )


def _limit(pod: Pod, container: Container, name: str) -> Quantity:
    """A container without a limit of its own may use what its pod may use."""
    own = container.resources.limits.get(name, Quantity(0))
    whole = pod.spec.resources
    if own or whole is None or not any(map(is_pod_level_resource, (*whole.requests, *whole.limits))):
        return own
    return whole.limits.get(name, Quantity(0))


def check_user(pod: Pod, container: Container, image: Image) -> None:
    """Whoever says `runAsNonRoot` would rather not run than run as root, or as somebody who may be root."""
    own = container.security_context or SecurityContext()
    shared = pod.spec.security_context or PodSecurityContext()
    if not (shared.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root):
        return
    user = shared.run_as_user if own.run_as_user is None else own.run_as_user
    where = f'(pod: "{shown_pod(pod)}", container: {container.name})'
    if user is not None:
        if user == 0:
            raise Invalid(f"container's runAsUser breaks non-root policy {where}")
        return
    name = image.user.partition(":")[0] or "0"
    if not name.isdecimal():
        raise Invalid(
            f"container has runAsNonRoot and image has non-numeric user ({name}), "
            f"cannot verify user is non-root {where}"
        )
    if int(name) == 0:
        raise Invalid(f"container has runAsNonRoot and image will run as root {where}")
    if int(name) > _LARGEST_USER:
        raise Invalid(f"container has runAsNonRoot and image has an invalid user id ({name}) {where}")
