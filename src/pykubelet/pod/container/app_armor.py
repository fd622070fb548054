"""Which AppArmor profile a container asks for."""

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.well_known import APP_ARMOR_PREFIX
from pykubelet.api.security import AppArmorProfile


def app_armor_profile(pod: Pod, container: Container) -> AppArmorProfile | None:
    """The container's own word, then an annotation of old that names the container, then the pod's."""
    own, shared = container.security_context, pod.spec.security_context
    if own is not None and own.app_armor_profile is not None:
        return own.app_armor_profile
    match pod.metadata.annotations.get(f"{APP_ARMOR_PREFIX}{container.name}", ""):
        case "runtime/default":
            return AppArmorProfile(type="RuntimeDefault")
        case "unconfined":
            return AppArmorProfile(type="Unconfined")
        case named if named.startswith("localhost/"):
            return AppArmorProfile(type="Localhost", localhost_profile=named.removeprefix("localhost/"))
    return shared.app_armor_profile if shared is not None else None
