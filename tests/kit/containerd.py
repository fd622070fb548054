"""A containerd of our own: everything that it has is below one temporary folder, and nothing of it is left behind.

PYKUBELET_TEST_CONTAINERD names a folder with the programs of another containerd than the installed one: containerd, ctr
and containerd-shim-runc-v2, and a runc where that should be another one, too.
"""

import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, Protocol, TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from kit.oci import BUSYBOX, OciImage, busybox_layer, make_image, write_layout
from kit.registry import LoopbackRegistry, loopback_registry
from kit.sweep import PREFIX, bridge_of, claim, is_owned, sweep
from kit.waiting import wait_for
from pykubelet.runtime.cri._gen import cri_pb2 as cri

OTHER_PROGRAMS: Final = "PYKUBELET_TEST_CONTAINERD"
CNI_PLUGINS: Final = Path("/usr/lib/cni")
_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")
OWN_CGROUP: Final = f"pykubelet-test-{os.getpid()}"
"""How the names begin of the control groups that this process makes."""
PROGRAMS: Final = ("containerd", "ctr", "runc", "docker-registry", "iptables", "ip")
_SANDBOX_IMAGE: Final = "pykubelet.test/pause:1"
_SECONDS: Final = 60.0
_SANDBOXES: Final = {"restrict_oom_score_adj": True, "netns_mounts_under_state_dir": True}
_STREAMING: Final = {"stream_server_address": "127.0.0.1", "stream_server_port": "0"}
_RUNC: Final = {"runtime_type": "io.containerd.runc.v2"}
_CHAINS: Final = ("CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK")

Reply = TypeVar("Reply", bound=Message)


def missing() -> str:
    """What keeps this machine from running a containerd of our own; empty: nothing."""
    if os.geteuid() != 0:
        return "only root can run containerd"
    lacking = [name for name in PROGRAMS if shutil.which(name, path=_search_path()) is None]
    lacking += [str(path) for path in (CNI_PLUGINS / "bridge", BUSYBOX) if not path.exists()]
    return f"not installed: {', '.join(lacking)} (tools/install_test_packages.sh installs them)" if lacking else ""


