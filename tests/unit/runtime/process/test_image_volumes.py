"""Images as volumes on the embedded runtime: their files are seen, cannot be changed or run, and stay while in use."""

import pytest

from contract.runtime import ended
from kit.oci import busybox_layer, folder, image_of, layer_of, make_image, tar_entry
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.node.image_gc import ImageGc
from pykubelet.pod.images.image_gc import ImageGcSettings
from pykubelet.pod.ports.runtime import Mount
from pykubelet.runtime.process.images.images import image_store
from unit.runtime.process.machine import UID, Machine

MODEL, TOOLS = "example.com/model:1", "example.com/tools:1"


async def model(machine: Machine) -> str:
    """-> its id"""
    lower = layer_of(folder("w"), tar_entry("w/old", b"old"), tar_entry("w/kept", b"kept"), folder("bin"))
    upper = layer_of(
        tar_entry("w/.wh.old"),
        tar_entry("w/new", b"new"),
        tar_entry("bin/run", b"#!/bin/sh\necho ran\n", mode=0o4755),
        tar_entry("way-out", type=b"2", linkname="/etc"),
        tar_entry("up", type=b"2", linkname="../../../../etc"),
    )
    await machine.has(image_of(MODEL, [lower, upper]))
    found = await machine.runtime.image(MODEL)
    assert found is not None
    return found.id


def mount(image_id: str, sub_path: str = "", path: str = "/model") -> Mount:
    return Mount(image=MODEL, image_id=image_id, sub_path=sub_path, container_path=path, read_only=True)


@pytest.mark.parametrize("overlay", [True, False])
async def test_a_container_sees_the_files_of_an_image(isolated: Machine, overlay: bool) -> None:
    image_id = await model(isolated)
    assembly = await isolated.runtime._open()
    assembly._abilities = changed(assembly._abilities, overlay=overlay)
    script = (
        "cat /model/w/* /part/new; ls /model/w | tr '\\n' ' '; touch /model/x /part/x 2>/dev/null && echo written; "
        "/model/bin/run 2>/dev/null || echo not run; mount | grep ' /model ' | grep -c 'ro,nosuid,nodev,noexec'"
    )
    mounts = (mount(image_id), mount(image_id, "w", "/part"))
    _, output = await isolated.run(script, mounts=mounts)
    assert output == "keptnewnewkept new not run\n1\n"


async def test_an_image_is_mounted_beside_the_root_of_another(isolated: Machine) -> None:
    image_id = await model(isolated)
    await isolated.has(make_image(TOOLS, busybox_layer()))
    _, output = await isolated.run("cat /model/w/new", image=TOOLS, mounts=(mount(image_id),))
    assert output == "new"


@pytest.mark.parametrize("part", ["missing", "way-out", "up", "w/../../..", "way-out/passwd"])
async def test_a_part_that_is_not_in_the_image_is_nowhere(isolated: Machine, part: str) -> None:
    image_id = await model(isolated)
    with pytest.raises(PykubeletError, match="ImageVolumeMountFailed"):
        await isolated.start("cat /model/passwd; ls /model", mounts=(mount(image_id, part),))


@pytest.mark.parametrize(("name", "image_id"), [("host", "machine"), ("nginx", ""), ("nginx", "sha256:" + "0" * 64)])
async def test_this_machine_is_no_volume_and_neither_is_what_is_not_here(
    isolated: Machine, name: str, image_id: str
) -> None:
    wanted = Mount(image=name, image_id=image_id, container_path="/model", read_only=True)
    with pytest.raises(Invalid, match=r"of this machine; its files are mounted by a hostPath|is not here any more"):
        await isolated.start("true", mounts=(wanted,))


async def test_plain_processes_have_no_image_volumes(plain: Machine) -> None:
    image_id = await model(plain)
    with pytest.raises(Invalid, match=r"image example.com/model:1 cannot be mounted: isolation is switched off"):
        await plain.start("true", mounts=(mount(image_id),))


async def test_an_image_stays_while_a_container_has_it_mounted(isolated: Machine) -> None:
    image_id = await model(isolated)
    store = image_store(isolated.root)
    for image in store.all():
        store.add(changed(image, imported=False))  # as if it had been pulled
    container_id = await isolated.start("exec sleep 1000", mounts=(mount(image_id),))
    (pod,) = await isolated.runtime.pods()
    assert pod.containers[0].volume_images == (image_id,)
    with pytest.raises(Invalid, match="is in use"):
        store.remove(MODEL)
    clearing = ImageGc(isolated.runtime, settings=ImageGcSettings(high=1, low=0, minimum_age=0))
    with pytest.raises(Retry, match="only found 0 bytes"):
        await clearing.collect(isolated.runtime.pods)
    await isolated.restarted()
    assert (await isolated.runtime.observe(UID)).containers[0].volume_images == (image_id,)
    await isolated.runtime.stop_container(container_id, 0)
    await ended(isolated.runtime, UID, container_id)
    await isolated.runtime.remove_container(container_id)
    assert store.remove(MODEL) == (image_id, True)
