# ruff: noqa: ASYNC240 - tests may block
"""The CRI runtime on a real containerd: what pods ask for is what their programs find."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from contract.runtime import ended, seen, until
from contract.runtime import sandbox_config as other_sandbox
from kit.containerd import Containerd, containerd_version
from kit.cri import CriOutside, cleared
from kit.oci import make_image
from kit.registry import PASSWORD, USER, loopback_registry
from kit.waiting import eventually
from pykubelet.api.container import Container, EphemeralContainer
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.security import Capabilities, PodSecurityContext, SeccompProfile, SecurityContext, Sysctl
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.pod.container.labels import container_annotations, container_labels
from pykubelet.pod.container.sandbox_config import sandbox_config
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.observed import ObservedContainer, State
from pykubelet.pod.ports.runtime import (
    ContainerConfig,
    Limits,
    Mount,
    PortMapping,
    PullCredentials,
    Runtime,
    SandboxConfig,
)

UID = "uid-web"
FOREVER = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"


class Node:
    """A runtime on a containerd, and pods on it in one line each."""

    def __init__(self, containerd: Containerd, logs: Path) -> None:
        self.outside = CriOutside(containerd)
        self.containerd = containerd
        self.logs = logs

    @property
    def runtime(self) -> Runtime:
        return self.outside.runtime

    def sandbox(self, container: Container | None = None, **fields: Any) -> SandboxConfig:
        """Fields of the sandbox, else of the pod's spec."""
        own = {key: fields.pop(key) for key in (*fields,) if key in SandboxConfig.__struct_fields__}
        spec = PodSpec(containers=(container or Container(name="c", image="busybox:1.36"),), **fields)
        pod = Pod(metadata=ObjectMeta(name="web", namespace="default", uid=UID), spec=spec)
        return changed(sandbox_config(pod, 0, log_root=str(self.logs)), **own)

    async def add(self, sandbox_id: str, sandbox: SandboxConfig, script: str, name: str = "c", **fields: Any) -> str:
        """One more container, running. -> its id"""
        pod = sandbox.pod
        container = next((c for c in pod.spec.containers if c.name == name), Container(name=name))
        values: dict[str, Any] = {
            "image": "busybox:1.36",
            "command": ("sh", "-c", script),
            "labels": container_labels(pod, container),
            "annotations": container_annotations(pod, container, 0),
            "log_path": f"{name}/0.log",
            **fields,
        }
        config = ContainerConfig(name=name, sandbox=sandbox, **values)
        container_id = await self.runtime.create_container(sandbox_id, config)
        await self.runtime.start_container(container_id)
        return container_id

    async def start(self, script: str = FOREVER, *, sandbox: SandboxConfig | None = None, **fields: Any) -> str:
        sandbox = sandbox or self.sandbox()
        return await self.add(await self.runtime.run_sandbox(sandbox), sandbox, script, **fields)

    async def run(self, script: str, **fields: Any) -> ObservedContainer:
        return await ended(self.runtime, UID, await self.start(script, **fields))

    async def ask(self, container_id: str, *command: str) -> str:
        result = await self.runtime.exec_sync(container_id, command, 10.0)
        assert result.exit_code == 0, result
        return result.stdout.decode()

    async def status_of(self, container_id: str) -> dict[str, str]:
        """What the kernel says of its first process."""
        lines = (await self.ask(container_id, "cat", "/proc/1/status")).splitlines()
        return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}

    def log(self, name: str = "c") -> list[str]:
        return (self.logs / f"default_web_{UID}" / name / "0.log").read_text().splitlines()


