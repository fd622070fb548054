"""Pulling an image: which manifest is meant, what of it is here already, and the rest of it, a few layers at a time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Final, TypeVar

from pykubelet.api.image import ImageName, parse_image
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.pod.ports.runtime import PullCredentials, RegistryUnreachable
from pykubelet.runtime.process.images.hosts import Endpoint, endpoints, read_registries
from pykubelet.runtime.process.images.manifest import (
    Descriptor,
    Document,
    ImageFile,
    chain_ids,
    check_digest,
    digest_of,
    document,
    for_this_machine,
    image_file,
)
from pykubelet.runtime.process.images.store import ImageStore, StoredImage
from pykubelet.runtime.process.images.unpacking import Unpacked, unpack
from pykubelet.runtime.process.store import remove_tree

T = TypeVar("T")

_AT_ONCE: Final = 3
_TRIES: Final = 3
_NESTED: Final = 3
_REMEMBERED: Final = 30.0
"""Seconds for which a registry that could not be reached is not tried again."""

Source = Callable[[Descriptor], AsyncIterator[bytes]]


class Puller:
    def __init__(self, store: ImageStore, registries: Path) -> None:
        self._store = store
        self._registries = registries
        self._out_of_reach: dict[str, tuple[float, str]] = {}
        """By endpoint: until when, and why."""
        self._reached: set[str] = set()
        self._doors: dict[str, asyncio.Lock] = {}
        """Of endpoints that have never answered: one at a time tries, for a name that cannot be looked up holds on to a
        thread long after nobody waits for it any more."""

    async def pull(self, name: str, credentials: PullCredentials | None) -> StoredImage:
        """Raises RegistryUnreachable, Retry, NotFound, Invalid."""
        try:
            parsed = parse_image(name)
        except ValueError as error:
            raise Invalid(str(error)) from None
        registry, _, _ = parsed.repository.partition("/")
        failures: list[PykubeletError] = []
        for endpoint in endpoints(registry, await asyncio.to_thread(read_registries, self._registries)):
            try:
                return await self._pull(endpoint, parsed, credentials)
            except (RegistryUnreachable, Retry, NotFound) as failure:
                failures.append(failure)
        answered = [each for each in failures if not isinstance(each, RegistryUnreachable)]
        raise (answered or failures)[-1]

    async def _pull(self, endpoint: Endpoint, name: ImageName, credentials: PullCredentials | None) -> StoredImage:
        from pykubelet.runtime.process.images.registry import Registry, new_session

        async with new_session(endpoint) as session:
            asked = Registry(session, endpoint, name.repository.partition("/")[2], credentials)
            data, kind = await self._reach(endpoint.url, lambda: asked.manifest(name.digest or name.tag))
            digest, read = digest_of(data), document(data, kind)
            for _ in range(_NESTED):
                if read.manifests is None:
                    break
                chosen = check_digest(for_this_machine(read).digest)
                read = document(*await asked.manifest(chosen))
            image = as_manifest(read)
            file = image_file(await asked.config(image[0]), len(image[1]))
            tagged = () if name.digest else (str(name),)
            stored = StoredImage(
                id=image[0].digest,
                names=tagged,
                digests=(f"{name.repository}@{name.digest or digest}",),
                config=file.config,
                layers=tuple(chain_ids(file.rootfs.diff_ids)),
            )
            return await bring(self._store, stored, file, image[1], asked.blob)

    async def _reach(self, url: str, ask: Callable[[], Awaitable[T]]) -> T:
        """The first question to an endpoint."""
        loop = asyncio.get_running_loop()
        door = self._doors.setdefault(url, asyncio.Lock()) if url not in self._reached else nullcontext()
        async with door:
            until, why = self._out_of_reach.get(url, (0.0, ""))
            if loop.time() < until:
                raise RegistryUnreachable(why)
            try:
                found = await ask()
            except RegistryUnreachable as error:
                known = {each: when for each, when in self._out_of_reach.items() if when[0] > loop.time()}
                self._out_of_reach = {**known, url: (loop.time() + _REMEMBERED, str(error))}
                self._doors = {each: door for each, door in self._doors.items() if door.locked() or each in known}
                self._reached.discard(url)
                raise
            except PykubeletError:
                self._answered(url)
                raise
            self._answered(url)
            return found

    def _answered(self, url: str) -> None:
        self._reached.add(url)
        self._out_of_reach.pop(url, None)
        self._doors.pop(url, None)


def as_manifest(read: Document) -> tuple[Descriptor, tuple[Descriptor, ...]]:
    """-> configuration and layers. Raises Invalid for an index of indexes without an end."""
    if read.config is None or read.layers is None:
        raise Invalid("its index leads to no image")
    return read.config, read.layers


async def bring(
    store: ImageStore, image: StoredImage, file: ImageFile, layers: tuple[Descriptor, ...], source: Source
) -> StoredImage:
    """An image with all its layers, those that are not here yet from a source of what is packed."""
    lease = store.lease()
    await asyncio.to_thread(lease.__enter__)
    made: dict[int, asyncio.Task[tuple[Path, Unpacked]]] = {}
    try:
        missing = [layer for layer, chain in zip(layers, image.layers, strict=True) if not store.has_layer(chain)]
        _check_room(store, sum(each.size for each in missing))
        room = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for number, chain in enumerate(image.layers):
                if not store.has_layer(chain):
                    fresh = _unpacked(store, room, layers[number], file.rootfs.diff_ids[number], source)
                    made[number] = group.create_task(fresh)
        for number, task in made.items():
            folder, unpacked = task.result()
            below = image.layers[:number]
            await asyncio.to_thread(store.add_layer, folder, image.layers[number], below, unpacked)
        return await asyncio.to_thread(store.add, image)
    except BaseExceptionGroup as errors:
        known = [each for each in errors.exceptions if isinstance(each, PykubeletError)]
        raise (known or errors.exceptions)[0] from None
    finally:
        for task in made.values():
            if not task.cancelled() and task.done() and task.exception() is None:
                await asyncio.to_thread(remove_tree, task.result()[0])
        lease.__exit__(None, None, None)


async def _unpacked(
    store: ImageStore, room: asyncio.Semaphore, layer: Descriptor, diff_id: str, source: Source
) -> tuple[Path, Unpacked]:
    """In a folder of its own. A source that breaks off is asked again."""
    async with room:
        for attempt in range(1, _TRIES + 1):
            folder = await asyncio.to_thread(store.new_folder)
            try:
                unpacked = await unpack(source(layer), folder / "files")
                if unpacked.diff_id != diff_id:
                    raise Invalid(f"its layer {layer.digest} unpacks to {unpacked.diff_id} instead of {diff_id}")
                return folder, unpacked
            except BaseException as error:
                await asyncio.to_thread(remove_tree, folder)
                if not isinstance(error, Retry) or attempt == _TRIES:
                    raise
                await asyncio.sleep(attempt)
    raise AssertionError


def _check_room(store: ImageStore, packed: int) -> None:
    storage = store.storage()
    if storage is not None and packed > storage.available:
        raise Retry(f"it needs more than {packed} bytes on the disk, of which {storage.available} are free")
