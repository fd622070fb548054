"""The whole of what the shim is told about a sandbox, a container or a command, put together from its parts."""

import logging
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.observed import State
from pykubelet.pod.ports.runtime import ContainerConfig, SandboxConfig
from pykubelet.runtime.process import cgroups, process, specs
from pykubelet.runtime.process.abilities import Abilities
from pykubelet.runtime.process.filters import Filters
from pykubelet.runtime.process.images.images import Images
from pykubelet.runtime.process.images.layers import put_together
from pykubelet.runtime.process.known import Container, Sandbox
from pykubelet.runtime.process.machine_files import MachineFiles
from pykubelet.runtime.process.memory import memory_folder
from pykubelet.runtime.process.security import target_of
from pykubelet.runtime.process.shim import kernel
from pykubelet.runtime.process.shim.places import SAFE
from pykubelet.runtime.process.store import ContainerRecord, SandboxRecord, remove_tree

if TYPE_CHECKING:
    from pykubelet.runtime.process.shim.spec import (
        ContainerSpec,
        ExecSpec,
        Holder,
        Identity,
        ProgramSpec,
        RootSpec,
        SandboxSpec,
    )

log = logging.getLogger(__name__)

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the kernel's place for shared memory
_SHARED_SIZE: Final = 64 << 20
"""Bytes of it that a pod has, as in container runtimes; who needs more mounts an emptyDir in memory there."""


class Logs(Struct, frozen=True, kw_only=True):
    """Where containers write, unless their sandbox says where, and how much of it is kept."""

    root: Path
    size: int
    files: int


class Assembly:
    """All of it may block: it is called in threads."""

    def __init__(
        self,
        abilities: Abilities,
        images: Images,
        filters: Filters,
        *,
        sandboxes: Path,
        containers: Path,
        machine_files: MachineFiles,
        logs: Logs,
    ) -> None:
        self._abilities = abilities
        self._images = images
        self._filters = filters
        self._sandboxes = sandboxes
        self._containers = containers
        self._machine_files = machine_files
        self._memory = _memory(sandboxes)
        self._logs = logs

    def record(self, sandbox: SandboxRecord, config: ContainerConfig) -> ContainerRecord:
        """Of a container that is to be."""
        meta = sandbox.config.pod.metadata
        logs = sandbox.config.log_directory or str(self._logs.root / f"{meta.namespace}_{meta.name}_{meta.uid}")
        image_id = self._images.id_of(config)
        return ContainerRecord(
            id=secrets.token_hex(16),
            sandbox_id=sandbox.id,
            config=config,
            image_id=image_id,
            image_ref=self._images.reference(image_id),
            log=str(Path(logs) / (config.log_path or f"{config.name}/{config.attempt}.log")),
            created_at=datetime.now(UTC),
        )

    # --- sandboxes

    def prepare_sandbox(self, record: SandboxRecord) -> "SandboxSpec":
        """Write what its containers will need, beside the record that is there already."""
        folder = self._sandboxes / record.id
        namespaces = specs.sandbox_namespaces(record.config, self._abilities)
        (folder / "resolv.conf").write_text(specs.resolv_conf(record.config))
        (folder / "hostname").write_text(specs.hostname_of(record.config) + "\n")
        for name in ("resolv.conf", "hostname"):
            (folder / name).chmod(0o644)
        if namespaces and not record.config.pod.spec.host_ipc:
            shared = self._shared_memory(record.id)
            shared.parent.mkdir(mode=0o700, exist_ok=True)
            shared.mkdir(exist_ok=True)
            shared.chmod(0o1777)
            if not self._abilities.in_user_namespace:
                kernel.mount("tmpfs", str(shared), "tmpfs", SAFE, f"mode=1777,size={_SHARED_SIZE}")
        return {"folder": str(folder), "hostname": record.config.hostname, "namespaces": list(namespaces)}

    def clear_sandbox(self, sandbox: Sandbox) -> None:
        """Of what has ended only files on disk are left."""
        for container in tuple(sandbox.containers):
            cgroups.remove(container.record.placement.folders)
        shared = self._shared_memory(sandbox.id)
        if not shared.parent.exists():
            return
        with suppress(OSError):  # an ordinary user's is not mounted
            kernel.unmount(str(shared))
        remove_tree(shared.parent)

    def _shared_memory(self, sandbox_id: str) -> Path:
        """Where /dev/shm of a pod really is: in memory, if there is a place for that."""
        return (self._memory or self._sandboxes / sandbox_id) / f"pykubelet-{sandbox_id}" / "shm"

    def close(self) -> None:
        """When there are no sandboxes any more, whose containers would have this folder covered."""
        if self._memory is not None:
            with suppress(OSError):
                self._memory.rmdir()

    # --- containers

    def check(self, sandbox: SandboxConfig, config: ContainerConfig, image_id: str) -> None:
        """Raise Invalid for what cannot be run here."""
        image = self._images.used(image_id)
        self._program(sandbox, config, image_id)
        specs.root_spec(sandbox, config, image, self._abilities, "", self._images.mounted(config))
        specs.stop_signal_of(config, image)

    def container(self, container: Container) -> "ContainerSpec":
        config, sandbox, placement = container.record.config, container.sandbox, container.record.placement
        image = self._images.used(container.record.image_id)
        program = self._program_of(container)
        scratch = self._containers / container.id / f"scratch-{secrets.token_hex(4)}"
        scratch.mkdir(mode=0o700)
        mounted = self._images.mounted(config)
        root = specs.root_spec(sandbox.record.config, config, image, self._abilities, str(scratch), mounted)
        if root is not None:
            _make_missing(config)
            root["hidden"] = [] if root["image"] else self._machine_files.hidden()
            if not self._abilities.overlay:
                _copy_images(root)
            root["shm"] = self._shm_of(sandbox)
            root["files"] = self._files_of(sandbox, config)
        log = Path(container.record.log)
        log.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        holder = _holder(sandbox)
        shares_pids = "pid" in holder["namespaces"] or bool(sandbox.record.config.pod.spec.host_pid)
        target = None if shares_pids or not self._abilities.namespaces else _target_of(container)
        return {
            "folder": str(self._containers / container.id),
            "name": config.name,
            "holder": holder,
            "own_pids": self._abilities.namespaces and not shares_pids and target is None,
            "target": target,
            "root": root,
            "program": program,
            "tty": config.tty,
            "stdin": config.stdin,
            "stop_signal": specs.stop_signal_of(config, image),
            "log": str(log),
            "log_size": self._logs.size,
            "log_files": self._logs.files,
            "oom_events": placement.oom_events,
        }

    def command(self, container: Container, command: tuple[str, ...]) -> "ExecSpec":
        """One more program, with the surroundings of the first."""
        config, run = container.record.config, container.run
        if run is None:
            raise Retry(f"container {config.name} does not run")
        program = self._program_of(container)
        program["argv"] = list(command)
        program["scoped"] = False  # it could not look into the container's own processes
        return {"holder": _holder(container.sandbox), "main": _identity(run.main), "program": program}

    def _program_of(self, container: Container) -> "ProgramSpec":
        record = container.record
        if not record.is_whole:
            raise Invalid(
                f"the environment of container {record.config.name} is lost: somebody has cleared the memory that it "
                "was kept in; nothing more can be started in there, but the container can be replaced"
            )
        program = self._program(container.sandbox.record.config, record.config, record.image_id)
        program["cgroups"] = record.placement.entries
        return program

    def _program(self, sandbox: SandboxConfig, config: ContainerConfig, image_id: str) -> "ProgramSpec":
        program = specs.program_spec(sandbox, config, self._images.used(image_id), self._abilities)
        program["seccomp"] = self._filters.filter_of(sandbox.pod, config.name, program["capabilities"], self._abilities)
        return program

    def _shm_of(self, sandbox: Sandbox) -> str:
        return str(_MEMORY if sandbox.record.config.pod.spec.host_ipc else self._shared_memory(sandbox.id))

    def _files_of(self, sandbox: Sandbox, config: ContainerConfig) -> list[tuple[str, str]]:
        """What the pod mounts itself comes first."""
        taken = {mount.container_path for mount in config.mounts}
        names = [name for name in ("resolv.conf", "hostname") if f"/etc/{name}" not in taken]
        return [(f"/etc/{name}", str(self._sandboxes / sandbox.id / name)) for name in names]


