# ruff: noqa: ASYNC240 - tests may block
import os
import pwd
import shutil
import socket
from pathlib import Path

import pytest

from contract.runtime import container_config, sandbox_config
from kit.waiting import eventually
from pykubelet.api.security import Capabilities, PodSecurityContext, SecurityContext, Sysctl
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.ports.runtime import Mount, PortMapping
from pykubelet.runtime.process.shim import kernel
from unit.runtime.process.machine import UID, Machine, machine, sandbox_of

is_root = os.getuid() == 0
only_root = pytest.mark.skipif(not is_root, reason="needs root")


# --- its own root


async def test_writes_are_private_and_gone_with_the_container(isolated: Machine, tmp_path: Path) -> None:
    _, output = await isolated.run("echo mine > /pykubelet-test && cat /pykubelet-test; ls /tmp /run | grep -c pytest")
    assert output == "mine\n0\n"
    assert not Path("/pykubelet-test").exists()


@only_root
async def test_this_machines_files_can_be_changed_without_changing_them(isolated: Machine) -> None:
    _, output = await isolated.run("echo mine > /etc/passwd; rm /etc/group; cat /etc/passwd; ls /etc/group")
    assert output.startswith("mine\n")
    assert "No such file" in output
    assert "root:" in Path("/etc/passwd").read_text()
    assert Path("/etc/group").exists()


async def test_temporary_folders_are_empty_and_for_everyone(isolated: Machine) -> None:
    _, output = await isolated.run("ls -A /tmp /var/tmp; stat -c %a /tmp /var/tmp /run; touch /tmp/x /var/tmp/x")
    assert output == "/tmp:\n\n/var/tmp:\n1777\n1777\n755\n"


async def test_the_agents_own_folders_are_hidden(tmp_path: Path) -> None:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)  # the folders for temporary files are empty for everybody
    home = home if os.access(home, os.W_OK) else Path("/var/tmp")
    root, secrets = (home / f"pykubelet-test-{os.getpid()}-{name}" for name in ("root", "secrets"))
    secrets.mkdir()
    (secrets / "token").write_text("secret")
    try:
        async with machine(root, hidden=[secrets], log_root=tmp_path) as made:
            if "plain processes" in " ".join((await made.runtime.status()).limitations):
                pytest.skip("this machine has no namespaces to give")
            _, output = await made.run(
                f"exec 2>&1; ls -A {root}; cat {secrets}/token; touch {root}/x {secrets}/x; echo over"
            )
        assert "secret" not in output.replace(str(secrets), "")
        assert "containers" not in output
        assert output.endswith("over\n")
    finally:
        shutil.rmtree(root)
        shutil.rmtree(secrets)


async def test_devices_are_the_harmless_ones(isolated: Machine) -> None:
    script = "ls /dev; echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c; ls /dev/pts"
    _, output = await isolated.run(script)
    assert " ".join(output.split()) == (
        "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero 3 3 ptmx"
    )


async def test_the_kernels_settings_are_for_reading_only(isolated: Machine) -> None:
    files = "/proc/sys/kernel/domainname /proc/sysrq-trigger /sys/kernel/mm/ksm/run"
    script = f"for f in {files}; do echo x > $f && echo bad; done"
    _, output = await isolated.run(script)
    assert "bad" not in output


