"""Who a pod and its containers run as, and what they may do."""

from pykubelet.api.struct import Int64, Struct, written


class SELinuxOptions(Struct, frozen=True):
    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class SeccompProfile(Struct, frozen=True):
    type: str = written(str)
    localhost_profile: str | None = None


class AppArmorProfile(Struct, frozen=True):
    type: str = written(str)
    localhost_profile: str | None = None


class Capabilities(Struct, frozen=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class WindowsSecurityContextOptions(Struct, frozen=True):
    gmsa_credential_spec_name: str | None = None
    gmsa_credential_spec: str | None = None
    run_as_user_name: str | None = None
    host_process: bool | None = None


class SecurityContext(Struct, frozen=True):
    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None


class Sysctl(Struct, frozen=True):
    name: str = written(str)
    value: str = written(str)


class PodSecurityContext(Struct, frozen=True):
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsSecurityContextOptions | None = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[Int64, ...] = ()
    supplemental_groups_policy: str | None = None
    fs_group: Int64 | None = None
    sysctls: tuple[Sysctl, ...] = ()
    fs_group_change_policy: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = None
