"""A runtime on a private containerd, and pods on it in one line each."""

from pathlib import Path
from typing import Any, Final

from contract.runtime import ended
from kit.containerd import Containerd
from kit.cri import CriOutside
from pykubelet.api.container import Container
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.pod.container.labels import container_annotations, container_labels
from pykubelet.pod.container.sandbox_config import sandbox_config
from pykubelet.pod.observed import ObservedContainer
from pykubelet.pod.ports.runtime import (
    ContainerConfig,
    Runtime,
    SandboxConfig,
)

UID: Final = "uid-web"
FOREVER: Final = "trap 'exit 0' TERM; while :; do sleep 1000 & wait $!; done"


class CriNode:
    """A runtime on a containerd, and pods on it in one line each."""

    def __init__(self, containerd: Containerd, logs: Path) -> None:
        self.outside = CriOutside(containerd)
        self.containerd = containerd
        self.logs = logs

    @property
    def runtime(self) -> Runtime:
        return self.outside.runtime

    def sandbox(self, container: Container | None = None, **fields: Any) -> SandboxConfig:
        """Fields of the sandbox, else of the pod's spec."""
        own = {key: fields.pop(key) for key in (*fields,) if key in SandboxConfig.__struct_fields__}
        spec = PodSpec(containers=(container or Container(name="c", image="busybox:1.36"),), **fields)
        pod = Pod(metadata=ObjectMeta(name="web", namespace="default", uid=UID), spec=spec)
        return changed(sandbox_config(pod, 0, log_root=str(self.logs)), **own)

    async def add(self, sandbox_id: str, sandbox: SandboxConfig, script: str, name: str = "c", **fields: Any) -> str:
        """One more container, running. -> its id"""
        pod = sandbox.pod
        container = next((c for c in pod.spec.containers if c.name == name), Container(name=name))
        values: dict[str, Any] = {
            "image": "busybox:1.36",
            "command": ("sh", "-c", script),
            "labels": container_labels(pod, container),
            "annotations": container_annotations(pod, container, 0),
            "log_path": f"{name}/0.log",
            **fields,
        }
        config = ContainerConfig(name=name, sandbox=sandbox, **values)
        container_id = await self.runtime.create_container(sandbox_id, config)
        await self.runtime.start_container(container_id)
        return container_id

    async def start(self, script: str = FOREVER, *, sandbox: SandboxConfig | None = None, **fields: Any) -> str:
        sandbox = sandbox or self.sandbox()
        return await self.add((await self.runtime.run_sandbox(sandbox)).id, sandbox, script, **fields)

    async def run(self, script: str, **fields: Any) -> ObservedContainer:
        return await ended(self.runtime, UID, await self.start(script, **fields))

    async def ask(self, container_id: str, *command: str) -> str:
        result = await self.runtime.exec_sync(container_id, command, 10.0)
        assert result.exit_code == 0, result
        return result.stdout.decode()

    async def status_of(self, container_id: str) -> dict[str, str]:
        """What the kernel says of its first process."""
        lines = (await self.ask(container_id, "cat", "/proc/1/status")).splitlines()
        return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}

    def log(self, name: str = "c") -> list[str]:
        return (self.logs / f"default_web_{UID}" / name / "0.log").read_text().splitlines()