async def test_a_read_only_root_is_one_but_for_its_volumes(isolated: Machine, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    sandbox = sandbox_of(SecurityContext(read_only_root_filesystem=True))
    mount = Mount(host_path=str(volume), container_path="/no/such/place")
    script = """
    for f in /x /etc/x /tmp/x /usr/x /run/x; do touch $f 2>/dev/null && echo $f; done
    touch /no/such/place/x && echo well
    """
    _, output = await isolated.run(script, sandbox=sandbox, mounts=(mount,))
    assert output == "well\n"
    assert (volume / "x").exists()


@pytest.mark.parametrize("read_only", [False, True], ids=["writable", "read-only"])
async def test_a_working_folder_is_made_whoever_the_program_is(
    isolated: Machine, tmp_path: Path, read_only: bool
) -> None:
    sandbox = sandbox_of(SecurityContext(run_as_user=1234, read_only_root_filesystem=read_only))
    volume = tmp_path / "volume"
    volume.mkdir(mode=0o755)
    mounts = (Mount(host_path=str(volume), container_path="/data"),)
    for attempt, folder in enumerate(("/not/there/yet", "/data/in/a/volume", "/usr/../opt/x")):
        _, output = await isolated.run("pwd", sandbox=sandbox, working_dir=folder, attempt=attempt, mounts=mounts)
        assert output == os.path.normpath(folder) + "\n"
    assert (volume / "in" / "a" / "volume").is_dir()
    assert not Path("/not").exists()


async def test_without_overlays_the_root_is_read_only_but_for_what_is_fresh(isolated: Machine, tmp_path: Path) -> None:
    await isolated.runtime.status()
    assembly = isolated.runtime._assembly
    assert assembly is not None
    assembly._abilities = changed(assembly._abilities, overlay=False, fresh_proc=False)
    mount = Mount(host_path=str(tmp_path), container_path="/data")
    script = (
        "touch /etc/x /usr/x 2>/dev/null && echo bad; touch /tmp/x /run/x /data/x && echo well; cat /proc/self/comm"
    )
    _, output = await isolated.run(script, mounts=(mount,))
    assert output == "well\ncat\n"
    assert (tmp_path / "x").exists()


# --- volumes


async def test_volumes_are_where_the_pod_wants_them(isolated: Machine, tmp_path: Path) -> None:
    for name in ("rw", "ro", "inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(name)
    (tmp_path / "file").write_text("one file")
    mounts = (
        Mount(host_path=str(tmp_path / "inner"), container_path="/data/a/inner"),
        Mount(host_path=str(tmp_path / "rw"), container_path="/data/a"),
        Mount(host_path=str(tmp_path / "ro"), container_path="/var/run/secrets/x", read_only=True),
        Mount(host_path=str(tmp_path / "file"), container_path="/etc/hosts", read_only=True),
        Mount(host_path=str(tmp_path / "file"), container_path="/dev/termination-log"),
    )
    script = """
    cat /data/a/name /data/a/inner/name /var/run/secrets/x/name /run/secrets/x/name /etc/hosts; echo
    echo new > /data/a/new
    echo new > /data/a/inner/new
    echo new > /var/run/secrets/x/new || echo refused
    echo new > /etc/hosts || echo refused
    echo last > /dev/termination-log
    """
    _, output = await isolated.run(script, mounts=mounts)
    assert output.splitlines()[0] == "rwinnerroroone file"
    assert output.count("refused") == 2
    assert (tmp_path / "rw" / "new").read_text() == (tmp_path / "inner" / "new").read_text() == "new\n"
    assert not (tmp_path / "ro" / "new").exists()
    assert (tmp_path / "file").read_text() == "last\n"


async def test_a_recursively_read_only_volume_is_so_all_the_way_down(isolated: Machine, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    mount = Mount(host_path=str(tmp_path / "volume"), container_path="/data", read_only=True, recursive_read_only=True)
    _, output = await isolated.run("touch /data/x 2>/dev/null || echo refused", mounts=(mount,))
    assert output == "refused\n"


async def test_a_folder_of_the_machine_that_is_not_there_is_made(isolated: Machine, tmp_path: Path) -> None:
    """As other runtimes do it for a `hostPath` that says nothing of its type."""
    mount = Mount(host_path=str(tmp_path / "not/yet"), container_path="/data")
    _, output = await isolated.run("echo kept >/data/file && cat /data/file", mounts=(mount,))
    assert output == "kept\n"
    assert (tmp_path / "not/yet/file").read_text() == "kept\n"


async def test_a_volume_that_is_not_there_is_a_start_error(isolated: Machine, tmp_path: Path) -> None:
    (tmp_path / "nothing").symlink_to(tmp_path / "nowhere")
    mount = Mount(host_path=str(tmp_path / "nothing"), container_path="/data")
    with pytest.raises(Retry, match="nothing: No such file"):
        await isolated.start("true", mounts=(mount,))
    container = (await isolated.runtime.observe(UID)).containers[0]
    assert (container.exit_code, container.reason) == (128, "StartError")


async def test_links_in_the_container_do_not_lead_out_of_it(isolated: Machine, tmp_path: Path) -> None:
    """A volume holds a link to a folder of this machine; a mount below it must not reach that."""
    outside, volume, other = tmp_path / "outside", tmp_path / "volume", tmp_path / "other"
    for folder in (outside, volume, other):
        folder.mkdir()
    (volume / "link").symlink_to(outside)
    mounts = (
        Mount(host_path=str(volume), container_path="/data"),
        Mount(host_path=str(other), container_path="/data/link/deep"),
    )
    await isolated.run("true", mounts=mounts)
    assert list(outside.iterdir()) == []


async def test_what_cannot_be_mounted_is_refused(isolated: Machine, tmp_path: Path) -> None:
    mount = Mount(host_path=str(tmp_path), container_path="/data", propagation="Bidirectional")
    with pytest.raises(Invalid, match="Bidirectional"):
        await isolated.start("true", mounts=(mount,))


@only_root
async def test_later_mounts_are_seen_where_the_pod_wants_that(isolated: Machine, tmp_path: Path) -> None:
    """Only where this machine's mounts are shared, as systemd makes them."""
    volume = tmp_path / "volume"
    volume.mkdir()
    kernel.mount(str(volume), str(volume), flags=kernel.MS_BIND)
    try:
        kernel.mount("none", str(volume), flags=1 << 20)  # shared
        (volume / "inner").mkdir()
        mounts = (
            Mount(host_path=str(volume), container_path="/follows", propagation="HostToContainer"),
            Mount(host_path=str(volume), container_path="/private"),
        )
        container_id = await isolated.start("sleep 1000", mounts=mounts)
        kernel.mount("tmpfs", str(volume / "inner"), "tmpfs")
        (volume / "inner" / "x").write_text("x")
        result = await isolated.runtime.exec_sync(container_id, ("sh", "-c", "ls /follows/inner /private/inner"), 10)
        assert result.stdout == b"/follows/inner:\nx\n\n/private/inner:\n"
        kernel.unmount(str(volume / "inner"))
    finally:
        kernel.unmount(str(volume))


# --- its own processes and names


async def test_the_program_is_the_first_process_and_sees_only_its_own(isolated: Machine) -> None:
    _, output = await isolated.run("echo $$; cat /proc/[0-9]*/comm; kill -KILL 1; kill -STOP 1; echo alive")
    assert output == "1\nsh\nalive\n"


async def test_a_pods_containers_share_a_hostname_and_memory_but_not_processes(isolated: Machine) -> None:
    sandbox_id = (await isolated.runtime.run_sandbox(sandbox_config())).id
    ids = []
    for name in ("a", "b"):
        config = container_config(isolated, name, command=("sleep", "1000"))
        ids.append(await isolated.runtime.create_container(sandbox_id, config))
        await isolated.runtime.start_container(ids[-1])
    first = await isolated.runtime.exec_sync(
        ids[0], ("sh", "-c", "hostname; echo hello > /dev/shm/x; cat /etc/hostname"), 10
    )
    second = await isolated.runtime.exec_sync(
        ids[1], ("sh", "-c", "hostname; cat /dev/shm/x; ls -d /proc/[0-9]* | wc -l"), 10
    )
    assert first.stdout == b"web\nweb\n"
    hostname, text, count = second.stdout.split()
    assert (hostname, text) == (b"web", b"hello")
    assert int(count) <= 5
    namespaces = [os.readlink(f"/proc/{isolated.main(each).pid}/ns/ipc") for each in ids]
    assert namespaces[0] == namespaces[1] != os.readlink("/proc/self/ns/ipc")


async def test_a_pods_containers_share_processes_if_it_wants_that(isolated: Machine) -> None:
    sandbox_id = (await isolated.runtime.run_sandbox(sandbox_of(share_process_namespace=True))).id
    ids = []
    for name, script in (("a", "sleep 1000"), ("b", "(sleep 1001 &) ; (sleep 1002 &) ; sleep 1003")):
        config = container_config(isolated, name, command=("sh", "-c", script))
        ids.append(await isolated.runtime.create_container(sandbox_id, config))
        await isolated.runtime.start_container(ids[-1])
    see = ("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")

    async def seen() -> str:
        return (await isolated.runtime.exec_sync(ids[0], see, 10)).stdout.decode()

    text = await seen()
    while not all(f"sleep {number}" in text for number in (1000, 1001, 1002, 1003)):
        text = await seen()
    await isolated.runtime.stop_container(ids[1], 0)
    text = await seen()
    assert "sleep 1000" in text
    assert not any(f"sleep {number}" in text for number in (1001, 1002, 1003))


async def test_a_pod_gets_this_machines_namespaces_if_it_wants_them(isolated: Machine) -> None:
    sandbox = sandbox_of(host_pid=True, host_ipc=True, host_network=True)
    container_id = await isolated.start("hostname; sleep 1000", sandbox=sandbox)
    main = isolated.main(container_id).pid
    for kind in ("pid", "ipc", "uts", "net"):
        assert os.readlink(f"/proc/{main}/ns/{kind}") == os.readlink(f"/proc/self/ns/{kind}")
    result = await isolated.runtime.exec_sync(container_id, ("test", "-e", f"/proc/{os.getpid()}"), 10)
    assert result.exit_code == 0
    await eventually(lambda: isolated.output(container_id) == socket.gethostname() + "\n")


async def test_name_servers_are_those_of_the_pod(isolated: Machine) -> None:
    config = changed(
        sandbox_config(), dns_servers=("10.0.0.10",), dns_searches=("a.local", "local"), dns_options=("ndots:5",)
    )
    _, output = await isolated.run("cat /etc/resolv.conf", sandbox=config)
    assert output == "search a.local local\nnameserver 10.0.0.10\noptions ndots:5\n"


# --- who it is


async def test_the_user_is_the_one_that_the_pod_wants(isolated: Machine) -> None:
    sandbox = sandbox_of(SecurityContext(run_as_user=1234), PodSecurityContext(run_as_user=1, run_as_group=555))
    container_id = await isolated.start("id -u; id -g; touch /tmp/x && echo well; sleep 1000", sandbox=sandbox)
    await eventually(lambda: isolated.output(container_id) == "1234\n555\nwell\n")
    result = await isolated.runtime.exec_sync(container_id, ("sh", "-c", "id -u; id -g; cat /tmp/x"), 10)
    assert result.stdout == b"1234\n555\n"


@only_root
async def test_groups_are_those_that_the_pod_wants(isolated: Machine) -> None:
    shared = PodSecurityContext(run_as_user=1234, run_as_group=5, supplemental_groups=(7, 8), fs_group=9)
    _, output = await isolated.run("id -G; grep NoNewPrivs /proc/self/status", sandbox=sandbox_of(None, shared))
    assert output == "5 7 8 9\nNoNewPrivs:\t0\n"


async def test_root_is_refused_where_the_pod_forbids_it(isolated: Machine) -> None:
    with pytest.raises(Invalid, match="runAsNonRoot"):
        await isolated.start("true", sandbox=sandbox_of(None, PodSecurityContext(run_as_non_root=True)))
    sandbox = sandbox_of(SecurityContext(run_as_user=7), PodSecurityContext(run_as_non_root=True))
    _, output = await isolated.run("id -u", sandbox=sandbox)
    assert output == "7\n"


@pytest.mark.parametrize(
    ("context", "mask"),
    [
        (SecurityContext(), "00000000a80405fb"),
        (SecurityContext(capabilities=Capabilities(drop=("ALL",))), "0000000000000000"),
        (SecurityContext(capabilities=Capabilities(drop=("ALL",), add=("NET_BIND_SERVICE",))), "0000000000000400"),
        (SecurityContext(capabilities=Capabilities(add=("CAP_SYS_TIME",))), "00000000aa0405fb"),
    ],
)
async def test_a_container_has_the_usual_capabilities_and_no_more(
    isolated: Machine, context: SecurityContext, mask: str
) -> None:
    _, output = await isolated.run("grep CapEff /proc/self/status", sandbox=sandbox_of(context))
    assert output == f"CapEff:\t{mask}\n"


async def test_privileges_cannot_grow_where_the_pod_forbids_it(isolated: Machine) -> None:
    sandbox = sandbox_of(SecurityContext(allow_privilege_escalation=False))
    _, output = await isolated.run("grep NoNewPrivs /proc/self/status", sandbox=sandbox)
    assert output == "NoNewPrivs:\t1\n"


async def test_a_privileged_container_sees_this_machines_devices(isolated: Machine) -> None:
    _, output = await isolated.run("ls /dev | wc -l", sandbox=sandbox_of(SecurityContext(privileged=True)))
    assert int(output) == len(os.listdir("/dev"))


# --- what is refused


async def test_a_pod_that_needs_what_is_not_here_is_refused_with_the_reason(isolated: Machine) -> None:
    ports = (PortMapping(container_port=80, host_port=8080),)
    with pytest.raises(Invalid, match="hostPort 8080 cannot lead to container port 80"):
        await isolated.runtime.run_sandbox(changed(sandbox_config(), ports=ports))
    sysctls = PodSecurityContext(sysctls=(Sysctl(name="net.core.somaxconn", value="1"),))
    with pytest.raises(Invalid, match=r"sysctl net\.core\.somaxconn"):
        await isolated.runtime.run_sandbox(sandbox_of(None, sysctls))


async def test_a_plain_process_is_refused_what_it_cannot_have(plain: Machine, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="mount /data cannot be provided"):
        await plain.start("true", mounts=(Mount(host_path=str(tmp_path), container_path="/data"),))
    with pytest.raises(Invalid, match="readOnlyRootFilesystem cannot be provided"):
        await plain.start("true", sandbox=sandbox_of(SecurityContext(read_only_root_filesystem=True)))
    sentences = " ".join((await plain.runtime.status()).limitations)
    assert "Containers are plain processes" in sentences


async def test_a_plain_process_has_volumes_at_their_own_place(plain: Machine, tmp_path: Path) -> None:
    mounts = (
        Mount(host_path=str(tmp_path), container_path=str(tmp_path)),
        Mount(host_path=str(tmp_path / "hosts"), container_path="/etc/hosts"),
    )
    await plain.run(f"echo hello > {tmp_path}/x", mounts=mounts)
    assert (tmp_path / "x").read_text() == "hello\n"


@pytest.mark.skipif(is_root, reason="root may be anybody")
async def test_an_ordinary_user_cannot_be_another_one_without_namespaces(plain: Machine) -> None:
    with pytest.raises(Invalid, match="can only be user"):
        await plain.start("true", sandbox=sandbox_of(SecurityContext(run_as_user=1234)))


@only_root
async def test_root_can_be_anybody_even_without_namespaces(plain: Machine) -> None:
    _, output = await plain.run("id -u", sandbox=sandbox_of(SecurityContext(run_as_user=1234)))
    assert output == "1234\n"
