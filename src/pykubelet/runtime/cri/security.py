"""Who a container runs as and what it may do, in the words of CRI, after upstream's rules."""

import posixpath
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.security import (
    AppArmorProfile,
    Capabilities,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.app_armor import app_armor_profile
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.runtime.cri._gen import cri_pb2 as cri

_MASKED: Final = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_READ_ONLY: Final = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


class SecurityDefaults(Struct, frozen=True, kw_only=True):
    """What this machine and its agent add to what pods say."""

    seccomp_root: str = "/var/lib/kubelet/seccomp"
    seccomp_default: bool = False
    """Containers that say nothing of seccomp get the runtime's profile instead of none."""
    thermal_paths: tuple[str, ...] = ()
    """One for each processor that tells its temperature: masked."""


def namespaces(pod: Pod, target_id: str = "", id_mappings: tuple[IdMapping, ...] = ()) -> cri.NamespaceOption:
    """`target_id`: the container whose processes another one shares."""
    spec = pod.spec
    options = cri.NamespaceOption(
        network=cri.NODE if spec.host_network else cri.POD,
        ipc=cri.NODE if spec.host_ipc else cri.POD,
        pid=cri.NODE if spec.host_pid else cri.POD if spec.share_process_namespace else cri.CONTAINER,
        userns_options=_users(pod, id_mappings),
    )
    if target_id and options.pid == cri.CONTAINER:
        options.pid = cri.TARGET
        options.target_id = target_id
    return options


def _users(pod: Pod, id_mappings: tuple[IdMapping, ...]) -> cri.UserNamespace:
    if pod.spec.host_users is not False:
        return cri.UserNamespace(mode=cri.NODE)
    if not id_mappings:  # to run it as the host's root all the same would be the opposite of what it asks for
        raise Invalid("can't set `spec.hostUsers: false`, this node does not support user namespaces")
    ids = [cri.IDMapping(host_id=m.host_id, container_id=m.container_id, length=m.length) for m in id_mappings]
    return cri.UserNamespace(mode=cri.POD, uids=ids, gids=ids)


def sandbox_security(pod: Pod, id_mappings: tuple[IdMapping, ...] = ()) -> cri.LinuxSandboxSecurityContext:
    shared = pod.spec.security_context or PodSecurityContext()
    everyone = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
    return cri.LinuxSandboxSecurityContext(
        privileged=any(each.security_context and each.security_context.privileged for each in everyone),
        seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault),
        run_as_user=_int64(shared.run_as_user),
        run_as_group=_int64(shared.run_as_group),
        namespace_options=namespaces(pod, id_mappings=id_mappings),
        supplemental_groups=_groups(shared),
        supplemental_groups_policy=_policy(shared),
        selinux_options=_se_linux(shared.se_linux_options),
    )


def container_security(
    pod: Pod,
    container: Container,
    image_user: str,
    defaults: SecurityDefaults,
    target_id: str = "",
    id_mappings: tuple[IdMapping, ...] = (),
) -> cri.LinuxContainerSecurityContext:
    """`image_user` is the user that the image names, as a number or by name; empty: none, which is root."""
    own, shared = container.security_context or SecurityContext(), pod.spec.security_context or PodSecurityContext()
    unmasked = own.proc_mount == "Unmasked"
    user = own.run_as_user if own.run_as_user is not None else shared.run_as_user
    username = ""
    if user is None:
        name = image_user.partition(":")[0]
        if name and not name.isdecimal():
            username = name
        else:
            user = int(name or 0)
    app_armor = app_armor_profile(pod, container)
    return cri.LinuxContainerSecurityContext(
        capabilities=_capabilities(own.capabilities),
        privileged=bool(own.privileged),
        namespace_options=namespaces(pod, target_id, id_mappings),
        selinux_options=_se_linux(own.se_linux_options or shared.se_linux_options),
        run_as_user=_int64(user),
        run_as_username=username,
        run_as_group=_int64(own.run_as_group if own.run_as_group is not None else shared.run_as_group),
        readonly_rootfs=bool(own.read_only_root_filesystem),
        supplemental_groups=_groups(shared),
        supplemental_groups_policy=_policy(shared),
        no_new_privs=own.allow_privilege_escalation is False,
        masked_paths=() if unmasked else (*_MASKED, *defaults.thermal_paths),
        readonly_paths=() if unmasked else _READ_ONLY,
        seccomp=_seccomp(own.seccomp_profile or shared.seccomp_profile, defaults),
        apparmor=_app_armor_profile(app_armor),
        apparmor_profile=_old_app_armor(app_armor),
    )


def _int64(value: int | None) -> cri.Int64Value | None:
    return None if value is None else cri.Int64Value(value=value)


def _groups(shared: PodSecurityContext) -> tuple[int, ...]:
    """The group that owns the volumes comes first."""
    return (*(() if shared.fs_group is None else (shared.fs_group,)), *shared.supplemental_groups)


def _policy(shared: PodSecurityContext) -> cri.SupplementalGroupsPolicy:
    match shared.supplemental_groups_policy:
        case None | "" | "Merge":
            return cri.Merge
        case "Strict":
            return cri.Strict
        case other:
            raise Invalid(f"unsupported supplementalGroupsPolicy: {other}")


def _se_linux(options: SELinuxOptions | None) -> cri.SELinuxOption | None:
    if options is None:
        return None
    return cri.SELinuxOption(user=options.user, role=options.role, type=options.type, level=options.level)


def _capabilities(wanted: Capabilities | None) -> cri.Capability | None:
    if wanted is None:
        return None
    return cri.Capability(add_capabilities=wanted.add, drop_capabilities=wanted.drop)


def _seccomp(profile: SeccompProfile | None, defaults: SecurityDefaults) -> cri.SecurityProfile:
    kinds = cri.SecurityProfile
    if profile is None:
        return kinds(profile_type=kinds.RuntimeDefault if defaults.seccomp_default else kinds.Unconfined)
    match profile.type:
        case "RuntimeDefault":
            return kinds(profile_type=kinds.RuntimeDefault)
        case "Localhost":
            if not profile.localhost_profile:
                raise Invalid("localhostProfile must be set if the seccomp profile's type is Localhost")
            path = posixpath.normpath(posixpath.join(defaults.seccomp_root, profile.localhost_profile.lstrip("/")))
            return kinds(profile_type=kinds.Localhost, localhost_ref=path)
        case _:
            return kinds(profile_type=kinds.Unconfined)


def _app_armor_profile(profile: AppArmorProfile | None) -> cri.SecurityProfile | None:
    kinds = cri.SecurityProfile
    if profile is None:
        return None
    match profile.type:
        case "RuntimeDefault":
            return kinds(profile_type=kinds.RuntimeDefault)
        case "Unconfined":
            return kinds(profile_type=kinds.Unconfined)
        case "Localhost":
            if profile.localhost_profile is None:
                raise Invalid("missing localhost apparmor profile name")
            return kinds(profile_type=kinds.Localhost, localhost_ref=profile.localhost_profile)
        case other:
            raise Invalid(f"unknown apparmor profile type: {other!r}")


def _old_app_armor(profile: AppArmorProfile | None) -> str:
    """The same for runtimes that know only the old field."""
    if profile is None:
        return ""
    if profile.type == "Localhost":
        return f"localhost/{profile.localhost_profile}"
    return "unconfined" if profile.type == "Unconfined" else "runtime/default"
