"""What security contexts can ask for and this runtime cannot give: refused with the field and a remedy, never run
without. Every field of both contexts is either in here or listed with what becomes of it."""

from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.security import PodSecurityContext, SELinuxOptions
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.app_armor import app_armor_profile
from pykubelet.runtime.process.abilities import Abilities
from pykubelet.runtime.process.security import container_of, context_of

_ELSEWHERE: Final = "leave it out, or run the pod on a node with a container runtime"

CONTAINER_FIELDS: Final = {
    "capabilities": "honoured by the bounding set and all others; refused where a process has none to be given",
    "privileged": "honoured: all capabilities and devices that the runtime itself has, and no filter",
    "se_linux_options": "refused where the kernel has SELinux; without it every runtime leaves them aside",
    "windows_options": "refused",
    "run_as_user": "honoured; without root by mapping, and without namespaces refused but for the runtime's own",
    "run_as_group": "honoured as run_as_user is",
    "run_as_non_root": "honoured",
    "read_only_root_filesystem": "honoured; refused where a container has no root of its own",
    "allow_privilege_escalation": "honoured",
    "proc_mount": "Default is honoured, anything else refused",
    "seccomp_profile": "honoured; refused where the kernel has no filters or the profile cannot be read",
    "app_armor_profile": "Unconfined is honoured, anything else refused",
}
POD_FIELDS: Final = {
    **{name: CONTAINER_FIELDS[name] for name in ("se_linux_options", "windows_options", "run_as_user", "run_as_group")},
    **{name: CONTAINER_FIELDS[name] for name in ("run_as_non_root", "seccomp_profile", "app_armor_profile")},
    "supplemental_groups": "honoured as root; else refused but for a group that the container is in already",
    "supplemental_groups_policy": "honoured as root; else Strict is refused where the runtime has groups to take along",
    "fs_group": "honoured as root; else refused but for a group that the container is in already",
    "sysctls": "refused",
    "fs_group_change_policy": "says only how much is looked at before ownership is changed: volumes are new here",
    "se_linux_change_policy": "says only how labels are changed, and is refused together with them",
}


def refuse_unhonoured(pod: Pod, name: str, abilities: Abilities) -> None:
    """Raises Invalid for what a container, or its pod for it, asks for in vain."""
    own, shared = context_of(pod, name), pod.spec.security_context or PodSecurityContext()
    labels = own.se_linux_options or shared.se_linux_options
    if abilities.se_linux and labels is not None and labels != SELinuxOptions():
        raise _refusal(name, "seLinuxOptions", "this runtime sets no SELinux labels")
    if own.windows_options is not None or shared.windows_options is not None:
        raise _refusal(name, "windowsOptions", "this is a Linux node")
    if own.proc_mount not in (None, "", "Default"):
        raise _refusal(name, f"procMount {own.proc_mount}", "parts of /proc stay hidden here")
    profile = app_armor_profile(pod, container_of(pod, name))
    if profile is not None and profile.type != "Unconfined":
        what = "this runtime applies no AppArmor profiles"
        raise _refusal(name, f"appArmorProfile {profile.type}", what)


def _refusal(name: str, field: str, what: str) -> Invalid:
    return Invalid(f"container {name}: {field} cannot be provided: {what}; {_ELSEWHERE}")
