"""Images on disk: names that move, what goes and what stays, and what is left when somebody is killed in the middle."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kit.oci import OciImage, image_of, layer_of, tar_entry, write_layout
from kit.waiting import eventually
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.runtime.process.images.archive import import_archive
from pykubelet.runtime.process.images.images import Images, image_store
from pykubelet.runtime.process.images.store import ImageStore


def opened(folder: Path) -> ImageStore:
    store = image_store(folder)
    store.open()
    return store


async def imported(store: ImageStore, *images: OciImage, name: str = "") -> None:
    archive = store.root.parent / "a.tar"
    write_layout(images, archive)
    with archive.open("rb") as file:
        await import_archive(store, file, name)


def layers(store: ImageStore) -> int:
    return len(list((store.root / "layers").iterdir()))


BASE = layer_of(tar_entry("base", b"1"))


def image(name: str, text: str) -> OciImage:
    return image_of(name, [BASE, layer_of(tar_entry("own", text.encode()))], {"Labels": {"x": text}})


async def test_layers_are_shared_and_go_with_the_last_image_that_has_them(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await imported(store, image("example.com/a:1", "a"), image("example.com/b:1", "b"))
    assert layers(store) == 3
    assert store.remove("example.com/a:1")[1]
    assert (layers(store), [each.names for each in store.all()]) == (2, [("example.com/b:1",)])
    assert store.remove("example.com/b:1")[1]
    assert (layers(store), store.all()) == (0, ())
    with pytest.raises(NotFound, match="there is no image"):
        store.remove("example.com/b:1")


async def test_a_name_moves_on_to_the_newer_image(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await imported(store, image("example.com/a:1", "old"))
    old = store.find("example.com/a:1")
    await imported(store, image("example.com/a:1", "new"))
    new = store.find("example.com/a:1")
    assert old is not None
    assert new is not None
    assert old.id != new.id
    assert {each.id: each.names for each in store.all()} == {old.id: (), new.id: ("example.com/a:1",)}
    found = store.find(old.id)
    assert found is not None
    assert (found.id, store.find(old.id[7:15])) == (old.id, None)  # a pod's image is never meant by a few digits
    assert store.remove(old.id[7:15]) == (old.id, True)


async def test_an_image_with_two_names_loses_one_and_then_goes(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await imported(store, image("docker.io/library/a:1", "a"))
    store.tag("a:1", "example.com/b")
    assert [each.names for each in store.all()] == [("docker.io/library/a:1", "example.com/b:latest")]
    assert not store.remove("a:1")[1]
    assert store.remove("example.com/b")[1]
    assert layers(store) == 0
    with pytest.raises(Invalid, match="must be lower case"):
        store.tag("x", "example.com/UPPER")


async def test_what_containers_are_made_from_stays(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await imported(store, image("example.com/a:1", "a"))
    found = store.find("example.com/a:1")
    assert found is not None
    (tmp_path / "containers" / "c1").mkdir(parents=True)
    with store.using(found.id):
        (tmp_path / "containers" / "c1" / "state.json").write_text(f'{{"image_id": "{found.id}"}}')
    with pytest.raises(Invalid, match="is in use"):
        store.remove("example.com/a:1")
    (tmp_path / "containers" / "c1" / "state.json").unlink()
    store.remove(found.id)
    with pytest.raises(Retry, match="has just been removed"), store.using(found.id):
        pass


async def test_nothing_goes_while_something_is_being_brought(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await imported(store, image("example.com/a:1", "a"))
    with store.lease():
        store.remove("example.com/a:1")
        coming = store.new_folder()
        store.sweep()
        assert (layers(store), coming.exists()) == (2, True)
    store.sweep()
    assert (layers(store), coming.exists()) == (0, False)


async def test_a_record_that_cannot_be_read_keeps_all_layers(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await imported(store, image("example.com/a:1", "a"))
    next((store.root / "records").iterdir()).write_text("{")
    with pytest.raises(Retry, match="cannot be read; remove it"):
        store.sweep()
    Images(tmp_path, "auto").open()  # it is no reason for an agent not to start
    assert layers(store) == 2


_SLOW = """
import asyncio, sys
from pathlib import Path
from pykubelet.runtime.process.images import archive, pull
from pykubelet.runtime.process.images.images import image_store
from pykubelet.runtime.process.images.store import ImageStore
where = sys.argv[2]
def stuck(*args):
    print("there", flush=True)
    import time
    time.sleep(1000)
if where == "unpacking":
    real = pull.unpack
    async def slow(chunks, folder):
        await real(chunks, folder)
        stuck()
    pull.unpack = slow
elif where == "one layer":
    real_add = ImageStore.add_layer
    def add_layer(*args):
        real_add(*args)
        stuck()
    ImageStore.add_layer = add_layer
else:
    ImageStore.add = stuck
store = image_store(Path(sys.argv[1]))
store.open()
with open(sys.argv[3], "rb") as file:
    asyncio.run(archive.import_archive(store, file))
"""


@pytest.mark.parametrize("where", ["unpacking", "one layer", "all layers"])
async def test_who_is_killed_in_the_middle_leaves_nothing_wrong(tmp_path: Path, where: str) -> None:
    write_layout([image("example.com/a:1", "a")], tmp_path / "x.tar")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SLOW, str(tmp_path / "root"), where, str(tmp_path / "x.tar"), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"there\n"
    store = opened(tmp_path / "root")
    before = layers(store)
    store.sweep()  # while it still works, nothing of it goes
    assert (layers(store), store.all()) == (before, ())
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    images = Images(tmp_path / "root", "registry")
    images.open()
    assert (layers(store), list((store.root / "partial").iterdir()), store.all()) == (0, [], ())
    await imported(store, image("example.com/a:1", "a"))
    assert [each.names for each in store.all()] == [("example.com/a:1",)]


async def test_many_who_bring_the_same_have_it_once(tmp_path: Path) -> None:
    """In processes of their own."""
    write_layout([image("example.com/a:1", "a")], tmp_path / "x.tar")
    command = [sys.executable, "-m", "pykubelet", "image", "import", str(tmp_path / "x.tar")]
    root = ["--root-dir", str(tmp_path / "state")]
    running = [await asyncio.create_subprocess_exec(*command, *root, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [await process.wait() for process in running] == [0, 0, 0]
    store = opened(tmp_path / "state" / "runtime")
    assert layers(store) == 2
    await eventually(lambda: not any((store.root / "partial").iterdir()))
    assert [each.names for each in store.all()] == [("example.com/a:1",)]


def test_everything_is_the_owners_alone(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.root.stat().st_mode & 0o777 == 0o700
