"""Images of a CRI runtime, with answers that are made up."""

from pathlib import Path
from typing import Any, cast

import pytest
from google.protobuf.message import Message

from pykubelet.base.errors import Retry
from pykubelet.pod.ports.runtime import Image, Storage
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.images import Images, sandbox_image_name
from pykubelet.web.grpc_channel import Channel, Unimplemented

PAUSE = cri.Image(id="sha256:1", repo_tags=["registry.k8s.io/pause:3.6"], size=7)
APP = cri.Image(id="sha256:2", repo_tags=["docker.io/library/app:1"], repo_digests=["docker.io/library/app@sha256:9"])


class Answers:
    """A channel that knows the answers. What it does not know, it cannot do."""

    def __init__(self, **answers: Message | Exception) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def call(self, method: str, request: Message, reply: Any, **_: object) -> Message:
        name = method.rpartition("/")[2]
        self.asked.append(name)
        answer = self.answers.get(name, Unimplemented(f"unknown method {name}"))
        if isinstance(answer, Exception):
            raise answer
        return answer


def images_of(channel: Answers) -> Images:
    return Images(cast(Channel, channel))


def listed(*images: cri.Image) -> cri.ListImagesResponse:
    return cri.ListImagesResponse(images=images)


def status(config: str) -> cri.StatusResponse:
    return cri.StatusResponse(info={"config": config})


async def test_what_a_runtime_pins_is_pinned_and_it_is_asked_no_further() -> None:
    pinned = cri.Image(id="sha256:1", pinned=True)
    channel = Answers(ListImages=listed(pinned, APP))
    found = await images_of(channel).all()
    assert [(image.id, image.pinned) for image in found] == [("sha256:1", True), ("sha256:2", False)]
    assert channel.asked == ["ListImages"]


async def test_a_runtime_that_pins_nothing_is_asked_what_its_sandboxes_are_made_from() -> None:
    channel = Answers(
        ListImages=listed(PAUSE, APP),
        Status=status('{"sandboxImage": "registry.k8s.io/pause:3.6", "other": [1]}'),
        ImageStatus=cri.ImageStatusResponse(image=PAUSE),
    )
    found = await images_of(channel).all()
    assert found[0] == Image(id="sha256:1", names=("registry.k8s.io/pause:3.6",), size=7, pinned=True)
    assert not found[1].pinned


@pytest.mark.parametrize("config", ["", "not json", "{}", "[]", '{"sandboxImage": 5}'])
async def test_a_runtime_that_does_not_say_it_pins_nothing(config: str) -> None:
    assert sandbox_image_name({"config": config}) == ""
    found = await images_of(Answers(ListImages=listed(APP), Status=status(config))).all()
    assert [image.pinned for image in found] == [False]
    assert [image.pinned for image in await images_of(Answers(ListImages=listed(APP))).all()] == [False]


async def test_a_runtime_that_is_away_does_not_leave_its_sandbox_image_unprotected() -> None:
    with pytest.raises(Retry):
        await images_of(Answers(ListImages=listed(PAUSE), Status=Retry("away"))).all()


@pytest.mark.parametrize("kept", ["sha256:2", "docker.io/library/app:1", "docker.io/library/app@sha256:9"])
async def test_images_are_kept_by_id_and_by_name(kept: str) -> None:
    found = await images_of(Answers(ListImages=listed(PAUSE, APP))).all(kept={kept})
    assert [image.pinned for image in found] == [False, True]


def places(*paths: str) -> cri.ImageFsInfoResponse:
    usages = [cri.FilesystemUsage(fs_id=cri.FilesystemIdentifier(mountpoint=path)) for path in paths]
    return cri.ImageFsInfoResponse(image_filesystems=usages)


async def test_the_room_for_images_is_that_of_the_file_system_which_the_runtime_names(tmp_path: Path) -> None:
    storage = await images_of(Answers(ImageFsInfo=places(str(tmp_path)))).storage()
    assert isinstance(storage, Storage)
    assert 0 <= storage.available <= storage.capacity


@pytest.mark.parametrize("answer", [places(), places(""), places("/nowhere/at/all"), Unimplemented("no such call")])
async def test_the_room_is_unknown_when_the_runtime_does_not_say_or_lives_elsewhere(
    answer: Message | Exception,
) -> None:
    assert await images_of(Answers(ImageFsInfo=answer)).storage() is None
