"""Where the containers of a CRI runtime are, with answers that are made up."""

import json
from collections import Counter
from typing import Any, cast

import pytest

from pykubelet.base.errors import NotFound, Retry
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.stats.stats import ImageStore, Place
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.stats import CriPlaces, place_of
from pykubelet.web.grpc_channel import Channel, Unimplemented


class Shelf:
    def __init__(self) -> None:
        self.pids = {"s": 10, "c": 11}
        self.asked: Counter[str] = Counter()
        self.failure: Exception | None = None

    async def call(self, method: str, request: Any, reply: Any, **_: Any) -> Any:
        name = method.rpartition("/")[2]
        self.asked[name] += 1
        if self.failure is not None:
            raise self.failure
        match name:
            case "PodSandboxStatus":
                assert request.verbose
                return cri.PodSandboxStatusResponse(info=self.info(request.pod_sandbox_id))
            case "ContainerStatus":
                assert request.verbose
                return cri.ContainerStatusResponse(info=self.info(request.container_id))
            case "ListContainerStats":
                layer = cri.FilesystemUsage(
                    used_bytes=cri.UInt64Value(value=4096), inodes_used=cri.UInt64Value(value=3)
                )
                stats = cri.ContainerStats(attributes=cri.ContainerAttributes(id="c"), writable_layer=layer)
                return cri.ListContainerStatsResponse(stats=[stats])
            case "ImageFsInfo":
                where = cri.FilesystemIdentifier(mountpoint="/var/lib/images")
                used = cri.FilesystemUsage(fs_id=where, used_bytes=cri.UInt64Value(value=7))
                return cri.ImageFsInfoResponse(image_filesystems=[used])
        raise Unimplemented(name)

    def info(self, key: str) -> dict[str, str]:
        if key not in self.pids:
            raise NotFound(key)
        return {"info": json.dumps({"pid": self.pids[key], "image": "pause:3", "config": {"more": [1]}})}


def pods(state: State = State.RUNNING) -> list[ObservedPod]:
    container = ObservedContainer(id="c", name="c", state=state)
    return [ObservedPod(uid="u", sandboxes=(ObservedSandbox(id="s", ready=True),), containers=(container,))]


def places_on(shelf: Shelf) -> CriPlaces:
    return CriPlaces(cast(Channel, shelf))


async def test_each_container_is_asked_about_once() -> None:
    shelf = Shelf()
    places = places_on(shelf)
    found = await places.places(pods(), details=True)
    assert found["s"] == Place(pid=10, image="pause:3")
    assert found["c"] == Place(pid=11, image="pause:3", written=4096, written_inodes=3)
    assert await places.places(pods(), details=True) == found
    assert shelf.asked == {"PodSandboxStatus": 1, "ContainerStatus": 1, "ListContainerStats": 1}


async def test_nobody_looks_at_layers_who_needs_only_processor_time_and_memory() -> None:
    shelf = Shelf()
    found = await places_on(shelf).places(pods(), details=False)
    assert found["c"].written is None
    assert "ListContainerStats" not in shelf.asked


async def test_an_ended_container_is_forgotten() -> None:
    shelf = Shelf()
    places = places_on(shelf)
    await places.places(pods(), details=False)
    assert set(await places.places(pods(State.EXITED), details=False)) == {"s"}
    shelf.pids["c"] = 99  # started again
    assert (await places.places(pods(), details=False))["c"].pid == 99


async def test_what_is_gone_when_asked_about_is_left_out() -> None:
    shelf = Shelf()
    del shelf.pids["c"]
    assert set(await places_on(shelf).places(pods(), details=False)) == {"s"}


@pytest.mark.parametrize("failure", [Retry("busy"), Unimplemented("no such call")])
async def test_a_runtime_that_says_nothing_of_images_has_none(failure: Exception) -> None:
    shelf = Shelf()
    assert await places_on(shelf).images() == ImageStore(path="/var/lib/images", used=7)
    shelf.failure = failure
    assert await places_on(shelf).images() is None


@pytest.mark.parametrize("info", [{}, {"info": "{"}, {"info": '{"pid": 0}'}, {"info": '{"pid": "x"}'}])
def test_a_status_without_a_process_is_no_place(info: dict[str, str]) -> None:
    assert place_of(info) is None
