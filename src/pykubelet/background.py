"""`up` and `down`: an agent in the background, with everything it has in one folder."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pykubelet.base.errors import Invalid, Retry
from pykubelet.server.control import ask
from pykubelet.show import is_settled, pod_table

_START_SECONDS: Final = 15.0
_SETTLE_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 120.0
_LOOK: Final = 0.1

Say = Callable[[str], None]


class Background:
    """One agent and its data folder."""

    def __init__(self, data: Path, say: Say) -> None:
        self._data = data
        self._say = say
        self._state = data / "state"
        self._log = data / "agent.log"
        self._pid_file = data / "agent.pid"

    @property
    def socket(self) -> Path:
        return self._state / "pykubelet.sock"

    def up(self, manifests: Path, *, foreground: bool = False) -> None:
        """Start the agent, wait until its pods are what they should be, and show them. Harmless when it runs."""
        if not manifests.exists():
            raise Invalid(f"{manifests}: there is no such file or folder of manifests")
        if self._pods() is not None:
            self._say(f"The agent is running already (data in {self._data}).")
        else:
            self._start(manifests.absolute())
        pods = self._settle()
        self._say("\n" + pod_table(pods) + "\n")
        unsettled = [pod["metadata"]["name"] for pod in pods if not is_settled(pod)]
        if unsettled:
            raise Invalid(f"not up after {_SETTLE_SECONDS:g} s: {', '.join(unsettled)}; the log is {self._log}")
        if foreground:
            self._stay()
        else:
            self._say(self._what_next(manifests))

    def down(self) -> None:
        """Stop the agent and its pods, and leave nothing behind. Harmless when there is none."""
        pid = self._pid()
        if pid is None and not self._data.exists():
            self._say("There is nothing to stop.")
            return
        if pid is not None:
            self._say("Stopping the agent and its pods ...")
            os.kill(pid, signal.SIGTERM)
            self._wait(lambda: self._pid() is None, _STOP_SECONDS, "the agent does not end")
        shutil.rmtree(self._data, ignore_errors=True)
        if self._data.exists():
            raise Invalid(f"{self._data} could not be removed; is something still mounted there?")
        self._say("All is stopped and cleared away.")

    def pods(self) -> list[dict[str, Any]]:
        """Raises Retry when there is no agent."""
        return asked_pods(self.socket)

    # --- inside

    def _start(self, manifests: Path) -> None:
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pykubelet", "run", "--stop-pods-on-exit"]
        command += ["--root-dir", str(self._state), "--pod-manifest-path", str(manifests)]
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._pid_file.write_text(str(process.pid))
        self._say(f"Starting the agent (data and log in {self._data}) ...")
        try:
            self._wait(
                lambda: process.poll() is not None or self._pods() is not None,
                _START_SECONDS,
                "the agent does not start",
            )
        finally:
            if process.poll() is not None:
                last = "\n".join(self._log.read_text(errors="replace").splitlines()[-5:])
                raise Invalid(f"the agent ended at once, with code {process.returncode}; it said:\n{last}")

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
        """The agent's process, if it lives."""
        try:
            pid = int(self._pid_file.read_text())
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                alive = b"pykubelet" in file.read()
            with open(f"/proc/{pid}/stat") as stat:
                alive = alive and stat.read().rpartition(")")[2].split()[0] != "Z"
        except (OSError, ValueError):
            return None
        return pid if alive else None

    def _wait(self, condition: Callable[[], bool], seconds: float, failure: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Invalid(f"{failure} within {seconds:g} s; the log is {self._log}")
            time.sleep(_LOOK)


def default_data() -> Path:
    """Where `up` keeps what it has, unless told otherwise."""
    if os.geteuid() == 0:
        return Path("/var/lib/pykubelet")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "pykubelet"


def asked_pods(socket: Path) -> list[dict[str, Any]]:
    """The pods of the agent at a socket. Raises Retry when there is none."""
    answer = asyncio.run(ask(socket, "pods"))
    return list(answer.get("items") or [])
