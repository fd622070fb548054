"""What an image's name means to the embedded runtime: an image that is here, one that a registry has, or this machine.

`host` is always this machine: its programs are the container's. What other names mean is for `--images` to say.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod.ports.runtime import IMAGE_VOLUME_FAILED, ContainerConfig, Image, PullCredentials, Storage
from pykubelet.runtime.process.images.manifest import ImageConfig
from pykubelet.runtime.process.images.pull import Puller
from pykubelet.runtime.process.images.store import ImageStore, StoredImage
from pykubelet.runtime.process.shim.root import SHOWN
from pykubelet.runtime.settings import ImageSource

log = logging.getLogger(__name__)

MACHINE: Final = "machine"
HOST: Final = "host"
REGISTRIES: Final = "registries.yaml"


def image_store(root: Path) -> ImageStore:
    """That of the runtime with this root folder: also for who is not the agent."""
    return ImageStore(root / "images", root / "containers")


class UsedImage(Struct, frozen=True, kw_only=True):
    """What a container is made of."""

    config: ImageConfig = ImageConfig()
    layers: tuple[Path, ...] = ()
    """The topmost first."""
    accounts: Path
    """Where `etc/passwd` and `etc/group` of it are."""


class Images:
    """What blocks is called in threads: all that is not a coroutine."""

    def __init__(self, root: Path, source: ImageSource) -> None:
        self.store = image_store(root)
        self.source = source
        self._puller = Puller(self.store, root.parent / REGISTRIES)
        self._pulls: dict[str, asyncio.Lock] = {}

    def open(self) -> None:
        self.store.open()
        try:
            self.store.sweep()
        except Retry as error:  # what is left over takes up room, and that is all
            log.warning("images: nothing is cleared away: %s", error)

    # --- for the node

    def get(self, name: str) -> Image | None:
        if name == HOST:
            return _machine(name)
        found = self._find(name)
        if found is not None:
            return found.as_image()
        return _machine(name) if self.source == "machine" else None

    def _find(self, name: str) -> StoredImage | None:
        try:
            return self.store.find(name)
        except Invalid:
            return None

    async def pull(self, name: str, credentials: PullCredentials | None) -> Image:
        """Those who want the same at the same time share what is brought, if not whose it is."""
        if name == HOST or self.source == "machine":
            here = await asyncio.to_thread(self.get, name)
            assert here is not None
            return here
        lock = self._pulls.setdefault(name, asyncio.Lock())
        try:
            async with lock:
                return (await self._puller.pull(name, credentials)).as_image()
        finally:
            if not lock.locked():
                self._pulls.pop(name, None)

    def stand_in(self, container: Container) -> Image | None:
        """When no registry can be reached: this machine, if it has the program. Not in the place of what is here: who
        wants that pulled anew has a reason."""
        command = (*container.command, *container.args)
        if self.source != "auto" or not command or self._find(container.image) is not None:
            return None
        return _machine(container.image) if _has_program(command[0], container) else None

    def all(self) -> tuple[Image, ...]:
        return (_machine(HOST), *(each.as_image() for each in self.store.all()))

    def remove(self, image_id: str) -> None:
        if image_id == MACHINE:
            raise Invalid("this machine is no image that could be removed")
        try:
            self.store.remove(image_id)
        except NotFound:
            return

    def storage(self) -> Storage | None:
        return self.store.storage()

    # --- for containers

    def id_of(self, config: ContainerConfig) -> str:
        """Raises Invalid when it is not here."""
        if config.image_id:
            return config.image_id
        found = self.get(config.image)
        if found is None:
            raise Invalid(f"image {config.image} is not here")
        return found.id

    def used(self, image_id: str) -> UsedImage | None:
        """None: it is this machine. Raises Invalid when it is not here."""
        if image_id == MACHINE:
            return None
        found = self.store.find(image_id)
        if found is None:
            raise Invalid(f"image {image_id} is not here any more")
        layers = tuple(self.store.folders(found))
        if not layers:  # without any, a container's root would be this machine's
            raise Invalid(f"image {image_id} has no layers")
        return UsedImage(config=found.config, layers=layers, accounts=self.store.accounts(found))

    def mounted(self, config: ContainerConfig) -> dict[str, UsedImage]:
        """The images that are volumes of a container, by their ids. Raises Invalid."""
        found = {}
        for mount in config.mounts:
            if not mount.image:
                continue
            image = self.used(mount.image_id) if mount.image_id else None
            if image is None:
                why = f"{mount.image} is not the name of an image here, but of this machine"
                raise Invalid(f"{IMAGE_VOLUME_FAILED}: {why}; its files are mounted by a hostPath")
            found[mount.image_id] = image
        return found

    def use(self, image_id: str, config: ContainerConfig, note: Callable[[], object]) -> None:
        """Write down that a container is made from it, and mounts others: none can go meanwhile, nor later. Raises
        Retry when one has."""
        ids = [each for each in (image_id, *(mount.image_id for mount in config.mounts)) if each not in (MACHINE, "")]
        with self.store.using(*ids) if ids else nullcontext():
            note()

    def reference(self, image_id: str) -> str:
        """By which people can pull the same again; empty when there is no such."""
        found = self.store.find(image_id) if image_id != MACHINE else None
        return next(iter(found.digests), "") if found else ""


def _machine(name: str) -> Image:
    return Image(id=MACHINE, names=(name,), pinned=True, built_in=True)


def _has_program(name: str, container: Container) -> bool:
    """Where a container on this machine would look for it, or in one of its volumes."""
    if "/" not in name:
        return shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") is not None
    if any(f"{name}/".startswith(mount.mount_path.rstrip("/") + "/") for mount in container.volume_mounts):
        return True
    return name.split("/")[1] in SHOWN and os.access(name, os.X_OK)
