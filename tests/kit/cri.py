"""The CRI runtime on a private containerd, and the programs that tests run on it."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from contract.runtime import DEADLINE, FAILURE
from kit.containerd import Containerd
from kit.waiting import eventually
from pykubelet.base.errors import Retry
from pykubelet.pod.ports.runtime import Runtime
from pykubelet.runtime.cri.factory import make
from pykubelet.runtime.settings import RuntimeSettings

_LOOP = "while :; do sleep 1000 & wait $!; done"
_CONTAINERS = 'labels."io.cri-containerd.kind"==container'


def runtime_on(containerd: Containerd) -> Runtime:
    root = containerd.root / "agent" / "runtime"
    return make(RuntimeSettings(endpoint=containerd.endpoint, root=root, log_root=containerd.root / "logs"))


async def cleared(runtime: Runtime) -> None:
    """Nothing is left in the runtime; it is closed."""
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as together:
        for pod in await runtime.pods():
            for sandbox in pod.sandboxes:
                together.create_task(_removed(runtime, sandbox.id))
    await runtime.close()


async def _removed(runtime: Runtime, sandbox_id: str) -> None:
    """Taking a network down may fail while others change the same tables; as the agent would, try again."""
    while True:
        try:
            return await runtime.remove_sandbox(sandbox_id)
        except Retry as error:
            print(f"sandbox {sandbox_id} could not be removed at once: {error}")
            await asyncio.sleep(0.1)


class CriOutside:
    """The `Outside` of the contract."""

    def __init__(self, containerd: Containerd) -> None:
        self.containerd = containerd
        self.runtime = runtime_on(containerd)

    def program(self) -> tuple[str, ...]:
        return ("sh", "-c", f"trap 'exit 0' USR1; trap 'exit {FAILURE}' USR2; trap 'exit 143' TERM; {_LOOP}")

    def stubborn(self) -> tuple[str, ...]:
        return ("sh", "-c", f"trap '' TERM; {_LOOP}")

    async def settled(self) -> None:
        """Each of our programs minds its signals when it has a child."""
        for pid in (await self.pids(_CONTAINERS)).values():
            await eventually(lambda pid=pid: _minds_its_signals(pid))  # type: ignore[misc]

    async def end(self, uid: str, name: str, code: int) -> None:
        await self.settled()
        labels = {"io.kubernetes.pod.uid": uid, "io.kubernetes.container.name": name}
        match = ",".join(f'labels."{key}"=={value}' for key, value in labels.items())
        for pid in (await self.pids(match)).values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR2 if code else signal.SIGUSR1)

    async def restarted(self) -> Runtime:
        await self.runtime.close()
        self.runtime = runtime_on(self.containerd)
        return self.runtime

    async def pids(self, match: str) -> dict[str, int]:
        """Of running containers, by id."""
        ids = (await asyncio.to_thread(self.containerd.ctr, "containers", "ls", "-q", match)).split()
        lines = (await asyncio.to_thread(self.containerd.ctr, "tasks", "ls")).splitlines()[1:]
        tasks = {task: int(pid) for task, pid, state in map(str.split, lines) if state == "RUNNING"}
        return {container_id: tasks[container_id] for container_id in ids if container_id in tasks}


def _minds_its_signals(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text())
    except OSError:
        return True  # it has ended