@pytest.fixture
async def node(containerd: Containerd, tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(containerd, tmp_path / "logs")
    yield node
    await cleared(node.runtime)


def namespace_of(pid: int | str, kind: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{kind}")


# --- namespaces and names


async def test_a_pod_has_a_network_names_and_processes_of_its_own(node: Node) -> None:
    container_id = await node.start()
    for kind in ("net", "ipc", "uts", "pid", "mnt"):
        inside = (await node.ask(container_id, "readlink", f"/proc/self/ns/{kind}")).strip()
        assert inside != namespace_of("self", kind)
    assert (await node.ask(container_id, "hostname")).strip() == "web"


async def test_a_pod_may_share_the_hosts_namespaces(node: Node) -> None:
    sandbox = node.sandbox(host_network=True, host_pid=True, host_ipc=True)
    container_id = await node.start(sandbox=sandbox)
    for kind in ("net", "ipc", "pid"):
        assert (await node.ask(container_id, "readlink", f"/proc/self/ns/{kind}")).strip() == namespace_of("self", kind)
    seen_sandbox = (await node.runtime.observe(UID)).sandboxes[0]
    assert (seen_sandbox.host_network, seen_sandbox.ips) == (True, ())


async def test_containers_of_a_pod_share_its_network_but_see_their_own_processes(node: Node) -> None:
    sandbox = node.sandbox()
    sandbox_id = await node.runtime.run_sandbox(sandbox)
    ids = [await node.add(sandbox_id, sandbox, FOREVER, name) for name in ("a", "b")]
    networks = {await node.ask(each, "readlink", "/proc/self/ns/net") for each in ids}
    processes = {await node.ask(each, "readlink", "/proc/self/ns/pid") for each in ids}
    assert (len(networks), len(processes)) == (1, 2)


async def test_containers_see_each_others_processes_when_the_pod_shares_them(node: Node) -> None:
    sandbox = node.sandbox(share_process_namespace=True)
    sandbox_id = await node.runtime.run_sandbox(sandbox)
    ids = [await node.add(sandbox_id, sandbox, FOREVER, name) for name in ("a", "b")]
    assert len({await node.ask(each, "readlink", "/proc/self/ns/pid") for each in ids}) == 1


async def test_an_ephemeral_container_sees_the_processes_of_its_target(node: Node) -> None:
    sandbox = node.sandbox(ephemeral_containers=(EphemeralContainer(name="debug", target_container_name="c"),))
    sandbox_id = await node.runtime.run_sandbox(sandbox)
    with pytest.raises(Retry, match="does not run"):
        await node.add(sandbox_id, sandbox, FOREVER, "debug")
    target = await node.add(sandbox_id, sandbox, FOREVER)
    debug = await node.add(sandbox_id, sandbox, FOREVER, "debug")
    assert len({await node.ask(each, "readlink", "/proc/self/ns/pid") for each in (target, debug)}) == 1


async def test_a_pod_that_asks_for_users_of_its_own_never_runs_as_the_hosts(node: Node) -> None:
    with pytest.raises(Invalid, match="hostUsers"):
        await node.runtime.run_sandbox(node.sandbox(host_users=False))


async def test_a_pods_own_root_is_nobody_outside_and_owns_its_volumes_all_the_same(node: Node, tmp_path: Path) -> None:
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


async def test_dns_sysctls_and_addresses_are_as_asked_for(node: Node) -> None:
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


async def test_a_host_port_leads_into_the_pod(node: Node) -> None:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
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


async def test_users_and_groups_are_those_of_the_security_contexts(node: Node) -> None:
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


async def test_strictly_only_the_groups_that_the_pod_names(node: Node) -> None:
    if containerd_version() < (2,):
        pytest.skip("containerd heeds supplementalGroupsPolicy from 2.0 on")
    shared = PodSecurityContext(
        run_as_user=1234, run_as_group=2000, supplemental_groups=(4000,), supplemental_groups_policy="Strict"
    )
    status = await node.status_of(await node.start(sandbox=node.sandbox(security_context=shared)))
    assert set(status["Groups"].split()) == {"2000", "4000"}


async def test_a_group_alone_makes_it_root_in_that_group(node: Node) -> None:
    container = Container(name="c", security_context=SecurityContext(run_as_group=2000))
    status = await node.status_of(await node.start(sandbox=node.sandbox(container)))
    assert (status["Uid"].split()[0], status["Gid"].split()[0]) == ("0", "2000")


@pytest.mark.parametrize(("user", "uid"), [("app", "1234"), ("4321", "4321")])
async def test_an_image_names_its_user(node: Node, user: str, uid: str) -> None:
    name = f"pykubelet.test/user-{user}:1"
    node.containerd.load(make_image(name, node.containerd.layer, {"User": user}))
    image = await node.runtime.image(name)
    assert image is not None
    assert image.user == user
    status = await node.status_of(await node.start(image=name, image_id=image.id))
    assert status["Uid"].split()[0] == uid
    assert (await node.runtime.observe(UID)).containers[0].image == name


async def test_capabilities_are_dropped_and_added(node: Node) -> None:
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
async def test_the_kernel_knows_what_is_forbidden(node: Node, context: SecurityContext, key: str, value: str) -> None:
    container = Container(name="c", security_context=context)
    assert (await node.status_of(await node.start(sandbox=node.sandbox(container))))[key] == value


async def test_a_privileged_container_sees_the_hosts_devices_and_others_do_not(node: Node) -> None:
    privileged = Container(name="c", security_context=SecurityContext(privileged=True))
    sandbox = node.sandbox(privileged)
    sandbox_id = await node.runtime.run_sandbox(sandbox)
    strong, weak = [await node.add(sandbox_id, sandbox, FOREVER, name) for name in ("c", "plain")]
    devices = [set((await node.ask(each, "ls", "/dev")).split()) for each in (strong, weak)]
    assert "kmsg" in devices[0] - devices[1]


async def test_a_read_only_root_cannot_be_written_to(node: Node) -> None:
    container = Container(name="c", security_context=SecurityContext(read_only_root_filesystem=True))
    assert (await node.run("touch /new 2>/dev/null || exit 7", sandbox=node.sandbox(container))).exit_code == 7


async def test_what_must_not_be_seen_or_changed_in_proc_is_masked(node: Node) -> None:
    plain = await node.start()
    assert (await node.ask(plain, "wc", "-c", "/proc/keys")).split()[0] == "0"
    writing = await node.runtime.exec_sync(plain, ("sh", "-c", "echo 1 > /proc/sys/kernel/panic"), 10.0)
    assert writing.exit_code != 0


# --- what a container is given


async def test_mounts_carry_files_and_heed_read_only(node: Node, tmp_path: Path) -> None:
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


async def test_what_is_mounted_below_a_recursively_read_only_mount_is_read_only_too(node: Node, tmp_path: Path) -> None:
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


async def test_a_mount_made_later_is_seen_inside_when_it_propagates(node: Node, tmp_path: Path) -> None:
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


async def test_commands_arguments_environment_and_folder_arrive(node: Node) -> None:
    done = await node.run(
        "",
        command=("sh", "-c", 'pwd; echo "$0 $GREETING"'),
        args=("there",),
        env=(("GREETING", "hellö = $world"),),
        working_dir="/tmp",
    )
    assert done.exit_code == 0
    assert [line.split(" ", 3)[3] for line in node.log()] == ["/tmp", "there hellö = $world"]


async def test_limits_reach_the_kernel(node: Node) -> None:
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


async def test_containers_live_below_the_cgroup_that_their_pod_is_given(node: Node) -> None:
    parent = f"/pykubelet-test-{os.getpid()}"
    container_id = await node.start(sandbox=node.sandbox(cgroup_parent=parent))
    (pid,) = (await node.outside.pids(f"id=={container_id}")).values()
    assert f"{parent}/{container_id}" in Path(f"/proc/{pid}/cgroup").read_text()
    await cleared(node.runtime)
    for folder in Path("/sys/fs/cgroup").glob(f"**{parent}"):
        folder.rmdir()
    await node.outside.restarted()


# --- what it says and how it ends


async def test_logs_are_files_in_the_format_of_cri(node: Node) -> None:
    await node.run("echo out; echo err >&2; printf open")
    lines = node.log()
    assert sorted(line.split(" ", 1)[1] for line in lines) == ["stderr F err", "stdout F out", "stdout P open"]
    assert all(line[:4].isdecimal() and "T" in line.split()[0] for line in lines)


async def test_a_log_that_was_moved_away_is_begun_anew(node: Node) -> None:
    container_id = await node.start("trap 'echo two' USR1; echo one; while :; do sleep 1000 & wait $!; done")
    await node.outside.settled()
    log = node.logs / f"default_web_{UID}" / "c" / "0.log"
    log.rename(log.with_suffix(".old"))
    await node.runtime.reopen_log(container_id)
    await node.ask(container_id, "kill", "-USR1", "1")
    await eventually(lambda: log.exists() and log.read_text().endswith("stdout F two\n"))
    assert log.with_suffix(".old").read_text().endswith("stdout F one\n")


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [("exit 0", 0, "Completed"), ("exit 42", 42, "Error"), ("sh -c 'kill -SEGV $$'; exit $?", 139, "Error")],
)
async def test_the_way_a_program_ended_is_seen(node: Node, script: str, code: int, reason: str) -> None:
    done = await node.run(script)
    assert (done.state, done.exit_code, done.reason) == (State.EXITED, code, reason)


async def test_a_program_that_is_not_there_cannot_be_started(node: Node) -> None:
    with pytest.raises(PykubeletError, match=r"no such file|not found"):
        await node.start(command=("/nothing",))
    left = (await node.runtime.observe(UID)).containers[0]
    assert (left.state, left.exit_code, left.reason) == (State.EXITED, 128, "StartError")


async def test_who_takes_too_much_memory_is_killed_for_it(node: Node) -> None:
    limits = Limits(memory=16 * 2**20)
    done = await node.run("head -c 64000000 /dev/zero | tail -c 64000000 > /dev/null; x=$(yes)", limits=limits)
    assert (done.exit_code, done.reason) == (137, "OOMKilled")


async def test_the_last_words_of_a_container_are_kept(node: Node, tmp_path: Path) -> None:
    file = tmp_path / "last-words"
    file.touch()
    container = Container(name="c", termination_message_path="/dev/last", termination_message_policy="File")
    mount = Mount(host_path=str(file), container_path="/dev/last")
    done = await node.run("printf goodbye > /dev/last; exit 1", sandbox=node.sandbox(container), mounts=(mount,))
    assert done.message == "goodbye"


async def test_without_last_words_the_end_of_the_log_counts_when_the_pod_wants_so(node: Node) -> None:
    container = Container(name="c", termination_message_path="/x", termination_message_policy="FallbackToLogsOnError")
    assert (await node.run("echo one; echo two; exit 1", sandbox=node.sandbox(container))).message == "one\ntwo\n"


async def test_a_command_that_takes_too_long_is_killed(node: Node) -> None:
    container_id = await node.start()
    began = time.monotonic()
    with pytest.raises(Retry, match=r"timeout|[Dd]eadline"):
        await node.runtime.exec_sync(container_id, ("sleep", "987"), 1.0)
    assert time.monotonic() - began < 5
    assert "987" not in await node.ask(container_id, "ps")


async def test_commands_tell_their_code_and_both_outputs(node: Node) -> None:
    result = await node.runtime.exec_sync(await node.start(), ("sh", "-c", "echo a; echo b >&2; exit 5"), 10.0)
    assert (result.exit_code, result.stdout, result.stderr) == (5, b"a\n", b"b\n")


async def test_a_stop_waits_for_the_grace_and_no_longer(node: Node) -> None:
    sandbox = node.sandbox()
    sandbox_id = await node.runtime.run_sandbox(sandbox)
    polite = await node.add(sandbox_id, sandbox, "trap 'exit 3' TERM; while :; do sleep 1000 & wait $!; done", "polite")
    stubborn = await node.add(sandbox_id, sandbox, "trap '' TERM; while :; do sleep 1000 & wait $!; done", "stubborn")
    await node.outside.settled()
    began = time.monotonic()
    await node.runtime.stop_container(polite, 30.0)
    assert time.monotonic() - began < 2
    began = time.monotonic()
    await node.runtime.stop_container(stubborn, 2.0)
    assert 2 <= time.monotonic() - began < 5
    codes = [(await seen(node.runtime, UID, each)).exit_code for each in (polite, stubborn)]
    assert codes == [3, 137]


# --- images


async def test_images_come_from_a_registry_and_can_be_removed(node: Node) -> None:
    image = make_image("x", node.containerd.layer, {"User": "77"})
    name = node.containerd.registry.push(image, "team/app", "v1")
    assert await node.runtime.image(name) is None
    pulled = await node.runtime.pull_image(name)
    assert (name in pulled.names, pulled.user, pulled.size > 0) == (True, "77", True)
    assert pulled in await node.runtime.images()
    await node.runtime.remove_image(pulled.id)
    assert await node.runtime.image(name) is None


async def test_a_containers_image_is_told_by_tag_and_by_digest(node: Node) -> None:
    image = make_image("x", node.containerd.layer, {"User": "78"})
    name = node.containerd.registry.push(image, "team/named", "v1")
    pulled = await node.runtime.pull_image(name)
    await node.start(image=name, image_id=pulled.id)
    (found,) = (await node.runtime.observe(UID)).containers
    repository = name.rpartition(":")[0]
    assert (found.image, found.image_id) == (name, f"{repository}@{image.manifest.digest}")
    await node.runtime.remove_image(pulled.id)


async def test_an_image_without_a_tag_is_told_by_its_id_and_by_digest(node: Node) -> None:
    image = make_image("x", node.containerd.layer, {"User": "79"})
    repository = node.containerd.registry.push(image, "team/nameless", "v1").rpartition(":")[0]
    name = f"{repository}@{image.manifest.digest}"
    pulled = await node.runtime.pull_image(name)
    await node.start(image=name, image_id=pulled.id)
    (found,) = (await node.runtime.observe(UID)).containers
    assert (found.image, found.image_id) == (pulled.id, name)
    await node.runtime.remove_image(pulled.id)


async def test_an_image_that_no_registry_has_is_not_found(node: Node) -> None:
    with pytest.raises(NotFound, match="nothing-here"):
        await node.runtime.pull_image(f"{node.containerd.registry.address}/nothing-here:1")


async def test_a_name_that_is_none_is_refused(node: Node) -> None:
    with pytest.raises(PykubeletError, match=r"invalid reference|parse"):
        await node.runtime.pull_image("Not A Name")


async def test_a_protected_registry_wants_the_right_password(node: Node, tmp_path: Path) -> None:
    with loopback_registry(tmp_path / "registry", protected=True) as registry:
        name = registry.push(make_image("y", node.containerd.layer), "team/secret", "v1")
        for wrong in (None, PullCredentials(username=USER, password="guess")):
            with pytest.raises(PykubeletError, match=r"401|[Uu]nauthorized|authorization"):
                await node.runtime.pull_image(name, wrong)
        pulled = await node.runtime.pull_image(name, PullCredentials(username=USER, password=PASSWORD))
        assert name in pulled.names


# --- events, and a runtime that comes and goes


async def listening(node: Node) -> AsyncGenerator[str, None]:
    """The hints, once they come: nobody tells when a stream is open, so another pod dies until that is heard."""
    changes, attempt = node.runtime.changes(), 0
    first = asyncio.ensure_future(anext(changes))
    async with asyncio.timeout(30):
        while not first.done():
            sandbox_id = await node.runtime.run_sandbox(other_sandbox("other", attempt))
            await node.runtime.stop_sandbox(sandbox_id)
            await asyncio.wait({first}, timeout=1.0)
            attempt += 1
    assert await first == "uid-other"
    return changes


async def heard_of(changes: AsyncGenerator[str, None], uid: str) -> None:
    async with asyncio.timeout(10):
        while await anext(changes) != uid:
            pass  # a late word of the other pod


async def test_a_death_is_heard_of_within_a_tenth_of_a_second(node: Node) -> None:
    sandbox = node.sandbox()
    sandbox_id = await node.runtime.run_sandbox(sandbox)
    delays = []
    async with aclosing(await listening(node)) as changes:
        for number in range(5):
            container_id = await node.add(sandbox_id, sandbox, FOREVER, f"c{number}")
            await node.outside.settled()
            (pid,) = (await node.outside.pids(f"id=={container_id}")).values()
            await node.ask(container_id, "true")  # a command's end is no container's end
            killed = time.monotonic()
            os.kill(pid, 9)
            await heard_of(changes, UID)
            delays.append(time.monotonic() - killed)
            assert (await seen(node.runtime, UID, container_id)).state is State.EXITED
    assert sorted(delays)[len(delays) // 2] < 0.1, delays


async def test_a_sandbox_that_dies_is_heard_of_and_seen(node: Node) -> None:
    sandbox_id = await node.runtime.run_sandbox(node.sandbox())
    (pid,) = (await node.outside.pids(f"id=={sandbox_id}")).values()
    async with aclosing(await listening(node)) as changes:
        os.kill(pid, 9)
        await heard_of(changes, UID)
    assert not (await node.runtime.observe(UID)).sandboxes[0].ready


@pytest.mark.parametrize("end", [Containerd.kill, Containerd.stop], ids=["crash", "update"])
async def test_pods_outlive_the_end_of_the_runtime_and_calls_recover(node: Node, end: Callable[..., None]) -> None:
    container_id = await node.start()
    (pid,) = (await node.outside.pids(f"id=={container_id}")).values()
    changes = await listening(node)
    before = await node.runtime.pods()
    hint = asyncio.ensure_future(anext(changes))
    await asyncio.to_thread(end, node.containerd)
    with pytest.raises((Retry, StopAsyncIteration)):
        await hint
    with pytest.raises(Retry, match="does not answer"):
        await node.runtime.pods()
    await asyncio.to_thread(node.containerd.start)
    assert await _recovered(node.runtime.pods) == before
    assert Path(f"/proc/{pid}").exists()
    assert await node.ask(container_id, "echo", "still here") == "still here\n"
    await node.runtime.stop_container(container_id, 10.0)
    assert (await until(node.runtime, UID, lambda pod: pod.containers)).containers[0].state is State.EXITED


async def _recovered(call: Callable[[], Any]) -> Any:
    async with asyncio.timeout(10):
        while True:
            try:
                return await call()
            except Retry:
                await asyncio.sleep(0.05)
