# ruff: noqa: ASYNC240 - tests may block
"""A pod looks for whatever would make it more than a pod, everywhere on this machine, and finds none of it."""

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.up_cluster import cluster_up, pod
from pykubelet.api.security import Capabilities, SecurityContext
from pykubelet.api.struct import changed
from pykubelet.pod.ports.runtime import Mount, SandboxConfig
from pykubelet.runtime.process import machine_files
from pykubelet.runtime.process.shim import kernel
from unit.runtime.process.machine import Machine, machine, sandbox_of

is_root = os.getuid() == 0
only_root = pytest.mark.skipif(not is_root, reason="only root can put files there")
CAREFUL = SecurityContext(run_as_user=1234, read_only_root_filesystem=True, capabilities=Capabilities(drop=("ALL",)))
SANDBOXES = [pytest.param(sandbox_of(), id="a default pod"), pytest.param(sandbox_of(CAREFUL), id="a careful pod")]
TOKEN = f"stolen-{secrets.token_hex(8)}"
USUAL = (
    "/etc/shadow /etc/shadow- /etc/gshadow /etc/sudoers /etc/ssl/private /etc/kubernetes /etc/rancher /etc/pykubelet "
    "/etc/ssh/ssh_host_* /root/.kube /root/.ssh /root/.docker /home/* /var/lib/kubelet /var/lib/containerd "
    "/var/log/pods /run/containerd /run/docker.sock /var/run/docker.sock /run/user /run/systemd /boot "
    "/srv/* /mnt/* /media/* /opt/*"
)


@pytest.fixture
def placed() -> Iterator[list[Path]]:
    """Files in odd places of this machine, which hold what a pod must not read; gone after the test."""
    made: list[Path] = []
    try:
        yield made
    finally:
        for path in made:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def place(placed: list[Path], path: str, mode: int) -> Path:
    folder = Path(path)
    folder.mkdir()
    placed.append(folder)
    file = folder / "credentials"
    file.write_text(TOKEN)
    file.chmod(mode)
    return file


async def stolen(made: Machine, sandbox: SandboxConfig, *paths: Path) -> str:
    """All that a pod gets to read of some paths, by name and by looking everywhere near."""
    names = " ".join(map(str, paths))
    script = f"""
    exec 2>/dev/null
    for path in {names}; do cat "$path"; cat "/proc/1/root$path"; cat "/proc/self/root$path"; cp "$path" /tmp/x; done
    grep -rl {TOKEN} /etc /usr/local /usr/share/pykubelet* /var /root /home /opt /srv /mnt /media /tmp /run /work /data
    true
    """
    _, output = await made.run(script, sandbox=sandbox)
    return output


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_the_usual_places_of_credentials_are_not_there(isolated: Machine, sandbox: SandboxConfig) -> None:
    script = f"for path in {USUAL}; do if [ -e $path ]; then echo found $path; fi; done; ls -A /root /home /srv"
    _, output = await isolated.run(script, sandbox=sandbox)
    assert "found" not in output
    assert set(output.replace("Permission denied", "").split()) <= {"/root:", "/home:", "/srv:"} or "ls:" in output


