"""Which part of a pod an event is about, as tools look for it."""

from pykubelet.api.pod import Pod


def field_path(pod: Pod, name: str) -> str:
    """Of a container, such as `spec.containers{web}`; empty when the pod has none of that name."""
    spec = pod.spec
    for kind, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        if any(container.name == name for container in containers):
            return f"spec.{kind}{{{name}}}"
    return ""