@cache
def containerd_version() -> tuple[int, ...]:
    """Of the one that is tested: (1, 6, 20)."""
    said = subprocess.run([_program("containerd"), "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(map(int, re.findall(r"\d+", said.split()[2])[:3]))


def _search_path() -> str:
    return os.pathsep.join(filter(None, (os.environ.get(OTHER_PROGRAMS), os.environ.get("PATH", os.defpath))))


def _program(name: str) -> str:
    return shutil.which(name, path=_search_path()) or name


class Containerd:
    """One that runs."""

    def __init__(self, root: Path, registry: LoopbackRegistry, *, snapshotter: str = "overlayfs") -> None:
        self.root = root
        self.registry = registry
        self.socket = root / "containerd.sock"
        self.inside: tuple[str, ...] = ()
        """The command, if any, that starts it somewhere else than here."""
        self.bridge = bridge_of(root)
        self.subnet = _free_subnet()
        self.layer = busybox_layer()
        self._snapshotter = snapshotter
        self._process: subprocess.Popen[bytes] | None = None
        self._chains_before = _iptables_chains()

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    # --- life

    def start(self) -> None:
        self._write_configuration()
        with (self.root / "containerd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.inside, _program("containerd"), "--config", self.root / "config.toml"],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PATH": _search_path()},
            )
        wait_for(self._is_up, seconds=_SECONDS, otherwise=self._told)

    def kill(self) -> None:
        """It ends at once, as in a crash. What runs in it goes on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_SECONDS)
            self._process = None

    def stop(self) -> None:
        """It ends in good order, as for an update. What runs in it goes on."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_SECONDS)
            self._process = None

    def lose_power(self) -> None:
        """It ends with all that runs in it, and what is in memory is gone."""
        self.kill()
        shims = self._shims()
        for pid in (*(child for shim in shims for child in _children(shim)), *shims):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for path in self._mounts():
            subprocess.run(["umount", "--lazy", path], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self.bridge], check=False, capture_output=True)
        shutil.rmtree(self.root / "state", ignore_errors=True)
        self.socket.unlink(missing_ok=True)

    def load(self, *images: OciImage) -> None:
        archive = self.root / "import.tar"
        write_layout(images, archive)
        self.ctr("images", "import", "--snapshotter", self._snapshotter, str(archive))
        archive.unlink()
        names = [image.name for image in images]
        wait_for(lambda: _has_images(self.endpoint, names), seconds=_SECONDS)  # its CRI side hears of them later

    def load_defaults(self) -> None:
        """The sandbox's image, and one that most tests run. The registry has the latter, too."""
        pause = make_image(_SANDBOX_IMAGE, self.layer, {"Cmd": ["sleep", "2147483647"]})
        busybox = make_image("docker.io/library/busybox:1.36", self.layer)
        redis = make_image("docker.io/library/redis:7", self.layer)  # one that is here, but not what its name says
        self.load(pause, busybox, redis)
        self.registry.push(busybox, "library/busybox", "1.36")

    def ctr(self, *arguments: str) -> str:
        command = [_program("ctr"), "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    # --- the end

    def clean_up(self) -> None:
        """Sandboxes by the front door, so that their networks are taken down; then whatever is left."""
        if self._process is not None:
            with suppress(Exception):
                _remove_sandboxes(self.endpoint)
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            self.kill()
        for pid in self._shims():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for path in self._mounts():
            subprocess.run(["umount", "--lazy", path], check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", self.bridge], check=False, capture_output=True)
        for top in (*_CONTROL_GROUPS.glob(f"{OWN_CGROUP}*"), *_CONTROL_GROUPS.glob(f"*/{OWN_CGROUP}*")):
            for below, _, _ in os.walk(top, topdown=False):
                with suppress(OSError):
                    os.rmdir(below)
        if not any(is_owned(other) for other in self.root.parent.glob(f"{PREFIX}*") if other != self.root):
            self._clean_up_after_all()
        shutil.rmtree(self.root, ignore_errors=True)

    def _clean_up_after_all(self) -> None:
        """What this one has shared with those beside it: the last one takes it away."""
        for chain in _CHAINS:
            if chain not in self._chains_before:
                _drop_chain(chain)
        for folder in (*_CONTROL_GROUPS.glob("k8s.io"), *_CONTROL_GROUPS.glob("*/k8s.io")):
            with suppress(OSError):  # somebody else's containers are in it
                folder.rmdir()

    def leftovers(self) -> list[str]:
        """What a clean-up should have taken away."""
        links = subprocess.run(["ip", "-o", "link"], check=True, capture_output=True, text=True).stdout
        left = [f"shim {pid}" for pid in self._shims()] + [f"mount {path}" for path in self._mounts()]
        return left + ([f"bridge {self.bridge}"] if self.bridge in links else [])

    def _shims(self) -> list[int]:
        mark = str(self.socket).encode()
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with suppress(OSError):
                    command = (folder / "cmdline").read_bytes().split(b"\0")
                    if b"containerd-shim" in command[0] and mark in command:
                        found.append(int(folder.name))
        return found

    def _mounts(self) -> list[str]:
        lines = Path("/proc/self/mounts").read_text().splitlines()
        paths = [line.split()[1] for line in lines]
        return sorted((path for path in paths if path.startswith(f"{self.root}/")), key=len, reverse=True)

    # --- configuration

    def _told(self) -> str:
        return (self.root / "containerd.log").read_text()[-4000:]

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._told()
        try:
            plugins = self.ctr("plugins", "ls", "-q") and self.ctr("plugins", "ls")
            with cri_caller(self.endpoint) as call:  # it refuses to answer until it has recovered what it had
                call("RuntimeService/ListPodSandbox", cri.ListPodSandboxRequest(), cri.ListPodSandboxResponse)
        except (RuntimeError, grpc.RpcError):
            return False
        return any(line.split()[1:2] == ["cri"] and line.split()[-1] == "ok" for line in plugins.splitlines())

    def _write_configuration(self) -> None:
        hosts = self.root / "hosts" / "docker.io" / "hosts.toml"
        cni = self.root / "cni" / "10-bridge.conflist"
        for path in (hosts, cni):
            path.parent.mkdir(parents=True, exist_ok=True)
        mirror = f"http://{self.registry.address}"
        hosts.write_text(f'server = "{mirror}"\n[host."{mirror}"]\n  capabilities = ["pull", "resolve"]\n')
        cni.write_text(json.dumps(self._network()))
        (self.root / "config.toml").write_text(self._settings())

    def _settings(self) -> str:
        sections: Mapping[str, Mapping[str, object]] = {
            "": {
                "version": 3 if containerd_version() >= (2,) else 2,
                "root": f"{self.root}/root",
                "state": f"{self.root}/state",
                "oom_score": 0,
                "disabled_plugins": [
                    f"io.containerd.snapshotter.v1.{name}" for name in ("aufs", "btrfs", "devmapper", "zfs")
                ],
            },
            "grpc": {"address": str(self.socket)},
            "ttrpc": {"address": f"{self.socket}.ttrpc"},
            'plugins."io.containerd.internal.v1.opt"': {"path": f"{self.root}/opt"},
            **(self._sections_of_2() if containerd_version() >= (2,) else self._sections_of_1()),
        }
        lines = []
        for name, values in sections.items():
            lines += [f"[{name}]"] if name else []
            lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        return "\n".join(lines) + "\n"

    def _sections_of_1(self) -> Mapping[str, Mapping[str, object]]:
        cri = 'plugins."io.containerd.grpc.v1.cri"'
        return {
            cri: {"sandbox_image": _SANDBOX_IMAGE, **_SANDBOXES, **_STREAMING},
            f"{cri}.containerd": {"snapshotter": self._snapshotter},
            f"{cri}.containerd.runtimes.runc": _RUNC,
            f"{cri}.cni": {"bin_dir": str(CNI_PLUGINS), "conf_dir": f"{self.root}/cni"},
            f"{cri}.registry": {"config_path": f"{self.root}/hosts"},
        }

    def _sections_of_2(self) -> Mapping[str, Mapping[str, object]]:
        """The second version tells images, sandboxes and the service apart."""
        images, sandboxes = 'plugins."io.containerd.cri.v1.images"', 'plugins."io.containerd.cri.v1.runtime"'
        return {
            'plugins."io.containerd.grpc.v1.cri"': _STREAMING,
            images: {"snapshotter": self._snapshotter},
            f"{images}.pinned_images": {"sandbox": _SANDBOX_IMAGE},
            f"{images}.registry": {"config_path": f"{self.root}/hosts"},
            sandboxes: _SANDBOXES,
            f"{sandboxes}.containerd.runtimes.runc": _RUNC,
            f"{sandboxes}.cni": {"bin_dirs": [str(CNI_PLUGINS)], "conf_dir": f"{self.root}/cni"},
        }

    def _network(self) -> dict[str, object]:
        bridge = {
            "type": "bridge",
            "bridge": self.bridge,
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "dataDir": f"{self.root}/ipam",
                "ranges": [[{"subnet": str(self.subnet)}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        return {"cniVersion": "0.4.0", "name": self.bridge, "plugins": [bridge, ports]}


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


@contextmanager
def private_containerd() -> Iterator[Containerd]:
    """One that is up, with its images, and a registry that stands for docker.io."""
    sweep()
    with ExitStack() as stack:
        root = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
        claim(root)
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        root.chmod(0o711)  # the root of a pod with users of its own has to get through to its files
        registry = stack.enter_context(loopback_registry(root / "registry"))
        containerd = Containerd(root, registry)
        stack.callback(containerd.clean_up)
        containerd.start()
        containerd.load_defaults()
        yield containerd


@contextmanager
def containerd_for_tests() -> Iterator[Containerd]:
    """Where it cannot be, tests are skipped, and say why; but not where everything is meant to be tested."""
    if lacking := missing():
        if os.environ.get("CI") == "true":
            pytest.fail(f"the tests on a real containerd cannot run: {lacking}")
        pytest.skip(f"needs a real containerd: {lacking}")
    with private_containerd() as containerd:
        yield containerd
    assert not containerd.leftovers()


def _free_subnet() -> ipaddress.IPv4Network:
    routes = subprocess.run(["ip", "-4", "-o", "route"], check=True, capture_output=True, text=True).stdout
    number = os.getpid()
    while True:
        number = (number + 1) % (50 * 256)
        subnet = ipaddress.IPv4Network(f"10.{200 + number // 256}.{number % 256}.0/24")
        if str(subnet) not in routes:
            return subnet


def _iptables_chains() -> set[str]:
    rules = subprocess.run(["iptables", "-t", "nat", "-S"], check=False, capture_output=True, text=True).stdout
    return {line.split()[1] for line in rules.splitlines() if line.startswith("-N ")}


def _drop_chain(chain: str) -> None:
    rules = subprocess.run(["iptables", "-t", "nat", "-S"], check=False, capture_output=True, text=True).stdout
    for line in rules.splitlines():
        if line.startswith("-A ") and f"-j {chain}" in line:
            subprocess.run(f"iptables -t nat -D {line[3:]}", shell=True, check=False, capture_output=True)
    for flag in ("-F", "-X"):
        subprocess.run(["iptables", "-t", "nat", flag, chain], check=False, capture_output=True)


def _has_images(endpoint: str, names: list[str]) -> bool:
    with cri_caller(endpoint) as call:
        for name in names:
            request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
            if not call("ImageService/ImageStatus", request, cri.ImageStatusResponse).HasField("image"):
                return False
    return True


def _remove_sandboxes(endpoint: str) -> None:
    service = "RuntimeService"
    with cri_caller(endpoint) as call:
        listed = call(f"{service}/ListPodSandbox", cri.ListPodSandboxRequest(), cri.ListPodSandboxResponse)
        for sandbox in listed.items:
            with suppress(grpc.RpcError):
                stop = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox.id)
                call(f"{service}/StopPodSandbox", stop, cri.StopPodSandboxResponse)
            with suppress(grpc.RpcError):
                remove = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox.id)
                call(f"{service}/RemovePodSandbox", remove, cri.RemovePodSandboxResponse)


class CriCall(Protocol):
    def __call__(self, method: str, request: Message, reply: type[Reply]) -> Reply: ...


@contextmanager
def cri_caller(endpoint: str) -> Iterator[CriCall]:
    with grpc.insecure_channel(endpoint, options=[("grpc.default_authority", "localhost")]) as channel:

        def call(method: str, request: Message, reply: type[Reply]) -> Reply:
            ask: Callable[..., Reply] = channel.unary_unary(
                f"/runtime.v1.{method}",
                request_serializer=lambda each: each.SerializeToString(),
                response_deserializer=reply.FromString,
            )
            return ask(request, timeout=_SECONDS)

        yield call
