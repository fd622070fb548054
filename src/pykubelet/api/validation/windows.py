"""What differs by operating system: Windows options, host processes, and fields that one system does not have."""

import re
from collections.abc import Iterator
from typing import Final

from pykubelet.api.field_errors import forbidden, invalid, required
from pykubelet.api.pod import PodSpec
from pykubelet.api.security import SecurityContext, WindowsSecurityContextOptions
from pykubelet.api.validation import names
from pykubelet.api.validation.options import Errors, PodValidationOptions, every_container
from pykubelet.api.validation.rules import one_of, spelled

_CREDENTIAL_SPEC_LENGTH: Final = 64 * 1024
_DOMAIN_LENGTH: Final = 256
_USER_LENGTH: Final = 104
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_PART = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS: Final = re.compile(rf"{_DNS_PART}(?:\.{_DNS_PART})*")
_NOT_IN_USER: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def validate_windows_options(options: WindowsSecurityContextOptions | None, path: str) -> Errors:
    if options is None:
        return
    name, credentials = options.gmsa_credential_spec_name, options.gmsa_credential_spec
    if name is not None:
        yield from spelled(f"{path}.gmsaCredentialSpecName", name, names.dns_subdomain(name))
    if credentials is not None and not 0 < names.size(credentials) <= _CREDENTIAL_SPEC_LENGTH:
        yield invalid(f"{path}.gmsaCredentialSpec", None, "must have at least 1 byte and at most 64 KiB")
    if options.run_as_user_name is not None:
        yield from spelled(f"{path}.runAsUserName", options.run_as_user_name, _user_faults(options.run_as_user_name))


def validate_host_process(spec: PodSpec, path: str, options: PodValidationOptions) -> Errors:
    """Host process containers have the host's network, and all containers of a pod are such or none is."""
    pod_wide = _host_process(spec.security_context.windows_options if spec.security_context else None)
    containers = host_process = 0
    for container, place in every_container(spec, path):
        context = container.security_context
        own = _host_process(context.windows_options if context else None)
        if own is not None and pod_wide is not None and own != pod_wide:
            field = f"{place}.securityContext.windowsOptions.hostProcess"
            yield invalid(field, own, f"must be the same as the pod's, which is {pod_wide}")
        containers += 1
        host_process += bool(pod_wide if own is None else own)
    if not host_process:
        return
    if host_process != containers:
        yield invalid(path, None, "must have hostProcess: true for all containers or for none")
    if not spec.host_network:
        yield invalid(f"{path}.hostNetwork", False, "must be true for host process containers")
    if not options.allow_privileged:
        yield forbidden(
            path, "must not have host process containers: this cluster does not allow privileged containers"
        )


def validate_os(spec: PodSpec, path: str) -> Errors:
    if spec.os is None:
        return
    if not spec.os.name:
        yield required(f"{path}.os.name", "must be linux or windows")
    elif spec.os.name == "linux":
        yield from _linux(spec, path)
    elif spec.os.name == "windows":
        yield from _windows(spec, path)
    else:
        yield from one_of(f"{path}.os", spec.os.name, ("linux", "windows"))


def _host_process(options: WindowsSecurityContextOptions | None) -> bool | None:
    return options.host_process if options else None


def _user_faults(name: str) -> names.Faults:
    domain, backslash, user = name.rpartition("\\")
    if not name:
        return ["must not be empty"]
    if _CONTROL.search(name):
        return ["must not contain control characters"]
    if "\\" in domain:
        return ["must have at most one backslash, between domain and user"]
    return [*_domain_faults(domain, bool(backslash)), *_plain_user_faults(user)]


def _domain_faults(domain: str, given: bool) -> Iterator[str]:
    if names.size(domain) >= _DOMAIN_LENGTH:
        yield f"must have a domain of less than {_DOMAIN_LENGTH} characters"
    if given and not _NETBIOS.fullmatch(domain) and not _DNS.fullmatch(domain):
        yield "must have a NetBIOS or DNS name before the backslash"


def _plain_user_faults(user: str) -> Iterator[str]:
    if not user:
        yield "must have a user after the backslash"
    elif names.size(user) > _USER_LENGTH:
        yield f"must have a user of at most {_USER_LENGTH} characters"
    if user and not user.strip(". "):
        yield "must have a user of more than dots and spaces"
    if _NOT_IN_USER.search(user):
        yield 'must have a user without any of " / \\ : ; | = , + * ? < > @ [ ]'


def _linux(spec: PodSpec, path: str) -> Errors:
    if spec.security_context and spec.security_context.windows_options:
        yield forbidden(f"{path}.securityContext.windowsOptions", "must not be set for a Linux pod")
    for container, place in every_container(spec, path):
        if container.security_context and container.security_context.windows_options:
            yield forbidden(f"{place}.securityContext.windowsOptions", "must not be set for a Linux pod")


def _windows(spec: PodSpec, path: str) -> Errors:
    for name, given in _linux_only_of_pod(spec).items():
        if given:
            yield forbidden(f"{path}.{name}", "must not be set for a Windows pod")
    for container, place in every_container(spec, path):
        for name in _linux_only_of_container(container.security_context):
            yield forbidden(f"{place}.securityContext.{name}", "must not be set for a Windows pod")


def _linux_only_of_pod(spec: PodSpec) -> dict[str, bool]:
    context = spec.security_context
    own = {"hostUsers": spec.host_users is not None, "hostPID": bool(spec.host_pid), "hostIPC": bool(spec.host_ipc)}
    shared = {"shareProcessNamespace": spec.share_process_namespace is not None}
    if context is None:
        return {**own, **shared}
    return {
        "securityContext.appArmorProfile": context.app_armor_profile is not None,
        "securityContext.seLinuxOptions": context.se_linux_options is not None,
        **own,
        "securityContext.seccompProfile": context.seccomp_profile is not None,
        "securityContext.fsGroup": context.fs_group is not None,
        "securityContext.fsGroupChangePolicy": context.fs_group_change_policy is not None,
        "securityContext.sysctls": bool(context.sysctls),
        **shared,
        "securityContext.runAsUser": context.run_as_user is not None,
        "securityContext.runAsGroup": context.run_as_group is not None,
        "securityContext.supplementalGroups": bool(context.supplemental_groups),
        "securityContext.supplementalGroupsPolicy": context.supplemental_groups_policy is not None,
        "securityContext.seLinuxChangePolicy": context.se_linux_change_policy is not None,
    }


def _linux_only_of_container(context: SecurityContext | None) -> list[str]:
    if context is None:
        return []
    fields = {
        "appArmorProfile": context.app_armor_profile,
        "seLinuxOptions": context.se_linux_options,
        "seccompProfile": context.seccomp_profile,
        "capabilities": context.capabilities,
        "readOnlyRootFilesystem": context.read_only_root_filesystem,
        "privileged": context.privileged,
        "allowPrivilegeEscalation": context.allow_privilege_escalation,
        "procMount": context.proc_mount,
        "runAsUser": context.run_as_user,
        "runAsGroup": context.run_as_group,
    }
    return [name for name, value in fields.items() if value is not None]
