"""The real agent, run as people run it, with an eye on what it takes from the machine."""

# ruff: noqa: ASYNC240 - a benchmark may block
import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from kit.agent_process import COMMAND
from kit.api_server import kubeconfig_for
from kit.apiserver_process import cpu_of, rss_of
from kit.containerd import OWN_CGROUP

NODE: Final = "bench"
_PATIENCE: Final = 30.0


class MeasuredAgent:
    def __init__(self, process: asyncio.subprocess.Process, folder: Path) -> None:
        self._process = process
        self._folder = folder

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raises when it has ended, with its last words."""
        if self._process.returncode is not None:
            said = (self._folder / "agent.log").read_text(errors="replace")[-4000:]
            raise RuntimeError(f"the agent has ended with {self._process.returncode}: {said}")

    def cpu(self) -> float:
        """Seconds of it that all threads have used since the start."""
        return cpu_of(self.pid)

    def rss(self) -> float:
        """Resident memory, in MiB."""
        return rss_of(self.pid)

    def keeps(self, uid: str) -> bool:
        """Whether anything of a pod is left: its folder is the last to go."""
        return (self._folder / "state" / "pods" / uid).exists()

    async def stop(self) -> None:
        """As an update of the agent does it: the pods go on."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), _PATIENCE)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()


@asynccontextmanager
async def measured_agent(folder: Path, server: str, endpoint: str) -> AsyncIterator[MeasuredAgent]:
    """Its state is in `folder`, where an agent that comes later finds it again. So is its log."""
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_for(server))
    command = [*COMMAND, "run", "--kubeconfig", str(kubeconfig)]
    command += ["--port=0", "--healthz-port=0", f"--cgroup-root=/{OWN_CGROUP}"]
    command += ["--root-dir", str(folder / "state"), "--hostname-override", NODE]
    command += ["--container-runtime-endpoint", endpoint, "--pod-logs-dir", str(folder / "state" / "logs")]
    with (folder / "agent.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, start_new_session=True)
    agent = MeasuredAgent(process, folder)
    try:
        yield agent
    finally:
        await agent.stop()
