"""Images of a CRI runtime."""

import asyncio
import logging
import math
import os
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import DecodeError, Struct, field, json

from pykubelet.base.errors import NotFound
from pykubelet.pod.ports.runtime import Image, PullCredentials, Storage
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.web.grpc_channel import Channel, Unimplemented

log = logging.getLogger(__name__)

SERVICE: Final = "runtime.v1.ImageService"


class Images:
    """Asks, and remembers only which user each image names: an image never changes."""

    def __init__(self, channel: Channel, runtime: Channel | None = None) -> None:
        self._channel = channel
        self._runtime = runtime or channel
        self._users: dict[str, str] = {}

    async def image(self, name: str) -> Image | None:
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        answer = await self._channel.call(f"{SERVICE}/ImageStatus", request, cri.ImageStatusResponse)
        return self._image(answer.image) if answer.HasField("image") and answer.image.id else None

    async def pull(self, name: str, credentials: PullCredentials | None) -> Image:
        """However long it takes: nobody knows how large an image is."""
        request = cri.PullImageRequest(image=cri.ImageSpec(image=name), auth=_auth(credentials))
        answer = await self._channel.call(f"{SERVICE}/PullImage", request, cri.PullImageResponse, deadline=math.inf)
        pulled = await self.image(name) or await self.image(answer.image_ref)
        if pulled is None:
            raise NotFound(f"image {name} was pulled as {answer.image_ref}, but is not here")
        return pulled

    async def all(self, *, kept: Collection[str] = ()) -> tuple[Image, ...]:
        """`kept`: the ids or names of those that are to be pinned, whatever the runtime says.

        A runtime that pins images pins that of its sandboxes. Older ones, such as containerd before 1.7, pin nothing:
        of those we ask which it is, for no container of ours uses it, and the next pod may find no registry.
        """
        answer = await self._channel.call(f"{SERVICE}/ListImages", cri.ListImagesRequest(), cri.ListImagesResponse)
        self._users = {key: user for key, user in self._users.items() if any(key == i.id for i in answer.images)}
        if answer.images and not any(each.pinned for each in answer.images):
            kept = {*kept, await self._sandbox_image()}
        return tuple(self._image(each, kept) for each in answer.images)

    async def storage(self) -> Storage | None:
        """The file system that the runtime says it unpacks images on. None: it does not say, or not in our words."""
        try:
            answer = await self._channel.call(
                f"{SERVICE}/ImageFsInfo", cri.ImageFsInfoRequest(), cri.ImageFsInfoResponse
            )
        except Unimplemented:
            return None
        places = [each.fs_id.mountpoint for each in answer.image_filesystems if each.fs_id.mountpoint]
        return await asyncio.to_thread(_storage, places[0]) if places else None

    async def remove(self, image_id: str) -> None:
        request = cri.RemoveImageRequest(image=cri.ImageSpec(image=image_id))
        await self._channel.call(f"{SERVICE}/RemoveImage", request, cri.RemoveImageResponse)

    async def user(self, image: str) -> str:
        """Whom an image, by id or name, wants to run as; empty when it does not say."""
        if image not in self._users:
            found = await self.image(image)
            return found.user if found is not None else ""
        return self._users[image]

    async def _sandbox_image(self) -> str:
        """The id of the image that sandboxes are made from; empty when the runtime does not say, or has it no more."""
        request = cri.StatusRequest(verbose=True)
        try:
            answer = await self._runtime.call("runtime.v1.RuntimeService/Status", request, cri.StatusResponse)
        except Unimplemented:
            return ""
        name = sandbox_image_name(answer.info)
        image = await self.image(name) if name else None
        return image.id if image else ""

    def _image(self, image: cri.Image, kept: Collection[str] = ()) -> Image:
        user = str(image.uid.value) if image.HasField("uid") else image.username
        self._users[image.id] = user
        return Image(
            id=image.id,
            names=(*image.repo_tags, *image.repo_digests),
            size=image.size,
            user=user,
            pinned=image.pinned or any(key in kept for key in (image.id, *image.repo_tags, *image.repo_digests)),
        )


class _Config(Struct, frozen=True):
    """What we want to know of containerd's configuration."""

    sandbox_image: str = field(default="", name="sandboxImage")


def sandbox_image_name(info: Mapping[str, str]) -> str:
    """From what a runtime says of itself when it is asked for everything; empty when that is not in it."""
    try:
        return json.decode(info.get("config", "{}"), type=_Config).sandbox_image
    except DecodeError:
        return ""


def _storage(place: str) -> Storage | None:
    try:
        found = os.statvfs(place)
    except OSError as error:  # the runtime may see other folders than we do
        log.debug("the runtime keeps images in %s, which cannot be looked at: %s", place, error)
        return None
    return Storage(capacity=found.f_blocks * found.f_frsize, available=found.f_bavail * found.f_frsize)


def _auth(credentials: PullCredentials | None) -> cri.AuthConfig | None:
    if credentials is None:
        return None
    return cri.AuthConfig(
        username=credentials.username,
        password=credentials.password,
        identity_token=credentials.token,
        server_address=credentials.server,
    )
