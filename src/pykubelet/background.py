"""`up` and `down`: an agent in the background, with everything it has in one folder.

The folder is marked as ours when it is made, and only what is ours is ever removed. Whether an agent lives is told by
the lock that it holds, not by a pid that may be somebody else's by now.
"""

import asyncio
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pykubelet.api.documents import MAX_BYTES
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.choice import choose_runtime
from pykubelet.host.removal import remove_tree
from pykubelet.pod.kinds import FILE_SOURCE
from pykubelet.server.control import ask
from pykubelet.show import is_settled, pod_table
from pykubelet.sources.manifest import BadManifest, Place, read_manifest

_START_SECONDS: Final = 15.0
_SETTLE_SECONDS: Final = 60.0
_LOOK: Final = 0.1
_PATIENCE: Final = 10.0
_MARK: Final = ".pykubelet"

Say = Callable[[str], None]


class Background:
    """One agent and its data folder."""

    def __init__(self, data: Path, say: Say) -> None:
        self._data = data.resolve()
        self._say = say
        self._state = self._data / "state"
        self._log = self._data / "agent.log"
        self._mark = self._data / _MARK

    @property
    def socket(self) -> Path:
        return self._state / "pykubelet.sock"

    def up(self, manifests: Path, *, runtime: str = "", foreground: bool = False) -> None:
        """Start the agent, wait until its pods are what they should be, and show them. Harmless when it runs.

        `runtime` is an endpoint; empty: the best one that there is.
        """
        manifests = manifests.absolute()
        faults = self._look_through(manifests)
        if self._pid() is not None:
            self._check_same(manifests)
            self._say(f"The agent is running already (data in {self._data}).")
        else:
            self._start(manifests, self._claim(manifests, runtime))
        pods = self._settle()
        self._say("\n" + pod_table(pods) + "\n")
        unsettled = [pod["metadata"]["name"] for pod in pods if not is_settled(pod)]
        if unsettled:
            raise Invalid(f"not up after {_SETTLE_SECONDS:g} s: {', '.join(unsettled)}; the log is {self._log}")
        if foreground:
            self._stay()
        else:
            self._say(self._what_next(manifests))
        if faults:
            raise Invalid("there are faults in the manifests, as told above: those pods are not running")

    def down(self) -> None:
        """Stop the agent and its pods, and leave nothing behind. Harmless when there is none."""
        if not self._data.exists():
            self._say("There is nothing to stop.")
            return
        if not self._mark.exists():
            raise Invalid(f"{self._data} was not made by `pykubelet up`; nothing in it was touched")
        if self._pid() is None and self._state.exists():
            # An agent that was killed has left its pods running: one more is needed to stop them.
            nothing = self._data / "nothing"
            nothing.mkdir(exist_ok=True)
            self._start(nothing, self._claimed()[1])
        self._stop()
        self._remove()
        self._say("All is stopped and cleared away.")

    def pods(self) -> list[dict[str, Any]]:
        """Raises Retry when there is no agent."""
        return asked_pods(self.socket)

    # --- the folder

    def _claim(self, manifests: Path, runtime: str) -> str:
        """-> the runtime's endpoint: that of an earlier agent while its state, and so perhaps its pods, are there."""
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self._mark.exists() and any(self._data.iterdir()):
            raise Invalid(f"{self._data} is not empty and was not made by `pykubelet up`; choose another with --data")
        before = self._claimed()[1] if self._state.exists() else ""
        if before and runtime and runtime != before:
            raise Invalid(f"the pods of {self._data} are on the runtime {before}; first run `pykubelet down`")
        if not (before or runtime):
            choice = choose_runtime(self._data)
            self._say(choice.why)
            runtime = choice.endpoint
        endpoint = before or runtime
        self._mark.write_text(f"{manifests}\n{endpoint}\n")
        return endpoint

    def _claimed(self) -> tuple[str, str]:
        """The manifests and the runtime that the folder was made for."""
        manifests, _, runtime = self._mark.read_text().partition("\n") if self._mark.exists() else ("", "", "")
        return manifests, runtime.strip()

    def _check_same(self, manifests: Path) -> None:
        running = self._claimed()[0]
        if running != str(manifests):
            raise Invalid(f"the agent runs the pods of {running}; stop it first with `pykubelet down`")

    def _remove(self) -> None:
        try:
            for folder in (self._state, self._data / "nothing"):
                if folder.exists():
                    remove_tree(str(folder))
            self._log.unlink(missing_ok=True)
            self._mark.unlink(missing_ok=True)
            self._data.rmdir()
        except (OSError, PykubeletError) as error:
            raise Invalid(f"{self._data} could not be removed: {error}") from None

    def _look_through(self, manifests: Path) -> list[str]:
        """What is wrong with the manifests, told at once instead of in a log."""
        if not manifests.exists():
            raise Invalid(f"{manifests}: there is no such file or folder of manifests")
        files = sorted(f for f in manifests.iterdir() if f.name[0] != ".") if manifests.is_dir() else [manifests]
        faults: list[str] = []
        pods = 0
        for file in (file for file in files if file.is_file()):
            place = Place(origin=str(file), source=FILE_SOURCE, node_name="node")
            try:
                with file.open("rb") as opened:
                    pods += len(read_manifest(opened.read(MAX_BYTES + 1), place))
            except BadManifest as error:
                faults += error.faults
            except OSError as error:
                faults.append(f"{file}: cannot be read: {error.strerror}")
        for fault in faults:
            self._say(fault)
        if not pods:
            raise Invalid(f"{manifests}: there is no pod to run" + (", as told above" if faults else ""))
        return faults

    # --- the agent

    def _start(self, manifests: Path, runtime: str) -> None:
        command = [sys.executable, "-m", "pykubelet", "run", "--stop-pods-on-exit"]
        command += ["--root-dir", str(self._state), "--pod-manifest-path", str(manifests)]
        command += ["--enable-server=false", "--healthz-port=0"]  # without an API server nobody could be let in
        command += ["--container-runtime-endpoint", runtime] if runtime else []
        name = hashlib.sha256(str(self._data).encode()).hexdigest()[:8]
        command += ["--cgroup-root", f"/pykubelet-{name}"]  # apart from any other agent's pods
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._say(f"Starting the agent (data and log in {self._data}) ...")
        deadline = time.monotonic() + _START_SECONDS
        while self._pods() is None:
            if process.poll() is not None:
                last = self._log.read_text(errors="replace").splitlines()[-5:]
                for line in last:
                    self._say(line)
                raise Invalid(f"the agent ended at once, with code {process.returncode}; above is what it said")
            if time.monotonic() > deadline:
                raise Invalid(f"the agent does not answer within {_START_SECONDS:g} s; the log is {self._log}")
            time.sleep(_LOOK)

    def _stop(self) -> None:
        """However long the pods take: each has a grace of its own."""
        pid = self._pid()
        if pid is None:
            return
        self._say("Stopping the agent and its pods ...")
        os.kill(pid, signal.SIGTERM)
        told = time.monotonic()
        while self._pid() == pid:
            if time.monotonic() - told > _PATIENCE:
                told = time.monotonic()
                names = [pod["metadata"]["name"] for pod in self._pods() or []]
                self._say(f"still stopping: {', '.join(names) or 'the agent'} (the log is {self._log})")
            time.sleep(_LOOK)

    def _settle(self) -> list[dict[str, Any]]:
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
                self._say("\033[2J\033[H" + pod_table(self._pods() or []) + "\n\nCtrl-C stops the agent and its pods.")
                time.sleep(1.0)
        except KeyboardInterrupt:
            self.down()

    def _what_next(self, manifests: Path) -> str:
        logs = self._state / "logs"
        command = os.path.relpath(sys.argv[0]) if os.sep in sys.argv[0] else sys.argv[0]
        ours = "" if self._data == default_data() else f" --data {self._data}"
        return (
            f"The agent goes on in the background. Next:\n"
            f"  see the pods            {command} pods{ours}\n"
            f"  read what they write    tail -f {logs}/*/*/*.log\n"
            f"  change a pod            edit its file in {manifests}\n"
            f"  stop everything         {command} down{ours}"
        )

    def _pods(self) -> list[dict[str, Any]] | None:
        try:
            return self.pods()
        except Retry:
            return None

    def _pid(self) -> int | None:
        """The agent that holds the lock on our state, if there is one. It writes its pid into what it locks."""
        try:
            with (self._state / "agent.lock").open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(file.read() or b"0") or None
        except (OSError, ValueError):
            return None
        return None


def default_data() -> Path:
    """Where `up` keeps what it has, unless told otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/pykubelet")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "pykubelet"


def asked_pods(socket: Path) -> list[dict[str, Any]]:
    """The pods of the agent at a socket. Raises Retry when there is none."""
    answer = asyncio.run(ask(socket, "pods"))
    return list(answer.get("items") or [])
