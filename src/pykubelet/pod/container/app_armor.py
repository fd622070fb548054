"""Which AppArmor profile a container asks for, and whether this machine can give it."""

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.well_known import APP_ARMOR_PREFIX
from pykubelet.api.security import AppArmorProfile
from pykubelet.api.validation.options import every_container


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


def app_armor_fault(pod: Pod, *, has_app_armor: bool) -> str:
    """Why this machine cannot confine the pod as it asks; empty when it can, or need not."""
    if not has_app_armor:
        return "AppArmor is not enabled on the host" if _is_required(pod) else ""
    for container, _ in every_container(pod.spec, "spec"):
        profile = app_armor_profile(pod, container)
        if profile is not None and profile.type == "Localhost" and not (profile.localhost_profile or "").strip():
            return f"invalid empty AppArmor profile name of container {container.name}"
    return ""


def _is_required(pod: Pod) -> bool:
    """Whether anything asks for a profile, for a container that there is or not: who does wants to be confined."""
    contexts = (pod.spec.security_context, *(c.security_context for c, _ in every_container(pod.spec, "spec")))
    profiles = (context.app_armor_profile for context in contexts if context is not None)
    annotations = (v for key, v in pod.metadata.annotations.items() if key.startswith(APP_ARMOR_PREFIX))
    return any(each is not None and each.type != "Unconfined" for each in profiles) or any(
        value != "unconfined" for value in annotations
    )
