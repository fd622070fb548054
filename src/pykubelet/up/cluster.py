"""`up`, `down` and `reset`: a small cluster on this machine, an API server and a node, with all it has in one folder.

The folder is marked as ours when it is made, and only what is ours is ever removed. `down` stops everything and keeps
what the API server knows; `reset` takes that away, too.
"""

import asyncio
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from pykubelet.api.struct import changed
from pykubelet.apiserver.security.kubeconfig import kubeconfig, merged_kubeconfig, write_kubeconfig
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.config.apiserver import ApiServerConfig, prepared, url
from pykubelet.host.machine import LocalMachine
from pykubelet.host.removal import remove_tree
from pykubelet.server.control import ask
from pykubelet.up.choice import check_runtime, choose_runtime
from pykubelet.up.manifest_check import faults_of
from pykubelet.up.show import is_settled, pod_table
from pykubelet.up.supervisor import PARTS, Part, holder, left_something, write_parts

_START_SECONDS: Final = 60.0
_SETTLE_SECONDS: Final = 60.0
_LOOK: Final = 0.1
_PATIENCE: Final = 10.0
MARK: Final = ".pykubelet"
PROGRAM: Final = (sys.executable, "-m", "pykubelet")

Say = Callable[[str], None]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What `up` has decided: the mark of the folder, and all that the parts need to know."""

    node: str
    address: str
    api_port: int
    kubelet_port: int
    runtime: str
    manifests: str = ""
    bind: str = "127.0.0.1"
    """Where the API server serves."""
    kubeconfig: str = ""
    """Of a node alone, which has joined an API server somewhere else: how it reaches that."""
    bootstrap: str = ""
    """How such a node gets that kubeconfig."""
    asks_for_certificate: bool = False
    """Whether its serving certificate comes from the API server, too."""


class Cluster:
    made_by: ClassVar[str] = "up"
    logs: ClassVar[tuple[str, ...]] = ("apiserver", "agent")
    what: ClassVar[str] = "the API server and the node"

    def __init__(self, data: Path, say: Say) -> None:
        self._data = data.resolve()
        self._say = say
        self._state = self._data / "state"
        self._mark = self._data / MARK
        self._lock = self._data / "up.lock"

    # --- the commands

    def up(
        self,
        manifests: Path | None,
        *,
        runtime: str = "",
        merge: str = "",
        foreground: bool = False,
        bind: str = "",
    ) -> None:
        """Start everything, and return when the node is ready. Harmless when it runs.

        `manifests` is a folder or file of static pods; `runtime` an endpoint, empty: the best one that there is;
        `merge` a kubeconfig of the person's own, which gets our cluster added; `bind` an address to serve on, empty:
        as before, at first for this machine alone.
        """
        faults = faults_of(manifests, self._say) if manifests else []
        if holder(self._lock) is not None:
            self._check_same(manifests, bind)
            self._say(f"It is running already (data in {self._data}).")
            plan = self._plan()
        else:
            plan = self._claim(manifests, runtime, bind)
            self._prepare(plan)
            self._start()
        self._wait(plan)
        if merge:
            self._merge(Path(merge).expanduser())
        pods = self._settled() if manifests else self._pods() or []
        if pods:
            self._say("\n" + pod_table(pods) + "\n")
        unsettled = [pod["metadata"]["name"] for pod in pods if not is_settled(pod)] if manifests else []
        if unsettled:
            raise Invalid(
                f"not up after {_SETTLE_SECONDS:g} s: {', '.join(unsettled)}; the log is {self._log('agent')}"
            )
        if foreground:
            self._stay()
        else:
            self._say(self._what_next(plan))
        if faults:
            raise Invalid("there are faults in the manifests, as told above: those pods are not running")

    def down(self) -> None:
        """Stop everything, pods and all. What the API server knows is there again after the next `up`."""
        if not self._is_ours():
            self._say("There is nothing to stop.")
            return
        if left_something(self._lock) and self._has_run():
            # Whoever was killed has left pods running: it takes an agent to stop them.
            self._start()
            self._wait_to_stop(self._plan())
        self._stop()
        again, reset = f"pykubelet {self.made_by}", "pykubelet reset"
        self._say(f"All is stopped. `{again}` goes on from here; `{reset}` removes {self._data}.")

    def reset(self) -> None:
        """Stop everything and remove all that was made."""
        if not self._is_ours():
            self._say("There is nothing to remove.")
            return
        if self._state.exists():
            self.down()
        try:
            remove_tree(str(self._data))
        except (OSError, PykubeletError) as error:
            raise Invalid(f"{self._data} could not be removed: {error}") from None
        self._say("All is cleared away.")

    # --- the folder

    @property
    def admin_kubeconfig(self) -> Path:
        return self._data / "kubeconfig"

    def _is_ours(self) -> bool:
        if not self._data.exists() or not any(self._data.iterdir()):
            return False
        if not self._mark.exists():
            raise Invalid(f"{self._data} was not made by `pykubelet {self.made_by}`; nothing in it was touched")
        return True

    def _claim(self, manifests: Path | None, runtime: str, bind: str) -> Plan:
        plan, before = self._node_plan(runtime)
        address = bind or (before.bind if before else "127.0.0.1")
        plan = changed(
            plan,
            api_port=_free_port(address, before.api_port if before else 6443),
            manifests=str(manifests.absolute()) if manifests else "",
            bind=address,
        )
        self._mark.write_bytes(msgspec.json.encode(plan))
        return plan

    def _node_plan(self, runtime: str, node: str = "") -> tuple[Plan, Plan | None]:
        """What concerns the node, and what was decided before: that stays as it was, above all the runtime, for pods
        may be on it."""
        command = f"`pykubelet {self.made_by}`"
        if self._data.exists() and not self._mark.exists() and any(self._data.iterdir()):
            raise Invalid(f"{self._data} is not empty and was not made by {command}; choose another with --data")
        before = self._plan() if self._mark.exists() else None
        if before and bool(before.kubeconfig) is not (self.made_by == "join"):
            raise Invalid(f"{self._data} was not made by {command}; choose another with --data")
        if before and runtime and runtime != before.runtime:
            raise Invalid(f"the pods of {self._data} are on the runtime {before.runtime}; first run `pykubelet reset`")
        if runtime and not before and (why := check_runtime(runtime, self._data)):
            self._say(why)
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (before or runtime):
            choice = choose_runtime(self._data)
            self._say(choice.why)
            runtime = choice.endpoint
        facts = asyncio.run(LocalMachine(str(self._data)).facts())
        address = facts.ips[0] if facts.ips else "127.0.0.1"
        plan = Plan(
            node=before.node if before else node or socket.gethostname().lower(),
            address=address,
            api_port=before.api_port if before else 0,
            kubelet_port=_free_port(address, before.kubelet_port if before else 10250),
            runtime=before.runtime if before else runtime,
        )
        return plan, before

    def _plan(self) -> Plan:
        try:
            return msgspec.json.decode(self._mark.read_bytes(), type=Plan)
        except (OSError, msgspec.DecodeError):
            raise Invalid(f"{self._mark} cannot be read; was it made by another version? Remove {self._data}") from None

    def _check_same(self, manifests: Path | None, bind: str) -> None:
        plan = self._plan()
        if plan.kubeconfig:
            raise Invalid(f"{self._data} was not made by `pykubelet up`; choose another with --data")
        if bind and bind != plan.bind:
            raise Invalid(f"what runs serves on {plan.bind}; stop it first with `pykubelet down`")
        running = plan.manifests
        if manifests and running != str(manifests.absolute()):
            what = f"the static pods of {running}" if running else "no static pods"
            raise Invalid(f"what runs has {what}; stop it first with `pykubelet down`")

    def _prepare(self, plan: Plan) -> None:
        """Keys and kubeconfigs are made before those who need them."""
        config = api_config(self._data, plan)
        pki = prepared(config)
        certificate, key = (path.read_bytes() for path in pki.node(plan.node))
        identity = kubeconfig(url(config), pki.authority.pem, certificate, key, user=f"system:node:{plan.node}")
        write_kubeconfig(self._data / "kubelet.conf", identity)
        pki.node_serving(plan.node, (plan.node, plan.address, "localhost", "127.0.0.1"))

    def _merge(self, path: Path) -> None:
        ours = msgspec.json.decode(api_config(self._data, self._plan()).kubeconfig.read_bytes())
        try:
            existing = msgspec.yaml.decode(path.read_bytes()) if path.exists() else {}
        except (OSError, msgspec.DecodeError) as error:
            raise Invalid(f"{path}: cannot be read: {error}") from None
        write_kubeconfig(path, merged_kubeconfig(existing or {}, ours))
        self._say(f"{path} knows the cluster now, as the context {ours['current-context']}.")

    # --- what runs

    def parts(self) -> list[Part]:
        """What is kept running, by the plan in the folder: the API server first."""
        data, plan = self._data, self._plan()
        server = [*PROGRAM, "apiserver", "--data-dir", str(data / "apiserver"), "--port", str(plan.api_port)]
        server += ["--bind-address", plan.bind, "--kubeconfig", str(self.admin_kubeconfig), "--tls-san", plan.address]
        pki = data / "apiserver" / "pki"
        agent = [*agent_command(data, plan), "--kubeconfig", str(data / "kubelet.conf")]
        agent += ["--client-ca-file", str(pki / "ca.crt")]
        agent += ["--tls-cert-file", str(pki / f"node-{plan.node}-serving.crt")]
        agent += ["--tls-private-key-file", str(pki / f"node-{plan.node}-serving.key")]
        agent += ["--pod-manifest-path", plan.manifests] if plan.manifests else []
        return [
            Part(name="the API server", command=server, log=str(self._log("apiserver"))),
            Part(name="the node", command=agent, log=str(self._log("agent"))),
        ]

    def _start(self) -> None:
        write_parts(self._data / PARTS, self.parts())
        command = [*PROGRAM, "supervise", "--data", str(self._data)]
        with self._log("up").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._say(f"Starting {self.what} (data and logs in {self._data}) ...")
        deadline = time.monotonic() + _PATIENCE
        while holder(self._lock) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                self._tell_log("up")
                raise Invalid(f"{self.what} cannot be started; above is what was said")
            time.sleep(_LOOK)

    def _has_run(self) -> bool:
        return self._state.exists()

    def _wait_to_stop(self, plan: Plan) -> None:
        self._wait(plan)

    def _wait(self, plan: Plan) -> None:
        from pykubelet.up.wait import wait_until_ready  # an HTTP client takes long to load: others start meanwhile

        conf = plan.kubeconfig or str(self.admin_kubeconfig)
        why = asyncio.run(wait_until_ready(conf, plan.node, self._say, _START_SECONDS))
        if why:
            for name in self.logs:
                self._tell_log(name)
            raise Invalid(f"{why}; above is what was said last, more is in {self._data}/*.log")

    def _stop(self) -> None:
        """However long the pods take: each has a grace of its own."""
        pid = holder(self._lock)
        if pid is None:
            return
        self._say(f"Stopping the pods, then {self.what} ...")
        os.kill(pid, signal.SIGTERM)
        told = time.monotonic()
        while holder(self._lock) == pid:
            if time.monotonic() - told > _PATIENCE:
                told = time.monotonic()
                names = [pod["metadata"].get("name", "?") for pod in self._pods() or []]
                self._say(f"still stopping: {', '.join(names) or 'the node'} (the log is {self._log('agent')})")
            time.sleep(_LOOK)

    def _settled(self) -> list[dict[str, Any]]:
        """Wait until the pods have come to rest, telling how far they are."""
        deadline, said = time.monotonic() + _SETTLE_SECONDS, ""
        while True:
            pods = self._pods() or []
            settled = [pod for pod in pods if is_settled(pod)]
            text = f"{len(settled)} of {len(pods)} pods are up"
            if text != said and pods:
                self._say(text)
                said = text
            if (pods and len(settled) == len(pods)) or time.monotonic() > deadline:
                return pods
            time.sleep(_LOOK)

    def _stay(self) -> None:
        """Show a live table until Ctrl-C, then stop."""
        try:
            while True:
                self._say("\033[2J\033[H" + pod_table(self._pods() or []) + "\n\nCtrl-C stops everything.")
                time.sleep(1.0)
        except KeyboardInterrupt:
            self.down()

    def _what_next(self, plan: Plan) -> str:
        command = os.path.relpath(sys.argv[0]) if os.sep in sys.argv[0] else sys.argv[0]
        ours = "" if self._data == default_data() else f" --data {self._data}"
        config = api_config(self._data, plan)
        return (
            f"The API server is at {url(config)}, node {plan.node} is ready. Next:\n"
            f"  use kubectl             export KUBECONFIG={config.kubeconfig}\n"
            f"  run something           kubectl run hello --image=busybox:1.36 -- sleep 1000\n"
            f"  see what runs           kubectl get pods -A -o wide\n"
            f"  stop everything         {command} down{ours}\n"
            f"  remove everything       {command} reset{ours}"
        )

    def _tell_log(self, name: str) -> None:
        path = self._log(name)
        for line in path.read_text(errors="replace").splitlines()[-5:] if path.exists() else ():
            self._say(line)

    def _log(self, name: str) -> Path:
        return self._data / f"{name}.log"

    def _pods(self) -> list[dict[str, Any]] | None:
        try:
            return asked_pods(self._state / "pykubelet.sock")
        except Retry:
            return None


def api_config(data: Path, plan: Plan) -> ApiServerConfig:
    return ApiServerConfig(
        data=data / "apiserver", address=plan.bind, port=plan.api_port, kubeconfig=data / "kubeconfig"
    )


def agent_command(data: Path, plan: Plan) -> list[str]:
    """What any agent in a folder of ours is told, whatever API server it has."""
    agent = [*PROGRAM, "run", "--stop-pods-on-exit", "--root-dir", str(data / "state")]
    agent += ["--hostname-override", plan.node, "--node-ip", plan.address]
    agent += ["--address", plan.address, "--port", str(plan.kubelet_port), "--healthz-port=0"]
    agent += ["--container-runtime-endpoint", plan.runtime, "--cluster-domain", "cluster.local"]
    # Apart from the pods of any other agent on this machine.
    return [*agent, "--cgroup-root", f"/pykubelet-{hashlib.sha256(str(data).encode()).hexdigest()[:8]}"]


def default_data() -> Path:
    """Where `up` keeps what it has, unless told otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/pykubelet")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "pykubelet"


def asked_pods(socket: Path) -> list[dict[str, Any]]:
    """The pods of the agent at a socket. Raises Retry when there is none."""
    answer = asyncio.run(ask(socket, "pods"))
    return list(answer.get("items") or [])


def _free_port(address: str, wanted: int) -> int:
    """The one that is wanted, or another when that is taken."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    for port in (wanted, 0):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise Invalid(f"there is no free port on {address}; is it an address of this machine?")
