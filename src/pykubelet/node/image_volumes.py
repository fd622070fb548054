"""Images as volumes: pulled as the containers' own are, before the first container that mounts them is made."""

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.node.images import Images
from pykubelet.node.not_started import NotStarted
from pykubelet.pod.ports.runtime import Image, Mount


class ImageVolumes:
    """Those of one pod, while its containers are started: whoever mounts the same shares what came of it."""

    def __init__(self, images: Images, pod: Pod) -> None:
        self._images = images
        self._pod = pod
        self._sources = {volume.name: volume.image for volume in pod.spec.volumes if volume.image is not None}
        self._asked: dict[str, Image | NotStarted] = {}
        self._ids: dict[str, str] = {}

    async def pull(self, container: Container) -> None:
        """Those that the container mounts. Raises NotStarted when one of them cannot be had."""
        failures: list[NotStarted] = []
        for mount in container.volume_mounts if self._sources else ():
            source = self._sources.get(mount.name)
            if source is None:
                continue
            if mount.name not in self._asked:
                try:
                    self._asked[mount.name] = await self._images.of_volume(self._pod, container, source)
                except NotStarted as error:
                    self._asked[mount.name] = error
            answer = self._asked[mount.name]
            if isinstance(answer, NotStarted):
                self._images.tell_failure(self._pod, container, answer)
                failures.append(answer)
            else:
                self._ids[source.reference] = answer.id
        if failures:
            raise failures[-1]

    def mounted(self, mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
        """The mounts of a container, with the images that were found for them."""
        return tuple(changed(each, image_id=self._ids[each.image]) if each.image else each for each in mounts)
