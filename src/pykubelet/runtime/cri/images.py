"""Images of a CRI runtime."""

from typing import Final

from pykubelet.base.errors import NotFound
from pykubelet.pod.ports import Image, Registry
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.channel import Channel

SERVICE: Final = "runtime.v1.ImageService"


class Images:
    """Asks, and remembers only which user each image names: an image never changes."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._users: dict[str, str] = {}

    async def image(self, name: str) -> Image | None:
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        answer = await self._channel.call(f"{SERVICE}/ImageStatus", request, cri.ImageStatusResponse)
        return self._image(answer.image) if answer.HasField("image") and answer.image.id else None

    async def pull(self, name: str, credentials: Registry | None) -> Image:
        """However long it takes: nobody knows how large an image is."""
        request = cri.PullImageRequest(image=cri.ImageSpec(image=name), auth=_auth(credentials))
        answer = await self._channel.call(f"{SERVICE}/PullImage", request, cri.PullImageResponse, deadline=None)
        pulled = await self.image(name) or await self.image(answer.image_ref)
        if pulled is None:
            raise NotFound(f"image {name} was pulled as {answer.image_ref}, but is not here")
        return pulled

    async def all(self) -> tuple[Image, ...]:
        answer = await self._channel.call(f"{SERVICE}/ListImages", cri.ListImagesRequest(), cri.ListImagesResponse)
        self._users = {key: user for key, user in self._users.items() if any(key == i.id for i in answer.images)}
        return tuple(self._image(each) for each in answer.images)

    async def remove(self, image_id: str) -> None:
        request = cri.RemoveImageRequest(image=cri.ImageSpec(image=image_id))
        await self._channel.call(f"{SERVICE}/RemoveImage", request, cri.RemoveImageResponse)

    async def user(self, image: str) -> str:
        """Whom an image, by id or name, wants to run as; empty when it does not say."""
        if image not in self._users:
            found = await self.image(image)
            return found.user if found is not None else ""
        return self._users[image]

    def _image(self, image: cri.Image) -> Image:
        user = str(image.uid.value) if image.HasField("uid") else image.username
        self._users[image.id] = user
        return Image(
            id=image.id,
            names=(*image.repo_tags, *image.repo_digests),
            size=image.size,
            user=user,
            pinned=image.pinned,
        )


def _auth(credentials: Registry | None) -> cri.AuthConfig | None:
    if credentials is None:
        return None
    return cri.AuthConfig(
        username=credentials.username,
        password=credentials.password,
        identity_token=credentials.token,
        server_address=credentials.server,
    )
