# ruff: noqa: ASYNC240 - tests may block
"""The CRI runtime on a real containerd: what pods ask for is what their programs find."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from kit.containerd import OWN_CGROUP, containerd_version
from kit.cri import cleared
from kit.cri_node import FOREVER, UID, CriNode
from kit.oci import make_image
from kit.ports import free_port
from pykubelet.api.container import Container, EphemeralContainer
from pykubelet.api.security import Capabilities, PodSecurityContext, SeccompProfile, SecurityContext, Sysctl
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.ports.runtime import (
    Limits,
    Mount,
    PortMapping,
)


def namespace_of(pid: int | str, kind: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{kind}")


# --- namespaces and names


async def test_a_pod_has_a_network_names_and_processes_of_its_own(node: CriNode) -> None:
    container_id = await node.start()
    for kind in ("net", "ipc", "uts", "pid", "mnt"):
        inside = (await node.ask(container_id, "readlink", f"/proc/self/ns/{kind}")).strip()
        assert inside != namespace_of("self", kind)
    assert (await node.ask(container_id, "hostname")).strip() == "web"


async def test_a_pod_may_share_the_hosts_namespaces(node: CriNode) -> None:
    sandbox = node.sandbox(host_network=True, host_pid=True, host_ipc=True)
    container_id = await node.start(sandbox=sandbox)
    for kind in ("net", "ipc", "pid"):
        assert (await node.ask(container_id, "readlink", f"/proc/self/ns/{kind}")).strip() == namespace_of("self", kind)
    seen_sandbox = (await node.runtime.observe(UID)).sandboxes[0]
    assert (seen_sandbox.host_network, seen_sandbox.ips) == (True, ())


async def test_containers_of_a_pod_share_its_network_but_see_their_own_processes(node: CriNode) -> None:
    sandbox = node.sandbox()
    sandbox_id = (await node.runtime.run_sandbox(sandbox)).id
    ids = [await node.add(sandbox_id, sandbox, FOREVER, name) for name in ("a", "b")]
    networks = {await node.ask(each, "readlink", "/proc/self/ns/net") for each in ids}
    processes = {await node.ask(each, "readlink", "/proc/self/ns/pid") for each in ids}
    assert (len(networks), len(processes)) == (1, 2)


async def test_containers_see_each_others_processes_when_the_pod_shares_them(node: CriNode) -> None:
    sandbox = node.sandbox(share_process_namespace=True)
    sandbox_id = (await node.runtime.run_sandbox(sandbox)).id
    ids = [await node.add(sandbox_id, sandbox, FOREVER, name) for name in ("a", "b")]
    assert len({await node.ask(each, "readlink", "/proc/self/ns/pid") for each in ids}) == 1


async def test_an_ephemeral_container_sees_the_processes_of_its_target(node: CriNode) -> None:
    sandbox = node.sandbox(ephemeral_containers=(EphemeralContainer(name="debug", target_container_name="c"),))
    sandbox_id = (await node.runtime.run_sandbox(sandbox)).id
    with pytest.raises(Retry, match="does not run"):
        await node.add(sandbox_id, sandbox, FOREVER, "debug")
    target = await node.add(sandbox_id, sandbox, FOREVER)
    debug = await node.add(sandbox_id, sandbox, FOREVER, "debug")
    assert len({await node.ask(each, "readlink", "/proc/self/ns/pid") for each in (target, debug)}) == 1


async def test_a_pod_that_asks_for_users_of_its_own_never_runs_as_the_hosts(node: CriNode) -> None:
    with pytest.raises(Invalid, match="hostUsers"):
        await node.runtime.run_sandbox(node.sandbox(host_users=False))


async def test_a_pods_own_root_is_nobody_outside_and_owns_its_volumes_all_the_same(
    node: CriNode, tmp_path: Path
) -> None:
    mapping = IdMapping(host_id=3 * 65536, container_id=0, length=65536)
    sandbox = node.sandbox(host_users=False, id_mappings=(mapping,))
    (tmp_path / "file").write_text("root's")
    mount = Mount(host_path=str(tmp_path), container_path="/volume")
    try:
        container_id = await node.start(sandbox=sandbox, mounts=(mount,))
    except Invalid as error:
        if "does not support user namespaces" not in str(error):
            raise
        pytest.skip(str(error))
    assert (await node.ask(container_id, "cat", "/proc/1/uid_map")).split() == ["0", "196608", "65536"]
    assert (await node.ask(container_id, "cat", "/proc/1/gid_map")).split() == ["0", "196608", "65536"]
    (pid,) = (await node.outside.pids(f"id=={container_id}")).values()
    assert os.stat(f"/proc/{pid}").st_uid == 196608
    assert (await node.ask(container_id, "stat", "-c", "%u:%g", "/volume/file", "/bin/sh")).split() == ["0:0", "0:0"]
    await node.ask(container_id, "touch", "/volume/made", "/made")
    made = os.stat(tmp_path / "made")
    assert (made.st_uid, made.st_gid) == (0, 0)


async def test_dns_sysctls_and_addresses_are_as_asked_for(node: CriNode) -> None:
    sysctls = PodSecurityContext(sysctls=(Sysctl(name="net.ipv4.ip_unprivileged_port_start", value="77"),))
    sandbox = node.sandbox(
        dns_servers=("10.9.8.7",), dns_searches=("svc.local",), dns_options=("ndots:5",), security_context=sysctls
    )
    container_id = await node.start(sandbox=sandbox)
    resolver = await node.ask(container_id, "cat", "/etc/resolv.conf")
    assert resolver.split("\n")[:3] == ["search svc.local", "nameserver 10.9.8.7", "options ndots:5"]
    assert await node.ask(container_id, "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start") == "77\n"
    (address,) = (await node.runtime.observe(UID)).sandboxes[0].ips
    assert address in await node.ask(container_id, "ip", "-4", "addr", "show", "eth0")


async def test_a_host_port_leads_into_the_pod(node: CriNode) -> None:
    port = free_port("")
    ports = (PortMapping(container_port=80, host_port=port), PortMapping(container_port=81, host_port=0))
    await node.start("echo hello | nc -l -p 80", sandbox=node.sandbox(ports=ports))
    gateway = str(next(node.containerd.subnet.hosts()))

    async def greeting() -> bytes:
        reader, writer = await asyncio.open_connection(gateway, port)
        said = await reader.read(5)
        writer.close()
        return said

    async with asyncio.timeout(10):
        while True:
            try:
                assert await greeting() == b"hello"
                return
            except ConnectionRefusedError:  # the program is about to listen
                await asyncio.sleep(0.05)


# --- who a container is and what it may do


async def test_users_and_groups_are_those_of_the_security_contexts(node: CriNode) -> None:
    shared = PodSecurityContext(run_as_user=1000, run_as_group=2000, fs_group=3000, supplemental_groups=(4000, 5000))
    container = Container(name="c", security_context=SecurityContext(run_as_user=1001))
    status = await node.status_of(await node.start(sandbox=node.sandbox(container, security_context=shared)))
    assert status["Uid"].split() == ["1001"] * 4
    assert status["Gid"].split() == ["2000"] * 4
    assert set(status["Groups"].split()) >= {"3000", "4000", "5000"}
    (found,) = (await node.runtime.observe(UID)).containers
    if containerd_version() >= (2,):
        assert found.user is not None
        assert found.user.linux is not None
        assert (found.user.linux.uid, found.user.linux.gid) == (1001, 2000)
        assert set(found.user.linux.supplemental_groups) >= {3000, 4000, 5000}


async def test_strictly_only_the_groups_that_the_pod_names(node: CriNode) -> None:
    if containerd_version() < (2,):
        pytest.skip("containerd heeds supplementalGroupsPolicy from 2.0 on")
    shared = PodSecurityContext(
        run_as_user=1234, run_as_group=2000, supplemental_groups=(4000,), supplemental_groups_policy="Strict"
    )
    status = await node.status_of(await node.start(sandbox=node.sandbox(security_context=shared)))
    assert set(status["Groups"].split()) == {"2000", "4000"}


async def test_a_group_alone_makes_it_root_in_that_group(node: CriNode) -> None:
    container = Container(name="c", security_context=SecurityContext(run_as_group=2000))
    status = await node.status_of(await node.start(sandbox=node.sandbox(container)))
    assert (status["Uid"].split()[0], status["Gid"].split()[0]) == ("0", "2000")


@pytest.mark.parametrize(("user", "uid"), [("app", "1234"), ("4321", "4321")])
async def test_an_image_names_its_user(node: CriNode, user: str, uid: str) -> None:
    name = f"pykubelet.test/user-{user}:1"
    node.containerd.load(make_image(name, node.containerd.layer, {"User": user}))
    image = await node.runtime.image(name)
    assert image is not None
    assert image.user == user
    status = await node.status_of(await node.start(image=name, image_id=image.id))
    assert status["Uid"].split()[0] == uid
    assert (await node.runtime.observe(UID)).containers[0].image == name


async def test_capabilities_are_dropped_and_added(node: CriNode) -> None:
    wanted = Capabilities(add=("NET_BIND_SERVICE",), drop=("ALL",))
    container = Container(name="c", security_context=SecurityContext(capabilities=wanted))
    status = await node.status_of(await node.start(sandbox=node.sandbox(container)))
    assert int(status["CapEff"], 16) == 1 << 10


@pytest.mark.parametrize(
    ("context", "key", "value"),
    [
        (SecurityContext(allow_privilege_escalation=False), "NoNewPrivs", "1"),
        (SecurityContext(), "NoNewPrivs", "0"),
        (SecurityContext(seccomp_profile=SeccompProfile(type="RuntimeDefault")), "Seccomp", "2"),
        (SecurityContext(seccomp_profile=SeccompProfile(type="Unconfined")), "Seccomp", "0"),
        (SecurityContext(), "Seccomp", "0"),
    ],
)
async def test_the_kernel_knows_what_is_forbidden(
    node: CriNode, context: SecurityContext, key: str, value: str
) -> None:
    container = Container(name="c", security_context=context)
    assert (await node.status_of(await node.start(sandbox=node.sandbox(container))))[key] == value


async def test_a_privileged_container_sees_the_hosts_devices_and_others_do_not(node: CriNode) -> None:
    privileged = Container(name="c", security_context=SecurityContext(privileged=True))
    sandbox = node.sandbox(privileged)
    sandbox_id = (await node.runtime.run_sandbox(sandbox)).id
    strong, weak = [await node.add(sandbox_id, sandbox, FOREVER, name) for name in ("c", "plain")]
    devices = [set((await node.ask(each, "ls", "/dev")).split()) for each in (strong, weak)]
    assert "kmsg" in devices[0] - devices[1]


async def test_a_read_only_root_cannot_be_written_to(node: CriNode) -> None:
    container = Container(name="c", security_context=SecurityContext(read_only_root_filesystem=True))
    assert (await node.run("touch /new 2>/dev/null || exit 7", sandbox=node.sandbox(container))).exit_code == 7


async def test_what_must_not_be_seen_or_changed_in_proc_is_masked(node: CriNode) -> None:
    plain = await node.start()
    assert (await node.ask(plain, "wc", "-c", "/proc/keys")).split()[0] == "0"
    writing = await node.runtime.exec_sync(plain, ("sh", "-c", "echo 1 > /proc/sys/kernel/panic"), 10.0)
    assert writing.exit_code != 0


# --- what a container is given


async def test_mounts_carry_files_and_heed_read_only(node: CriNode, tmp_path: Path) -> None:
    for name in ("open", "closed"):
        (tmp_path / name).mkdir()
    (tmp_path / "closed" / "greeting").write_text("hello")
    mounts = (
        Mount(host_path=str(tmp_path / "open"), container_path="/open"),
        Mount(host_path=str(tmp_path / "closed"), container_path="/closed", read_only=True),
    )
    done = await node.run("cp /closed/greeting /open/copy && ! touch /closed/new", mounts=mounts)
    assert done.exit_code == 0
    assert (tmp_path / "open" / "copy").read_text() == "hello"


async def test_what_is_mounted_below_a_recursively_read_only_mount_is_read_only_too(
    node: CriNode, tmp_path: Path
) -> None:
    if containerd_version() < (2,):
        pytest.skip("containerd knows recursive read-only mounts from 2.0 on")
    below = tmp_path / "below"
    below.mkdir()
    await asyncio.to_thread(_run, ["mount", "-t", "tmpfs", "none", below])
    try:
        plain = Mount(host_path=str(tmp_path), container_path="/plain", read_only=True)
        deep = changed(plain, container_path="/deep", recursive_read_only=True)
        container_id = await node.start(mounts=(plain, deep))
        await node.ask(container_id, "touch", "/plain/below/file")
        refused = await node.runtime.exec_sync(container_id, ("touch", "/deep/below/file"), 10.0)
        assert b"Read-only file system" in refused.stderr
    finally:
        await asyncio.to_thread(_run, ["umount", "--lazy", below])


async def test_a_mount_made_later_is_seen_inside_when_it_propagates(node: CriNode, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "inner").mkdir(parents=True)
    for command in (["mount", "--bind", shared, shared], ["mount", "--make-rshared", shared]):
        await asyncio.to_thread(_run, command)
    try:
        mount = Mount(host_path=str(shared), container_path="/shared", propagation="HostToContainer")
        container_id = await node.start(mounts=(mount,))
        await asyncio.to_thread(_run, ["mount", "-t", "tmpfs", "none", shared / "inner"])
        (shared / "inner" / "late").write_text("hello")
        assert await node.ask(container_id, "cat", "/shared/inner/late") == "hello"
    finally:
        await asyncio.to_thread(_run, ["umount", "--recursive", "--lazy", shared])


def _run(command: list[Any]) -> None:
    import subprocess

    subprocess.run(command, check=True, capture_output=True)


async def test_commands_arguments_environment_and_folder_arrive(node: CriNode) -> None:
    done = await node.run(
        "",
        command=("sh", "-c", 'pwd; echo "$0 $GREETING"'),
        args=("there",),
        env=(("GREETING", "hellö = $world"),),
        working_dir="/tmp",
    )
    assert done.exit_code == 0
    assert [line.split(" ", 3)[3] for line in node.log()] == ["/tmp", "there hellö = $world"]


async def test_limits_reach_the_kernel(node: CriNode) -> None:
    limits = Limits(cpu_shares=512, cpu_quota=20_000, memory=64 * 2**20, oom_score_adj=900)
    container_id = await node.start(limits=limits)
    (pid,) = (await node.outside.pids(f"id=={container_id}")).values()
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "900"
    if not Path("/sys/fs/cgroup/memory").exists():
        assert await node.ask(container_id, "cat", "/sys/fs/cgroup/memory.max") == f"{64 * 2**20}\n"
        return
    assert await node.ask(container_id, "cat", "/sys/fs/cgroup/memory/memory.limit_in_bytes") == f"{64 * 2**20}\n"
    assert await node.ask(container_id, "cat", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us") == "20000\n"
    assert await node.ask(container_id, "cat", "/sys/fs/cgroup/cpu/cpu.shares") == "512\n"


async def test_limits_of_a_running_container_change_in_the_kernel(node: CriNode) -> None:
    container_id = await node.start(limits=Limits(cpu_shares=512, cpu_quota=20_000, memory=64 * 2**20))

    async def held(*names: str) -> str:
        paths = " ".join(f"/sys/fs/cgroup/{name}" for name in names)
        return (await node.ask(container_id, "sh", "-c", f"cat {paths} 2>/dev/null || true")).strip()

    for memory in (128 * 2**20, 32 * 2**20):
        await node.runtime.update_container(container_id, Limits(memory=memory))
        assert await held("memory/memory.limit_in_bytes", "memory.max") == str(memory)
    await node.runtime.update_container(container_id, Limits(cpu_shares=1024, cpu_quota=50_000, cpuset_cpus="0"))
    assert await held("cpu/cpu.cfs_quota_us", "cpu.max") in ("50000", "50000 100000")
    assert await held("cpu/cpu.shares", "cpu.weight") in ("1024", "39")
    (pid,) = (await node.outside.pids(f"id=={container_id}")).values()
    assert os.sched_getaffinity(pid) == {0}
    assert await held("memory/memory.limit_in_bytes", "memory.max") == str(32 * 2**20)
    await node.runtime.update_container(container_id, Limits(cpu_quota=-1))
    assert await held("cpu/cpu.cfs_quota_us", "cpu.max") in ("-1", "max 100000")


async def test_containers_live_below_the_cgroup_that_their_pod_is_given(node: CriNode) -> None:
    parent = f"/{OWN_CGROUP}"
    container_id = await node.start(sandbox=node.sandbox(cgroup_parent=parent))
    (pid,) = (await node.outside.pids(f"id=={container_id}")).values()
    assert f"{parent}/{container_id}" in Path(f"/proc/{pid}/cgroup").read_text()
    await cleared(node.runtime)
    for folder in Path("/sys/fs/cgroup").glob(f"**{parent}"):
        folder.rmdir()
    await node.outside.restarted()