def _make_missing(config: ContainerConfig) -> None:
    """A `hostPath` of no type is a folder where nothing is, as with other runtimes. Raises OSError."""
    for mount in config.mounts:
        if not mount.image:
            with suppress(FileExistsError):
                Path(mount.host_path).mkdir(0o755, parents=True)


def _copy_images(root: "RootSpec") -> None:
    """For one container alone, beside its scratch folder: nothing can be laid over another here."""
    scratch = Path(root["scratch"])
    for number, image in enumerate((root, *root["mounts"])):
        if image["image"]:
            copy = scratch.with_name(f"{scratch.name.replace('scratch', 'image')}-{number}")
            put_together([Path(layer) for layer in image["image"]], copy)
            image["image"] = [str(copy)]


def _memory(sandboxes: Path) -> Path | None:
    """One folder for all pods, so that who has this machine's shared memory can be kept from it once and for all."""
    try:
        return memory_folder(sandboxes, [_MEMORY])
    except Invalid as error:
        log.warning("the shared memory of pods is on disk: %s", error)
        return None


def _holder(sandbox: Sandbox) -> "Holder":
    if sandbox.run is None:
        raise Retry("the sandbox does not run")
    return {"identity": _identity(sandbox.run.holder), "namespaces": list(sandbox.run.namespaces)}


def _target_of(container: Container) -> "Identity | None":
    """The program of the container that an ephemeral one is to look at. Raises Retry while that does not run."""
    name = target_of(container.sandbox.record.config.pod, container.record.config.name)
    if not name:
        return None
    for other in container.sandbox.containers:
        if other.record.config.name == name and other.state is State.RUNNING and other.run is not None:
            return _identity(other.run.main)
    raise Retry(f"its target container {name} does not run")


def _identity(process: process.Identity) -> "Identity":
    return {"pid": process.pid, "start": process.start, "boot": process.boot}