@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_the_agents_folders_are_out_of_reach(tmp_path: Path, sandbox: SandboxConfig) -> None:
    for name in (
        "data/kubeconfig",
        "data/state/kubelet.conf",
        "data/apiserver/pki/ca.key",
        "data/apiserver/admin.token",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(TOKEN)
    async with machine(tmp_path / "data/state/runtime", log_root=tmp_path / "logs") as made:
        found = await stolen(made, sandbox, *(path for path in tmp_path.rglob("*") if path.is_file()))
        assert TOKEN not in found
        asked_for = Mount(host_path=str(tmp_path / "data"), container_path="/data")
        _, output = await made.run("cat /data/kubeconfig", sandbox=sandbox_of(), mounts=(asked_for,), attempt=1)
        assert output == TOKEN, "who asks for a folder of this machine in the pod's spec gets it"


@only_root
async def test_what_only_root_may_read_is_not_there(tmp_path: Path, placed: list[Path]) -> None:
    machine_files._seen.clear()  # as in an agent that has just started
    names = [f"{top}/pykubelet-test-{secrets.token_hex(4)}" for top in ("/etc", "/usr/local/etc", "/usr/share")]
    private = [place(placed, f"{name}-secret", 0o600) for name in names]
    public = [place(placed, f"{name}-public", 0o644) for name in names]
    folders = [place(placed, f"{name}-folder", 0o644) for name in names]
    for file in folders:
        file.parent.chmod(0o750)
    async with machine(tmp_path / "root", log_root=tmp_path / "logs") as made:
        for attempt, sandbox in enumerate((sandbox_of(), sandbox_of(CAREFUL))):
            assert TOKEN not in await stolen(made, sandbox, *private, *folders)
            script = f"cat {' '.join(map(str, public))}; ls -d {' '.join(str(file.parent) for file in folders)} 2>&1"
            _, output = await made.run(script, sandbox=sandbox, attempt=attempt + 2)
            assert output.count(TOKEN) == output.count("No such file") == 3


@only_root
async def test_what_a_mount_covers_does_not_come_to_light(isolated: Machine, placed: list[Path]) -> None:
    """An overlay shows what lies below this machine's mounts, where nobody has looked for secrets."""
    folder = place(placed, f"/etc/pykubelet-test-{secrets.token_hex(4)}", 0o600).parent
    kernel.mount("tmpfs", str(folder), "tmpfs")
    try:
        assert TOKEN not in await stolen(isolated, sandbox_of(), folder / "credentials")
    finally:
        kernel.unmount(str(folder))


@only_root
async def test_without_overlays_the_same_is_hidden(isolated: Machine, placed: list[Path]) -> None:
    await isolated.runtime.status()
    assembly = isolated.runtime._assembly
    assert assembly is not None
    assembly._abilities = changed(assembly._abilities, overlay=False)
    secret = place(placed, f"/etc/pykubelet-test-{secrets.token_hex(4)}", 0o600)
    folder = place(placed, f"/etc/pykubelet-test-{secrets.token_hex(4)}", 0o644)
    folder.parent.chmod(0o700)
    assert TOKEN not in await stolen(isolated, sandbox_of(), secret, folder)
    _, output = await isolated.run("wc -c < /etc/shadow; ls /root /home | grep -v :; id -u", attempt=1)
    assert output.split() == ["0", "0"]


@only_root
async def test_a_secret_that_comes_while_pods_run_is_not_there_for_the_next(
    isolated: Machine, placed: list[Path]
) -> None:
    await isolated.run("true")
    secret = place(placed, f"/etc/pykubelet-test-{secrets.token_hex(4)}", 0o600)
    assert TOKEN not in await stolen(isolated, sandbox_of(), secret)


@only_root
@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("top", ["/etc", "/usr/share"])
async def test_a_kubeconfig_in_an_odd_place_is_hidden_even_if_all_may_read_it(
    tmp_path: Path, placed: list[Path], top: str, sandbox: SandboxConfig
) -> None:
    name = f"{top}/pykubelet-test-{secrets.token_hex(4)}"
    real = place(placed, f"{name}-real", 0o644)
    link = place(placed, f"{name}-link", 0o644)
    link.unlink()
    link.symlink_to(real)
    async with machine(tmp_path / "root", log_root=tmp_path / "logs", hidden=[link]) as made:
        assert TOKEN not in await stolen(made, sandbox, link, real)


@only_root
async def test_a_kubeconfig_that_is_written_later_is_not_seen_either(tmp_path: Path, placed: list[Path]) -> None:
    folder = Path(f"/etc/pykubelet-test-{secrets.token_hex(4)}")
    async with machine(tmp_path / "root", log_root=tmp_path / "logs", hidden=[folder / "credentials"]) as made:
        container_id = await made.start("sleep 1000")
        place(placed, str(folder), 0o644)
        result = await made.runtime.exec_sync(container_id, ("cat", f"{folder}/credentials"), 10)
        assert TOKEN not in result.stdout.decode()
        assert result.exit_code != 0


async def test_other_users_sockets_and_memory_are_out_of_reach(isolated: Machine, placed: list[Path]) -> None:
    shared = Path(f"/dev/shm/pykubelet-test-{secrets.token_hex(4)}")
    shared.write_text(TOKEN)
    placed.append(shared)
    assert TOKEN not in await stolen(isolated, sandbox_of(), shared)


async def test_who_shares_this_machines_memory_does_not_share_that_of_other_pods(isolated: Machine) -> None:
    """Neither of those that were there before, nor of those that come later."""
    write = f"echo {TOKEN} > /dev/shm/file; exec sleep 1000"
    await isolated.start(write)
    shares = await isolated.start("sleep 1000", sandbox=sandbox_of(host_ipc=True), attempt=1)
    await isolated.start(write, attempt=2)
    look = ("sh", "-c", f"ls /dev/shm; grep -rl {TOKEN} /dev/shm; touch /dev/shm/pykubelet-*/x; true")
    result = await isolated.runtime.exec_sync(shares, look, 20)
    assert TOKEN.encode() not in result.stdout
    assert b"/file" not in result.stdout
    assert b"pykubelet-" in result.stdout


def test_no_pod_of_a_cluster_becomes_its_administrator() -> None:
    """With kubectl, which is among this machine's programs, and with every credential of the data folder."""
    with cluster_up() as cluster:
        paths = [path for path in cluster.data.rglob("*") if path.is_file() and "runtime" not in path.parts]
        assert cluster.kubeconfig in paths
        assert any(path.name == "ca.key" for path in paths)
        names = " ".join(map(str, paths))
        script = f"""
        for path in {names} /etc/kubernetes/admin.conf $HOME/.kube/config; do
            if [ -e $path ]; then echo sees $path; fi
            if kubectl --kubeconfig $path auth can-i '*' '*' >/dev/null 2>&1; then echo is admin by $path; fi
        done
        kubectl auth can-i '*' '*' --all-namespaces 2>&1 | grep -x yes
        echo tried
        """
        careful = {
            "runAsUser": 1234,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        volume = {"name": "data", "hostPath": {"path": str(cluster.data)}}
        mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        asks = f"kubectl --kubeconfig /data/{cluster.kubeconfig.name} auth can-i '*' '*'"
        cluster.apply(
            pod("plain", script, restartPolicy="Never"),
            pod("careful", script, restartPolicy="Never", container={"securityContext": careful}),
            pod("asks", asks, restartPolicy="Never", volumes=[volume], container=mount),
        )
        for name, said in (("plain", "tried\n"), ("careful", "tried\n"), ("asks", "yes\n")):
            cluster.phase(name, "Succeeded")
            assert cluster.kubectl("logs", name) == said
