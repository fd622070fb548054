"""What is said to a CRI runtime, row by row."""

from typing import Any

import pytest

from pykubelet.api import quantity
from pykubelet.api.container import Container, EphemeralContainer, ResourceRequirements
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.security import (
    AppArmorProfile,
    Capabilities,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
    Sysctl,
)
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.ports.runtime import ContainerConfig, Limits, Mount, PortMapping, SandboxConfig
from pykubelet.runtime.cri import convert
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.convert import Kernel, Machine
from pykubelet.runtime.cri.security import SecurityDefaults, container_security, namespaces, sandbox_security

Profile = cri.SecurityProfile


def pod_of(*containers: Container, annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    meta = ObjectMeta(name="web", namespace="shop", uid="u-1", annotations=annotations or {})
    return Pod(metadata=meta, spec=PodSpec(containers=containers or (Container(name="c"),), **spec))


def security_of(
    own: SecurityContext | None = None,
    shared: PodSecurityContext | None = None,
    *,
    image_user: str = "",
    **fields: Any,
) -> cri.LinuxContainerSecurityContext:
    container = Container(name="c", security_context=own)
    defaults = fields.pop("defaults", SecurityDefaults(seccomp_root="/root/seccomp"))
    return container_security(pod_of(container, security_context=shared, **fields), container, image_user, defaults)


def container_of(config: ContainerConfig, **options: Any) -> cri.ContainerConfig:
    assert config.sandbox is not None
    return convert.container_config(config, convert.sandbox_config(config.sandbox), **options)


# --- sandboxes


def test_a_sandbox_carries_its_pods_name_and_all_that_it_was_given() -> None:
    config = SandboxConfig(
        pod=pod_of(),
        attempt=3,
        hostname="web",
        log_directory="/logs/shop_web_u-1",
        dns_servers=("10.0.0.10",),
        dns_searches=("svc",),
        dns_options=("ndots:5",),
        labels={"app": "web"},
        annotations={"note": "1"},
        cgroup_parent="/kubepods/burstable/podu-1",
    )
    made = convert.sandbox_config(config)
    assert made.metadata == cri.PodSandboxMetadata(name="web", uid="u-1", namespace="shop", attempt=3)
    assert (made.hostname, made.log_directory) == ("web", "/logs/shop_web_u-1")
    assert made.dns_config == cri.DNSConfig(servers=["10.0.0.10"], searches=["svc"], options=["ndots:5"])
    assert dict(made.labels) == {
        "app": "web",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.uid": "u-1",
    }
    assert dict(made.annotations) == {"note": "1"}
    assert made.linux.cgroup_parent == "/kubepods/burstable/podu-1"


def test_only_ports_of_the_host_are_mapped() -> None:
    ports = (
        PortMapping(container_port=80, host_port=8080, host_ip="127.0.0.1"),
        PortMapping(container_port=81, host_port=0),
        PortMapping(container_port=53, host_port=53, protocol="UDP"),
        PortMapping(container_port=99, host_port=99, protocol="SCTP"),
    )
    made = convert.sandbox_config(SandboxConfig(pod=pod_of(), ports=ports))
    assert list(made.port_mappings) == [
        cri.PortMapping(protocol=cri.TCP, container_port=80, host_port=8080, host_ip="127.0.0.1"),
        cri.PortMapping(protocol=cri.UDP, container_port=53, host_port=53),
        cri.PortMapping(protocol=cri.SCTP, container_port=99, host_port=99),
    ]


@pytest.mark.parametrize(
    ("spec", "network", "pid", "ipc"),
    [
        ({}, cri.POD, cri.CONTAINER, cri.POD),
        ({"host_network": True}, cri.NODE, cri.CONTAINER, cri.POD),
        ({"host_pid": True}, cri.POD, cri.NODE, cri.POD),
        ({"host_ipc": True}, cri.POD, cri.CONTAINER, cri.NODE),
        ({"share_process_namespace": True}, cri.POD, cri.POD, cri.POD),
        ({"share_process_namespace": True, "host_pid": True}, cri.POD, cri.NODE, cri.POD),
        ({"share_process_namespace": False, "host_users": True}, cri.POD, cri.CONTAINER, cri.POD),
    ],
)
def test_namespaces_follow_the_pod(spec: dict[str, Any], network: int, pid: int, ipc: int) -> None:
    made = namespaces(pod_of(**spec))
    assert (made.network, made.pid, made.ipc) == (network, pid, ipc)
    assert made.userns_options == cri.UserNamespace(mode=cri.NODE)


@pytest.mark.parametrize(
    ("spec", "pid", "target"),
    [({}, cri.TARGET, "id-1"), ({"share_process_namespace": True}, cri.POD, ""), ({"host_pid": True}, cri.NODE, "")],
)
def test_a_target_counts_only_where_processes_are_kept_apart(spec: dict[str, Any], pid: int, target: str) -> None:
    options = namespaces(pod_of(**spec), "id-1")
    assert (options.pid, options.target_id) == (pid, target)


def test_a_pod_that_asks_for_users_of_its_own_never_gets_the_hosts() -> None:
    with pytest.raises(Invalid, match="hostUsers: false"):
        namespaces(pod_of(host_users=False))


def test_users_of_its_own_are_told_for_the_sandbox_the_container_and_every_mount() -> None:
    mapping = IdMapping(host_id=131072, container_id=0, length=65536)
    told = cri.IDMapping(host_id=131072, container_id=0, length=65536)
    sandbox = SandboxConfig(pod=pod_of(host_users=False), id_mappings=(mapping,))
    wanted = cri.UserNamespace(mode=cri.POD, uids=[told], gids=[told])
    assert convert.sandbox_config(sandbox).linux.security_context.namespace_options.userns_options == wanted
    mounts = (Mount(host_path="/h", container_path="/c"), Mount(host_path="/i", container_path="/d"))
    made = container_of(ContainerConfig(name="c", mounts=mounts, sandbox=sandbox))
    assert made.linux.security_context.namespace_options.userns_options == wanted
    assert [(list(each.uidMappings), list(each.gidMappings)) for each in made.mounts] == [([told], [told])] * 2


def test_a_container_without_its_pod_has_the_users_of_the_sandbox_that_is_there() -> None:
    told = cri.IDMapping(host_id=131072, container_id=0, length=65536)
    users = cri.UserNamespace(mode=cri.POD, uids=[told], gids=[told])
    options = cri.NamespaceOption(pid=cri.CONTAINER, userns_options=users)
    status = cri.PodSandboxStatus(linux=cri.LinuxPodSandboxStatus(namespaces=cri.Namespace(options=options)))
    config = ContainerConfig(name="c", mounts=(Mount(host_path="/h", container_path="/c"),))
    made = convert.container_config(config, convert.found_sandbox_config(status))
    assert list(made.mounts[0].uidMappings) == [told]


def test_a_sandbox_is_as_privileged_as_its_strongest_container() -> None:
    strong = Container(name="s", security_context=SecurityContext(privileged=True))
    weak = Container(name="w", security_context=SecurityContext())
    assert not sandbox_security(pod_of(weak)).privileged
    assert sandbox_security(pod_of(weak, init_containers=(strong,))).privileged


def test_a_sandbox_runs_as_its_pod_says_with_the_runtimes_seccomp_profile() -> None:
    shared = PodSecurityContext(
        run_as_user=1,
        run_as_group=2,
        fs_group=3,
        supplemental_groups=(4, 5),
        supplemental_groups_policy="Strict",
        se_linux_options=SELinuxOptions(user="u", role="r", type="t", level="l"),
        seccomp_profile=SeccompProfile(type="Unconfined"),
        sysctls=(Sysctl(name="a.b", value="1"),),
    )
    made = convert.sandbox_config(SandboxConfig(pod=pod_of(security_context=shared))).linux
    assert dict(made.sysctls) == {"a.b": "1"}
    assert made.security_context == cri.LinuxSandboxSecurityContext(
        namespace_options=cri.NamespaceOption(pid=cri.CONTAINER, userns_options=cri.UserNamespace(mode=cri.NODE)),
        run_as_user=cri.Int64Value(value=1),
        run_as_group=cri.Int64Value(value=2),
        supplemental_groups=[3, 4, 5],
        supplemental_groups_policy=cri.Strict,
        selinux_options=cri.SELinuxOption(user="u", role="r", type="t", level="l"),
        seccomp=Profile(profile_type=Profile.RuntimeDefault),
    )


def test_a_sandbox_is_told_what_its_containers_need_together_and_what_it_needs_itself() -> None:
    def needs(cpu: str, memory: str) -> ResourceRequirements:
        amounts = {"cpu": quantity.parse(cpu), "memory": quantity.parse(memory)}
        return ResourceRequirements(requests=amounts, limits=amounts)

    pair = [Container(name=name, resources=needs("500m", "1Mi")) for name in ("a", "b")]
    overhead = {"cpu": quantity.parse("250m"), "memory": quantity.parse("3Mi")}
    made = convert.sandbox_config(SandboxConfig(pod=pod_of(*pair, overhead=overhead))).linux
    assert made.resources == cri.LinuxContainerResources(
        cpu_period=100_000, cpu_quota=100_000, cpu_shares=1024, memory_limit_in_bytes=2 * 2**20
    )
    assert made.overhead == cri.LinuxContainerResources(
        cpu_period=100_000, cpu_quota=25_000, cpu_shares=256, memory_limit_in_bytes=3 * 2**20
    )
    idle = convert.sandbox_config(SandboxConfig(pod=pod_of())).linux
    assert idle.resources == cri.LinuxContainerResources(cpu_period=100_000, cpu_shares=2)
    assert idle.overhead == cri.LinuxContainerResources()


# --- who a container is


@pytest.mark.parametrize(
    ("own", "shared", "image_user", "uid", "username"),
    [
        (None, None, "", 0, ""),
        (None, None, "1000", 1000, ""),
        (None, None, "1000:2000", 1000, ""),
        (None, None, "app", None, "app"),
        (None, 7, "app", 7, ""),
        (0, 7, "app", 0, ""),
        (8, 7, "", 8, ""),
    ],
)
def test_the_container_decides_its_user_then_the_pod_then_the_image(
    own: int | None, shared: int | None, image_user: str, uid: int | None, username: str
) -> None:
    made = security_of(SecurityContext(run_as_user=own), PodSecurityContext(run_as_user=shared), image_user=image_user)
    assert (made.run_as_user.value if made.HasField("run_as_user") else None, made.run_as_username) == (uid, username)


def test_groups_come_from_both_contexts() -> None:
    shared = PodSecurityContext(run_as_group=5, fs_group=6, supplemental_groups=(7,))
    made = security_of(SecurityContext(run_as_group=9), shared)
    assert (made.run_as_group.value, list(made.supplemental_groups)) == (9, [6, 7])
    assert security_of(None, shared).run_as_group.value == 5
    assert not security_of().HasField("run_as_group")


def test_an_unknown_policy_for_groups_is_refused() -> None:
    with pytest.raises(Invalid, match="Loose"):
        security_of(None, PodSecurityContext(supplemental_groups_policy="Loose"))


@pytest.mark.parametrize(("allowed", "no_new"), [(None, False), (True, False), (False, True)])
def test_only_an_explicit_no_forbids_new_privileges(allowed: bool | None, no_new: bool) -> None:
    assert security_of(SecurityContext(allow_privilege_escalation=allowed)).no_new_privs is no_new


def test_capabilities_and_switches_are_passed_on() -> None:
    own = SecurityContext(
        capabilities=Capabilities(add=("NET_ADMIN",), drop=("ALL",)), privileged=True, read_only_root_filesystem=True
    )
    made = security_of(own)
    assert made.capabilities == cri.Capability(add_capabilities=["NET_ADMIN"], drop_capabilities=["ALL"])
    assert (made.privileged, made.readonly_rootfs) == (True, True)
    assert not security_of().HasField("capabilities")


def test_proc_is_masked_unless_the_container_says_unmasked() -> None:
    defaults = SecurityDefaults(thermal_paths=("/sys/cpu0/thermal_throttle",))
    made = security_of(defaults=defaults)
    assert made.masked_paths[0] == "/proc/asound"
    assert made.masked_paths[-1] == "/sys/cpu0/thermal_throttle"
    assert "/proc/sys" in made.readonly_paths
    bare = security_of(SecurityContext(proc_mount="Unmasked"), defaults=defaults)
    assert (list(bare.masked_paths), list(bare.readonly_paths)) == ([], [])
    assert security_of(SecurityContext(proc_mount="Default"), defaults=defaults).masked_paths == made.masked_paths


@pytest.mark.parametrize(
    ("own", "shared", "default", "wanted"),
    [
        (None, None, False, Profile(profile_type=Profile.Unconfined)),
        (None, None, True, Profile(profile_type=Profile.RuntimeDefault)),
        (None, "RuntimeDefault", False, Profile(profile_type=Profile.RuntimeDefault)),
        ("Unconfined", "RuntimeDefault", True, Profile(profile_type=Profile.Unconfined)),
        ("Localhost", None, False, Profile(profile_type=Profile.Localhost, localhost_ref="/root/seccomp/a/b.json")),
    ],
)
def test_seccomp_profiles(own: str | None, shared: str | None, default: bool, wanted: cri.SecurityProfile) -> None:
    def profile(kind: str | None) -> SeccompProfile | None:
        if kind is None:
            return None
        return SeccompProfile(type=kind, localhost_profile="a/b.json" if kind == "Localhost" else None)

    made = security_of(
        SecurityContext(seccomp_profile=profile(own)),
        PodSecurityContext(seccomp_profile=profile(shared)),
        defaults=SecurityDefaults(seccomp_root="/root/seccomp", seccomp_default=default),
    )
    assert made.seccomp == wanted


def test_a_local_seccomp_profile_needs_a_name() -> None:
    with pytest.raises(Invalid, match="localhostProfile"):
        security_of(SecurityContext(seccomp_profile=SeccompProfile(type="Localhost")))


@pytest.mark.parametrize(
    ("own", "annotation", "wanted", "old"),
    [
        (None, "", None, ""),
        (AppArmorProfile(type="RuntimeDefault"), "", Profile(profile_type=Profile.RuntimeDefault), "runtime/default"),
        (AppArmorProfile(type="Unconfined"), "", Profile(profile_type=Profile.Unconfined), "unconfined"),
        (
            AppArmorProfile(type="Localhost", localhost_profile="mine"),
            "unconfined",
            Profile(profile_type=Profile.Localhost, localhost_ref="mine"),
            "localhost/mine",
        ),
        (None, "localhost/old", Profile(profile_type=Profile.Localhost, localhost_ref="old"), "localhost/old"),
        (None, "unconfined", Profile(profile_type=Profile.Unconfined), "unconfined"),
    ],
)
def test_app_armor_profiles(
    own: AppArmorProfile | None, annotation: str, wanted: cri.SecurityProfile | None, old: str
) -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/c": annotation} if annotation else {}
    made = security_of(SecurityContext(app_armor_profile=own), annotations=annotations)
    assert (made.apparmor if made.HasField("apparmor") else None, made.apparmor_profile) == (wanted, old)


def test_an_app_armor_annotation_names_its_container_and_so_counts_more_than_the_pod() -> None:
    shared = PodSecurityContext(app_armor_profile=AppArmorProfile(type="RuntimeDefault"))
    annotations = {"container.apparmor.security.beta.kubernetes.io/c": "localhost/old"}
    assert security_of(None, shared, annotations=annotations).apparmor_profile == "localhost/old"
    others = {"container.apparmor.security.beta.kubernetes.io/other": "localhost/old"}
    assert security_of(None, shared, annotations=others).apparmor_profile == "runtime/default"
    nonsense = {"container.apparmor.security.beta.kubernetes.io/c": "what"}
    assert security_of(None, shared, annotations=nonsense).apparmor_profile == "runtime/default"


def test_se_linux_options_of_the_container_come_first() -> None:
    shared = PodSecurityContext(se_linux_options=SELinuxOptions(level="shared"))
    assert (
        security_of(SecurityContext(se_linux_options=SELinuxOptions(level="own")), shared).selinux_options.level
        == "own"
    )
    assert security_of(None, shared).selinux_options.level == "shared"


# --- containers


def test_a_container_carries_what_it_was_given() -> None:
    config = ContainerConfig(
        name="c",
        attempt=2,
        image="nginx:1",
        image_id="sha256:abc",
        command=("a",),
        args=("b",),
        working_dir="/w",
        env=(("K", "v"),),
        log_path="c/2.log",
        labels={"io.kubernetes.container.name": "c"},
        annotations={"io.kubernetes.container.hash": "h"},
        stdin=True,
        stdin_once=True,
        tty=True,
        sandbox=SandboxConfig(pod=pod_of()),
    )
    made = container_of(config)
    assert made.metadata == cri.ContainerMetadata(name="c", attempt=2)
    assert made.image == cri.ImageSpec(image="sha256:abc", user_specified_image="nginx:1")
    assert (list(made.command), list(made.args), made.working_dir) == (["a"], ["b"], "/w")
    assert list(made.envs) == [cri.KeyValue(key="K", value=b"v")]
    assert (made.log_path, made.stdin, made.stdin_once, made.tty) == ("c/2.log", True, True, True)
    assert dict(made.labels) == {
        "io.kubernetes.container.name": "c",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.uid": "u-1",
    }
    assert dict(made.annotations) == {"io.kubernetes.container.hash": "h"}


@pytest.mark.parametrize(
    ("propagation", "wanted"),
    [
        ("None", cri.PROPAGATION_PRIVATE),
        ("HostToContainer", cri.PROPAGATION_HOST_TO_CONTAINER),
        ("Bidirectional", cri.PROPAGATION_BIDIRECTIONAL),
    ],
)
def test_mounts(propagation: str, wanted: cri.MountPropagation) -> None:
    mount = Mount(
        host_path="/h", container_path="/c", read_only=True, recursive_read_only=True, propagation=propagation
    )
    made = container_of(ContainerConfig(name="c", mounts=(mount,), sandbox=SandboxConfig(pod=pod_of())))
    assert list(made.mounts) == [
        cri.Mount(host_path="/h", container_path="/c", readonly=True, recursive_read_only=True, propagation=wanted)
    ]


def test_an_image_is_mounted_by_its_id() -> None:
    mount = Mount(image="r/m:1", image_id="sha256:1", sub_path="w", container_path="/m", read_only=True)
    made = container_of(ContainerConfig(name="c", mounts=(mount,), sandbox=SandboxConfig(pod=pod_of())))
    image = cri.ImageSpec(image="sha256:1", user_specified_image="r/m:1")
    assert list(made.mounts) == [cri.Mount(image=image, image_sub_path="w", container_path="/m", readonly=True)]


@pytest.mark.parametrize(
    ("kernel", "swap", "unified"),
    [
        (Kernel(), 0, {}),
        (Kernel(swap=True), 100, {}),
        (Kernel(unified=True), 0, {"memory.oom.group": "1"}),
        (Kernel(unified=True, swap=True), 0, {"memory.oom.group": "1", "memory.swap.max": "0"}),
    ],
)
def test_limits_are_told_as_the_kernel_wants_them(kernel: Kernel, swap: int, unified: dict[str, str]) -> None:
    limits = Limits(cpu_shares=512, cpu_quota=50_000, memory=100, oom_score_adj=-997)
    made = convert.linux_resources(limits, pod_of(), Container(name="c"), kernel)
    assert (made.cpu_shares, made.cpu_quota, made.cpu_period) == (512, 50_000, 100_000)
    assert (made.memory_limit_in_bytes, made.oom_score_adj) == (100, -997)
    assert (made.memory_swap_limit_in_bytes, dict(made.unified)) == (swap, unified)


def test_a_container_is_told_what_it_gets_of_the_swap() -> None:
    pod, kernel = Pod(), Kernel(unified=True, swap=True)
    for limits, told in ((Limits(swap=50), "50"), (Limits(swap=0), "0"), (Limits(), "0")):
        assert convert.linux_resources(limits, pod, Container(), kernel).unified["memory.swap.max"] == told
    assert (
        "memory.swap.max"
        not in convert.linux_resources(Limits(swap=50), pod, Container(), Kernel(unified=True)).unified
    )


@pytest.mark.parametrize(
    ("period", "given", "quota"),
    [
        (100_000, 50_000, 50_000),
        (10_000, 50_000, 5_000),
        (1_000_000, 50_000, 500_000),
        (10_000, 1_000, 1_000),  # the kernel takes no less
        (100_000, None, 0),
        (10_000, None, 0),
        (0, 50_000, 0),
    ],
)
def test_a_quota_is_for_the_nodes_period_and_none_where_quotas_are_off(
    period: int, given: int | None, quota: int
) -> None:
    kernel = Kernel(cpu_period=period)
    made = convert.linux_resources(Limits(cpu_quota=given), pod_of(), Container(name="c"), kernel)
    assert (made.cpu_quota, made.cpu_period) == (quota, period)
    sandbox = convert.sandbox_config(SandboxConfig(pod=pod_of()), kernel)
    assert (sandbox.linux.resources.cpu_quota, sandbox.linux.resources.cpu_period) == (0, period)


def test_one_process_of_a_container_may_be_killed_alone_where_the_node_wants_so() -> None:
    kernel = Kernel(unified=True, single_process_oom_kill=True)
    assert not convert.linux_resources(Limits(), pod_of(), Container(name="c"), kernel).unified
    assert not convert.sandbox_config(SandboxConfig(pod=pod_of()), kernel).linux.resources.unified
    told = convert.sandbox_config(SandboxConfig(pod=pod_of()), Kernel(unified=True)).linux.resources
    assert dict(told.unified) == {"memory.oom.group": "1"}


def test_huge_pages_are_none_unless_asked_for() -> None:
    asked = ResourceRequirements(limits={"hugepages-2Mi": quantity.parse("4Mi")})
    container = Container(name="c", resources=asked)
    made = convert.linux_resources(Limits(), pod_of(), container, Kernel(huge_pages=("2MB", "1GB")))
    assert {each.page_size: each.limit for each in made.hugepage_limits} == {"2MB": 4 * 2**20, "1GB": 0}


def test_an_ephemeral_container_names_its_target() -> None:
    debug = EphemeralContainer(name="debug", target_container_name="c")
    sandbox = SandboxConfig(pod=pod_of(ephemeral_containers=(debug,)))
    assert convert.target_of(ContainerConfig(name="debug", sandbox=sandbox)) == "c"
    assert convert.target_of(ContainerConfig(name="c", sandbox=sandbox)) == ""
    made = container_of(ContainerConfig(name="debug", sandbox=sandbox), target_id="id-1", machine=Machine())
    assert made.linux.security_context.namespace_options.target_id == "id-1"


def test_a_container_without_its_pod_takes_the_namespaces_and_marks_of_the_sandbox_that_is_there() -> None:
    status = cri.PodSandboxStatus(
        metadata=cri.PodSandboxMetadata(name="web", uid="u-1", namespace="shop", attempt=1),
        labels={"io.kubernetes.pod.uid": "u-1"},
        linux=cri.LinuxPodSandboxStatus(
            namespaces=cri.Namespace(options=cri.NamespaceOption(network=cri.NODE, pid=cri.POD))
        ),
    )
    sandbox = convert.found_sandbox_config(status)
    made = convert.container_config(ContainerConfig(name="c", image="x"), sandbox)
    assert sandbox.metadata == status.metadata
    assert made.labels["io.kubernetes.pod.uid"] == "u-1"
    assert made.linux.security_context.namespace_options == status.linux.namespaces.options


def test_an_update_says_only_what_changes() -> None:
    """A period or a swap limit by itself would be a change, too."""
    pinned = convert.updated_resources(Limits(cpuset_cpus="0-1", cpuset_mems="0"), Kernel(swap=True))
    assert pinned == cri.LinuxContainerResources(cpuset_cpus="0-1", cpuset_mems="0")
    grown = convert.updated_resources(Limits(cpu_shares=512, cpu_quota=50_000, memory=100), Kernel(swap=True))
    assert grown == cri.LinuxContainerResources(
        cpu_shares=512,
        cpu_quota=50_000,
        cpu_period=100_000,
        memory_limit_in_bytes=100,
        memory_swap_limit_in_bytes=100,
    )
    for kernel in (Kernel(), Kernel(cpu_period=10_000)):
        assert convert.updated_resources(Limits(cpu_quota=-1), kernel).cpu_quota == -1
    assert not convert.updated_resources(Limits(memory=100), Kernel(swap=True, unified=True)).memory_swap_limit_in_bytes


def test_a_container_is_made_on_its_processors() -> None:
    made = convert.linux_resources(Limits(cpuset_cpus="3", cpuset_mems="1"), pod_of(), Container(name="c"), Kernel())
    assert (made.cpuset_cpus, made.cpuset_mems) == ("3", "1")
