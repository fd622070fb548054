"""A cluster as `pykubelet up` makes it, in a folder of its own, and kubectl as the person who uses it."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from kit.agent_process import command
from kit.kubectl import KUBECTL, Terminal
from kit.waiting import wait_for

EMBEDDED: Final = ("--container-runtime-endpoint", "process", "--no-services", "--images", "machine")
"""Services belong to one cluster of a machine: who wants them takes a network of its own (`kit/netns.py`). And nobody
outside of this machine is asked for images."""
IMAGE: Final = "busybox:1.36"
_SECONDS: Final = 45.0


class UpCluster:
    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.manifests = folder / "manifests"
        self.kubeconfig = self.data / "kubeconfig"
        self._flags = flags

    # --- pykubelet

    def up(self, *args: str) -> str:
        manifests = [str(self.manifests)] if self.manifests.exists() else []
        try:
            return command("up", *manifests, "--data", str(self.data), *self._flags, *args)
        except subprocess.TimeoutExpired as error:
            said = [f"{path.name}:\n{path.read_text(errors='replace')[-3000:]}" for path in self.data.glob("*.log")]
            raise AssertionError("\n".join([f"{error}: {error.output!r}", *said])) from None

    def down(self) -> str:
        return command("down", "--data", str(self.data))

    def reset(self) -> str:
        return command("reset", "--data", str(self.data))

    @property
    def node(self) -> str:
        found: str = json.loads((self.data / ".pykubelet").read_bytes())["node"]
        return found

    def agent_pid(self) -> int:
        """0 while one is just starting."""
        return int((self.data / "state" / "agent.lock").read_text() or 0)

    def apiserver_pid(self) -> int:
        """The child of the supervisor that serves the API; 0 while there is none."""
        supervisor = (self.data / "up.lock").read_text()
        for child in Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split():
            with suppress(OSError):
                if b"apiserver" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                    return int(child)
        return 0

    # --- kubectl

    def kubectl(self, *args: str, stdin: str | None = None, code: int = 0, env: dict[str, str] | None = None) -> str:
        """-> all that it prints. `env`: on top of what is there"""
        done = self._kubectl(*args, stdin=stdin, code=code, env=env)
        return done.stdout + done.stderr

    def _kubectl(
        self, *args: str, stdin: str | None = None, code: int = 0, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [KUBECTL, *args], input=stdin, capture_output=True, text=True, timeout=_SECONDS, check=False,
            env=self.environment(env), stdin=subprocess.DEVNULL if stdin is None else None,
        )  # fmt: skip
        assert done.returncode == code, f"kubectl {' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def try_kubectl(self, *args: str) -> str:
        """-> what it prints, whether it worked or not"""
        done = subprocess.run(
            [KUBECTL, *args], capture_output=True, text=True, timeout=_SECONDS, check=False, env=self.environment()
        )
        return done.stdout + done.stderr

    def json(self, *args: str) -> Any:
        """Without the warnings beside it."""
        return json.loads(self._kubectl(*args, "-o", "json").stdout)

    def apply(self, *objects: dict[str, Any], flags: tuple[str, ...] = (), code: int = 0) -> str:
        return self.kubectl("apply", *flags, "-f", "-", stdin=documents(*objects), code=code)

    def ready(self, *names: str, seconds: int = 30) -> None:
        self.kubectl("wait", "--for=condition=Ready", f"--timeout={seconds}s", *(f"pod/{name}" for name in names))

    def appears(self, name: str) -> None:
        self.kubectl("wait", "--for=create", "--timeout=30s", f"pod/{name}")

    def phase(self, name: str, wanted: str, seconds: int = 30) -> None:
        self.kubectl("wait", f"--for=jsonpath={{.status.phase}}={wanted}", f"--timeout={seconds}s", f"pod/{name}")

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder), "KUBECONFIG": str(self.kubeconfig), **(more or {})}

    @contextmanager
    def started(self, *args: str) -> Iterator["subprocess.Popen[str]"]:
        """One that goes on until the end of the block."""
        process = subprocess.Popen(
            [KUBECTL, *args],
            env=self.environment(),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    @contextmanager
    def at_terminal(self, *args: str) -> Iterator["Sitting"]:
        terminal = Terminal()
        terminal.resize(100, 40)
        try:
            process = subprocess.Popen(
                [KUBECTL, *args],
                env=self.environment(),
                stdin=terminal.theirs,
                stdout=terminal.theirs,
                stderr=terminal.theirs,
                start_new_session=True,
            )
        finally:
            os.close(terminal.theirs)
        try:
            yield Sitting(terminal, process)
        finally:
            process.kill()
            process.wait()
            terminal.close()


class Sitting:
    """A person before a terminal in which kubectl runs."""

    def __init__(self, terminal: Terminal, process: "subprocess.Popen[bytes]") -> None:
        self.terminal = terminal
        self.process = process

    def sees(self, text: str) -> None:
        wait_for(lambda: self.terminal.shows(text.encode()), otherwise=lambda: f"{text!r} in {self.terminal.seen!r}")

    def types(self, text: str) -> None:
        self.terminal.type(text.encode())

    def leaves(self) -> int:
        """Wait for the end. -> its code"""
        deadline = time.monotonic() + _SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.terminal.seen
            self.terminal.shows(b"\0")  # so that it is not stuck with what it still has to say
            time.sleep(0.01)
        return self.process.returncode


def documents(*objects: dict[str, Any]) -> str:
    return "\n".join(map(json.dumps, objects))


def pod(name: str, script: str = "exec sleep 1000", **spec: Any) -> dict[str, Any]:
    """One container `c` that runs a script. `namespace`, `labels` and `container` say more of it."""
    metadata = {"name": name, "labels": {"app": name, **spec.pop("labels", {})}}
    if namespace := spec.pop("namespace", ""):
        metadata["namespace"] = namespace
    container = {"name": "c", "image": IMAGE, "command": ["sh", "-c", script], **spec.pop("container", {})}
    whole = {"terminationGracePeriodSeconds": 1, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}


def writer(name: str, place: str, megabytes: int, **more: Any) -> dict[str, Any]:
    """A pod that may have 4 MiB in its volume `/cache` and, if it writes elsewhere, 4 in all. It writes at once."""
    script = f"head -c {megabytes << 20} /dev/zero > {place}/file; exec sleep 1000"
    cache = {"name": "cache", "emptyDir": {"sizeLimit": "4Mi"}}
    mounts = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    limits = {"resources": {"limits": {"ephemeral-storage": "4Mi"}}} if place != "/cache" else {}
    return pod(name, script, container={**mounts, **limits}, volumes=[cache], **more)


def watch_writers(cluster: UpCluster, where: str) -> None:
    """Pods that write too much are evicted, in the words of upstream, and one that keeps its limits goes on."""
    greedy = {"in-volume": ("/cache", "emptydirfs"), "in-layer": (where, "ephemeralpodfs")}
    cluster.apply(*(writer(name, place, 6) for name, (place, _) in greedy.items()), writer("polite", where, 2))
    for name in greedy:
        cluster.phase(name, "Failed", seconds=100)  # a volume that was looked at too early is so again in a minute
    told = {name: cluster.json("get", "pod", name)["status"] for name in greedy}
    assert {each["reason"] for each in told.values()} == {"Evicted"}
    assert told["in-volume"]["message"] == 'Usage of EmptyDir volume "cache" exceeds the limit "4Mi". '
    total = "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. "
    assert told["in-layer"]["message"] == total
    assert cluster.json("get", "pod", "polite")["status"]["phase"] == "Running"
    shown = cluster.kubectl("describe", "pod", "in-volume")
    assert "Evicted" in shown
    assert "NotEnforced" not in shown
    metrics = cluster.kubectl("get", "--raw", f"/api/v1/nodes/{cluster.node}/proxy/metrics")
    for _, where_it_was in greedy.values():
        assert f'kubelet_evictions{{eviction_signal="{where_it_was}.limit"}} 1' in metrics
    cluster.kubectl("delete", "pod", *greedy, "polite", "--now")


@contextmanager
def cluster_up(*flags: str, manifests: dict[str, str] | None = None) -> Iterator[UpCluster]:
    """One that runs, and that leaves nothing behind. `manifests`: the files of static pods. Nothing is said of the
    runtime: the embedded one, for this machine's own may serve somebody else."""
    if not KUBECTL:
        pytest.skip("needs kubectl")
    folder = Path(tempfile.mkdtemp(prefix="pykubelet-up-", dir="/tmp"))
    cluster = UpCluster(folder, *EMBEDDED, *flags)
    try:
        for name, text in (manifests or {}).items():
            cluster.manifests.mkdir(exist_ok=True)
            (cluster.manifests / name).write_text(text)
        cluster.up()
        yield cluster
    finally:
        if cluster.data.exists():
            cluster.reset()
        shutil.rmtree(folder)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
