# ruff: noqa: ASYNC240 - tests may block
"""A process runtime on this machine, the programs that tests run on it, and a look at what it leaves behind."""

import json
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from contract.runtime import DEADLINE, container_config, ended, sandbox_config
from kit.oci import OciImage, write_layout
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.security import PodSecurityContext, SecurityContext
from pykubelet.api.struct import changed
from pykubelet.pod.observed import ObservedContainer
from pykubelet.pod.ports.runtime import SandboxConfig
from pykubelet.runtime.process.images.archive import import_archive
from pykubelet.runtime.process.images.images import image_store
from pykubelet.runtime.process.process import Identity
from pykubelet.runtime.process.runtime import ProcessRuntime
from pykubelet.runtime.process.shim import files
from pykubelet.runtime.process.streams import ProcessStreams

_LOOP = "while :; do sleep 1000 & wait; done"
UID = "uid-web"


class Machine:
    """A runtime's root folder, and the runtime on it. Also the `Outside` of the contract."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self._options = options
        self.runtime = ProcessRuntime(root, **options)

    # --- the contract's side

    @property
    def streams(self) -> ProcessStreams:
        streams = self.runtime.capabilities.streams
        assert isinstance(streams, ProcessStreams)
        return streams

    def program(self) -> tuple[str, ...]:
        return ("sh", "-c", f"trap 'exit 0' USR1; trap 'exit 3' USR2; trap 'exit 143' TERM; {_LOOP}")

    def stubborn(self) -> tuple[str, ...]:
        return ("sh", "-c", f"trap '' TERM; trap 'exit 0' USR1; {_LOOP}")

    async def settled(self) -> None:
        """Each of our programs minds its signals when it has a child."""
        for run in self._facts("containers", "run.json"):
            main = Identity(**run["main"])
            await eventually(lambda main=main: not main.is_alive or files.descendants(main.pid))  # type: ignore[misc]

    async def end(self, uid: str, name: str, code: int) -> None:
        await self.settled()
        for folder in (self.root / "containers").iterdir():
            state = json.loads((folder / "state.json").read_text())
            sandbox = json.loads((self.root / "sandboxes" / state["sandbox_id"] / "state.json").read_text())
            if (sandbox["config"]["pod"]["metadata"]["uid"], state["config"]["name"]) == (uid, name):
                main = json.loads((folder / "run.json").read_text())["main"]
                os.kill(main["pid"], signal.SIGUSR2 if code else signal.SIGUSR1)

    async def restarted(self) -> ProcessRuntime:
        await self.runtime.close()
        self.runtime = ProcessRuntime(self.root, **self._options)
        return self.runtime

    async def has(self, *images: OciImage) -> None:
        """From now on, without a registry."""
        store = image_store(self.root)
        store.open()
        archive = self.root / f"{secrets.token_hex(4)}.tar"
        write_layout(images, archive)
        with archive.open("rb") as file:
            await import_archive(store, file)
        archive.unlink()

    # --- what most tests do

    async def start(self, script: str, *, sandbox: SandboxConfig | None = None, **fields: Any) -> str:
        """A container with a shell script, in a sandbox of its own. -> its id"""
        sandbox_id = (await self.runtime.run_sandbox(sandbox or sandbox_config())).id
        command = fields.pop("command", ("sh", "-c", script))
        config = container_config(self, command=command, **fields)
        container_id = await self.runtime.create_container(sandbox_id, config)
        await self.runtime.start_container(container_id)
        return container_id

    async def run(self, script: str, **fields: Any) -> tuple[ObservedContainer, str]:
        """A script to its end. -> the container, and all that it said"""
        container_id = await self.start(script, **fields)
        container = await ended(self.runtime, UID, container_id)
        return container, self.output(container_id)

    def output(self, container_id: str) -> str:
        """Both streams, without what the log adds."""
        text = b""
        for line in self.log(container_id).read_bytes().splitlines(keepends=True):
            _, _, tag, content = line.split(b" ", 3)
            text += content if tag == b"F" else content[:-1]
        return text.decode()

    def log(self, container_id: str) -> Path:
        return Path(json.loads((self.root / "containers" / container_id / "state.json").read_text())["log"])

    def main(self, container_id: str) -> Identity:
        return Identity(**json.loads((self.root / "containers" / container_id / "run.json").read_text())["main"])

    def monitor(self, container_id: str) -> Identity:
        return Identity(**json.loads((self.root / "containers" / container_id / "run.json").read_text())["monitor"])

    # --- what must not be left

    async def close(self) -> None:
        """Remove everything, and see that nothing is left of it."""
        traces, foreign = self._traces(), self._foreign()
        for pod in await self.runtime.pods():
            for sandbox in pod.sandboxes:
                await self.runtime.remove_sandbox(sandbox.id)
        await self.runtime.close()
        await eventually(lambda: not [each for each in traces if is_there(each)])
        assert not list((self.root / "containers").iterdir())
        assert not list((self.root / "sandboxes").iterdir())
        assert str(self.root) not in Path("/proc/self/mountinfo").read_text()
        assert not [path for path in foreign if os.path.exists(path)]

    def _traces(self) -> list[Identity]:
        """Every process of ours that runs."""
        found = [Identity(**run["holder"]) for run in self._facts("sandboxes", "run.json")]
        for run in self._facts("containers", "run.json"):
            monitor = Identity(**run["monitor"])
            found += [monitor, Identity(**run["main"])]
            below = files.descendants(monitor.pid) if monitor.is_alive else {}
            found += [Identity(pid, start, monitor.boot) for pid, start in below.items()]
        return found

    def _foreign(self) -> list[str]:
        """What lies outside of the root folder."""
        states = self._facts("containers", "state.json")
        found = [each for state in states for each in state.get("placement", {}).get("folders", ())]
        assembly = self.runtime._assembly
        places = (self.runtime._store.memory, assembly._memory if assembly else None)
        return [*found, *(str(place) for place in places if place)]

    def _facts(self, kind: str, name: str) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in (self.root / kind).glob(f"[!.]*/{name}")]


def is_there(identity: Identity) -> bool:
    """Alive, or a zombie that is not left to the machine's first process: how soon that reaps is its own affair."""
    try:
        fields = files.stat_fields(identity.pid)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(fields[21]) == identity.start and not (fields[2] == "Z" and fields[3] == "1")


@asynccontextmanager
async def machine(root: Path, **options: Any) -> AsyncIterator[Machine]:
    """A runtime that is seen to leave nothing behind."""
    made = Machine(root, **options)
    try:
        yield made
    finally:
        await made.close()


async def when(condition: Callable[[], object]) -> None:
    await eventually(condition, seconds=DEADLINE)


def sandbox_of(
    context: SecurityContext | None = None, shared: PodSecurityContext | None = None, **spec: Any
) -> SandboxConfig:
    """A pod with security contexts, or with other fields of its spec."""
    config = sandbox_config()
    pod: Pod = config.pod
    container = Container(name="c", image="busybox:1.36", security_context=context)
    pod = changed(pod, spec=changed(pod.spec, containers=(container,), security_context=shared, **spec))
    return changed(config, pod=pod)


async def texts(path: Path, wanted: str) -> None:
    """Wait until a file holds a text."""
    await when(lambda: path.exists() and wanted in path.read_text())
