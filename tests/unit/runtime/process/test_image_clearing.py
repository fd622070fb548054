"""The agent's own clearing of images, on the embedded runtime: what nobody uses goes, and its room is there again."""

import pytest

from kit.oci import busybox_layer, make_image
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.node.image_gc import ImageGc
from pykubelet.pod.images.image_gc import ImageGcSettings
from pykubelet.runtime.process.images.images import image_store
from unit.runtime.process.machine import Machine


async def test_a_full_disk_takes_the_images_that_nobody_uses(isolated: Machine) -> None:
    layer = busybox_layer()
    names = [f"example.com/{name}:1" for name in ("used", "unused", "imported")]
    await isolated.has(*(make_image(name, layer) for name in names))
    store = image_store(isolated.root)
    for image in store.all():
        if "imported" not in image.names[0]:  # as if they had been pulled
            store.add(changed(image, imported=False))
    await isolated.start("exec sleep 1000", image=names[0])
    assert {image.pinned for image in await isolated.runtime.images() if image.names[0] in names[:2]} == {False}
    clearing = ImageGc(isolated.runtime, settings=ImageGcSettings(high=1, low=0, minimum_age=0))
    with pytest.raises(Retry, match="Failed to garbage collect required amount of images"):  # the whole disk
        await clearing.collect(isolated.runtime.pods)
    left = [image.names[0] for image in await isolated.runtime.images()]
    assert sorted(left) == sorted(["host", names[0], names[2]])
    assert (await isolated.runtime.image_storage()) is not None
