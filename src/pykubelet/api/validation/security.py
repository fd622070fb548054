"""Who containers run as and what confines them: users, privileges, seccomp, AppArmor, SELinux, sysctls."""

from collections.abc import Sequence
from typing import Final

from pykubelet.api.field_errors import duplicate, forbidden, invalid, required, too_long
from pykubelet.api.pod import PodSpec
from pykubelet.api.rules.sysctls import sysctl_namespace, with_dots
from pykubelet.api.security import AppArmorProfile, SeccompProfile, SecurityContext
from pykubelet.api.validation import names
from pykubelet.api.validation.options import Errors, Scope, every_container
from pykubelet.api.validation.rules import needed_one_of, one_of, relative_path, spelled
from pykubelet.api.validation.windows import validate_windows_options

_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")


def validate_security_context(context: SecurityContext | None, path: str, scope: Scope) -> Errors:
    if context is None:
        return
    if context.privileged and not scope.options.allow_privileged:
        yield forbidden(f"{path}.privileged", "must not be true: this cluster does not allow privileged containers")
    yield from _id(f"{path}.runAsUser", context.run_as_user)
    yield from _id(f"{path}.runAsGroup", context.run_as_group)
    if context.proc_mount is not None:
        yield from one_of(f"{path}.procMount", context.proc_mount, ("Default", "Unmasked"))
        if context.proc_mount == "Unmasked" and scope.host_users:
            yield invalid(f"{path}.procMount", context.proc_mount, "must not be Unmasked unless hostUsers is false")
    yield from _seccomp(context.seccomp_profile, f"{path}.seccompProfile")
    yield from _privilege_escalation(context, path)
    yield from validate_windows_options(context.windows_options, f"{path}.windowsOptions")
    yield from _app_armor(context.app_armor_profile, f"{path}.appArmorProfile")


def validate_pod_security_context(spec: PodSpec, path: str) -> Errors:
    context = spec.security_context
    if context is not None:
        yield from _id(f"{path}.fsGroup", context.fs_group)
        yield from _id(f"{path}.runAsUser", context.run_as_user)
        yield from _id(f"{path}.runAsGroup", context.run_as_group)
        for index, group in enumerate(context.supplemental_groups):
            yield from _id(f"{path}.supplementalGroups[{index}]", group)
    if spec.share_process_namespace and spec.host_pid:
        yield invalid(f"{path}.shareProcessNamespace", True, "must not be true beside hostPID: choose one")
    if context is None:
        return
    yield from _sysctls(spec, f"{path}.sysctls")
    yield from _choice(f"{path}.fsGroupChangePolicy", context.fs_group_change_policy, ("Always", "OnRootMismatch"))
    yield from _seccomp(context.seccomp_profile, f"{path}.seccompProfile")
    yield from validate_windows_options(context.windows_options, f"{path}.windowsOptions")
    yield from _app_armor(context.app_armor_profile, f"{path}.appArmorProfile")
    yield from _choice(f"{path}.supplementalGroupsPolicy", context.supplemental_groups_policy, ("Merge", "Strict"))
    yield from _choice(f"{path}.seLinuxChangePolicy", context.se_linux_change_policy, ("Recursive",))


def validate_host_users(spec: PodSpec, path: str) -> Errors:
    """A pod with users of its own shares no other namespace with the host, and no raw devices."""
    if spec.host_users is not False:
        return
    for name, value in (("hostNetwork", spec.host_network), ("HostPID", spec.host_pid), ("HostIPC", spec.host_ipc)):
        if value:
            yield forbidden(f"{path}.{name}", "must not be true when hostUsers is false")
    for container, place in every_container(spec, path):
        if container.volume_devices:
            yield forbidden(f"{place}.volumeDevices", "must be empty when hostUsers is false")


def _privilege_escalation(context: SecurityContext, path: str) -> Errors:
    if context.allow_privilege_escalation is not False:
        return
    if context.privileged:
        yield invalid(path, None, "must not have allowPrivilegeEscalation: false beside privileged: true")
    added: Sequence[str] = context.capabilities.add if context.capabilities else ()
    for capability in added:
        if capability == "CAP_SYS_ADMIN":
            yield invalid(path, None, "must not have allowPrivilegeEscalation: false and add CAP_SYS_ADMIN")


def _seccomp(profile: SeccompProfile | None, path: str) -> Errors:
    if profile is None:
        return
    yield from needed_one_of(f"{path}.type", profile.type, _PROFILE_TYPES)
    field = f"{path}.localhostProfile"
    if profile.type != "Localhost":
        if profile.localhost_profile is not None:
            yield invalid(field, profile.localhost_profile, "must not be set unless the type is Localhost")
    elif profile.localhost_profile is None:
        yield required(field, "is required when the type is Localhost")
    else:
        yield from relative_path(field, profile.localhost_profile)


def _app_armor(profile: AppArmorProfile | None, path: str) -> Errors:
    if profile is None:
        return
    field, name = f"{path}.localhostProfile", profile.localhost_profile
    if profile.type == "Localhost":
        if not name:
            yield required(field, "is required when the type is Localhost")
        elif name.strip(names.WHITESPACE) != name:
            yield invalid(field, name, "must not have spaces around it")
        if name and names.size(name) > 4095:
            yield too_long(field, 4095)
    elif profile.type in _PROFILE_TYPES:
        if name is not None:
            yield invalid(field, name, "must not be set unless the type is Localhost")
    else:
        yield from needed_one_of(f"{path}.type", profile.type, _PROFILE_TYPES)


def _sysctls(spec: PodSpec, path: str) -> Errors:
    seen: set[str] = set()
    for index, sysctl in enumerate(spec.security_context.sysctls if spec.security_context else ()):
        field = f"{path}[{index}].name"
        faults = names.sysctl(sysctl.name)
        if not sysctl.name:
            yield required(field)
        elif faults:
            yield from spelled(field, sysctl.name, faults)
        elif sysctl.name in seen:
            yield duplicate(field, sysctl.name)
        namespace = sysctl_namespace(with_dots(sysctl.name).partition("*")[0])
        if namespace == "Net" and spec.host_network:
            yield invalid(field, sysctl.name, "must not be set when hostNetwork is true: it would change the host")
        elif namespace == "IPC" and spec.host_ipc:
            yield invalid(field, sysctl.name, "must not be set when hostIPC is true: it would change the host")
        seen.add(sysctl.name)


def _id(field: str, value: int | None) -> Errors:
    if value is not None:
        yield from spelled(field, value, names.user_or_group_id(value))


def _choice(field: str, value: str | None, choices: tuple[str, ...]) -> Errors:
    if value is not None:
        yield from one_of(field, value, choices)
