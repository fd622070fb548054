# ruff: noqa: ASYNC221, ASYNC240 - tests may block
"""Images made by somebody who wants out of the folder that they are unpacked into, or the whole disk."""

import io
import os
import stat
import subprocess
import tarfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from kit.oci import Blob, PackedLayer, busybox_layer, folder, image_of, layer_of, make_image, tar_entry, write_layout
from kit.waiting import eventually
from pykubelet.base.errors import Invalid
from pykubelet.runtime.process.images.archive import import_archive
from pykubelet.runtime.process.images.images import image_store
from pykubelet.runtime.process.images.store import ImageStore, StoredImage
from pykubelet.runtime.process.images.unpacking import Unpacked, unpack
from unit.runtime.process.machine import Machine

IS_ROOT = os.geteuid() == 0


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 65536):
        yield data[start : start + 65536]


async def unpacked(target: Path, *entries: tuple[tarfile.TarInfo, bytes], packing: str = "") -> Unpacked:
    target.mkdir(exist_ok=True)
    return await unpack(chunks(layer_of(*entries, packing=packing).blob.data), target)


def tree(root: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in root.rglob("*")}


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return tar_entry(name, type=tarfile.SYMTYPE, linkname=target)


def hard_link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return tar_entry(name, type=tarfile.LNKTYPE, linkname=target)


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/../x", "a/b/../../../../x", "..", "./../x"])
async def test_a_path_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    with pytest.raises(Invalid, match="leads out of it"):
        await unpacked(tmp_path / "outside" / "layer", folder("a"), tar_entry(name, b"out"))
    assert not (tmp_path / "outside" / "x").exists()
    assert not (tmp_path / "x").exists()


async def test_links_lead_nowhere_but_into_the_layer(tmp_path: Path) -> None:
    """Through every link that an author can think of, a file is to be written outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    before, layer = tree(outside), tmp_path / "layer"
    links = {"absolute": str(outside), "relative": "../outside", "far": "../" * 40 + str(outside)[1:], "root": "/"}
    for name, target in links.items():
        entries = [folder(str(outside)), link(name, target), tar_entry(f"{name}/kept", b"changed")]
        try:
            await unpacked(layer, *entries)
        except Invalid:
            continue
    assert (outside / "kept").read_text() == "kept"
    assert tree(outside) == before


async def test_hard_links_are_to_files_of_the_same_layer(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for number, target in enumerate((str(secret), "/etc/passwd", "../secret", "not-there")):
        with pytest.raises(Invalid, match=r"not in the same layer|leads out of it"):
            await unpacked(tmp_path / f"layer{number}", hard_link("stolen", target))
    with pytest.raises(Invalid, match=r"not in the same layer|cannot be unpacked"):
        await unpacked(tmp_path / "by-link", link("way", str(tmp_path)), hard_link("stolen", "way/secret"))
    await unpacked(tmp_path / "own", tar_entry("a", b"1"), hard_link("b", "a"))
    assert (tmp_path / "own" / "b").stat().st_nlink == 2


async def test_no_device_node_comes_to_be(tmp_path: Path) -> None:
    disk = tar_entry("disk", type=tarfile.BLKTYPE, devmajor=8, devminor=0, mode=0o666)
    memory = tar_entry("mem", type=tarfile.CHRTYPE, devmajor=1, devminor=1, mode=0o666)
    found = await unpacked(tmp_path / "layer", disk, memory, tar_entry("fifo", type=tarfile.FIFOTYPE))
    assert found.devices == 2
    assert [path.name for path in (tmp_path / "layer").iterdir()] == ["fifo"]
    assert stat.S_ISFIFO((tmp_path / "layer" / "fifo").stat().st_mode)


async def test_an_image_cannot_steer_the_overlay(tmp_path: Path) -> None:
    """By an attribute a file could be given the content of another one, or a folder that of any other."""
    pax = {
        "SCHILY.xattr.trusted.overlay.redirect": "/etc",
        "SCHILY.xattr.user.overlay.redirect": "/etc",
        "SCHILY.xattr.user.overlay.metacopy": "x",
        "SCHILY.xattr.security.selinux": "system_u",
        "SCHILY.xattr.user.note": "kept",
    }
    await unpacked(tmp_path / "layer", tar_entry("file", b"x", pax_headers=pax), folder("folder", pax_headers=pax))
    for name in ("file", "folder"):
        assert os.listxattr(tmp_path / "layer" / name) == ["user.note"]


async def test_what_clashes_is_replaced_and_the_last_one_counts(tmp_path: Path) -> None:
    entries = [folder("x"), tar_entry("x/inner", b"1"), tar_entry("x", b"file"), folder("y"), link("y", "x")]
    entries += [tar_entry("z", b"file"), folder("z"), tar_entry("z/inner", b"2")]
    await unpacked(tmp_path / "layer", *entries)
    layer = tmp_path / "layer"
    assert (layer / "x").read_text() == "file"
    assert os.readlink(layer / "y") == "x"
    assert (layer / "z" / "inner").read_text() == "2"


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh..."])
async def test_a_whiteout_of_nothing_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="takes away what has no name"):
        await unpacked(tmp_path / "layer", folder("d"), tar_entry(f"d/{name}"))


async def test_its_root_stays_a_folder(tmp_path: Path) -> None:
    for number, entry in enumerate((link("./", "/etc"), tar_entry("/", b"x"), hard_link("/", "x"))):
        with pytest.raises(Invalid, match="in the place of its root"):
            await unpacked(tmp_path / f"layer{number}", entry)


async def test_owners_that_nobody_can_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="belongs to nobody"):
        await unpacked(tmp_path / "layer", tar_entry("x", b"x", uid=1 << 40))


async def test_a_header_without_an_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    head = tarfile.TarInfo("pax")
    head.type, head.size = tarfile.XHDTYPE, 8 << 30
    packed = io.BytesIO()
    packed.write(head.tobuf())

    async def endless() -> AsyncIterator[bytes]:
        yield packed.getvalue()
        for _ in range(3000):
            yield b"\0" * (1 << 20)

    (tmp_path / "layer").mkdir()
    with pytest.raises(Invalid, match="cannot be read"):
        await unpack(endless(), tmp_path / "layer")


@pytest.mark.skipif(not IS_ROOT, reason="needs root to mount a small disk")
async def test_a_bomb_leaves_room_on_the_disk(tmp_path: Path) -> None:
    """A few kilobytes that become gigabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], check=True)
    try:
        with pytest.raises(Invalid, match="there is no room for it on the disk"):
            await unpacked(disk / "layer", tar_entry("bomb", b"\0" * (100 << 20)), packing="gzip")
        left = os.statvfs(disk)
        assert left.f_bavail > 0
    finally:
        subprocess.run(["umount", disk], check=True)


async def test_what_is_damaged_or_no_archive_is_refused(tmp_path: Path) -> None:
    for number, data in enumerate((b"no archive " * 1000, b"\x1f\x8b broken", b"\x28\xb5\x2f\xfd broken", b"")):
        folder_ = tmp_path / f"layer{number}"
        folder_.mkdir()
        with pytest.raises(Invalid, match="cannot be read"):
            await unpack(chunks(data), folder_)


# --- whole images


def opened(folder_: Path) -> ImageStore:
    store = image_store(folder_)
    store.open()
    return store


async def imported(store: ImageStore, archive: Path) -> None:
    with archive.open("rb") as file:
        await import_archive(store, file)


async def test_a_layer_that_is_not_what_the_image_says_leaves_nothing_behind(tmp_path: Path) -> None:
    good = layer_of(tar_entry("x", b"good"))
    lying = PackedLayer(layer_of(tar_entry("x", b"bad")).blob, good.diff_id)
    write_layout([image_of("example.com/x:1", [lying])], tmp_path / "a.tar")
    store = opened(tmp_path / "root")
    with pytest.raises(Invalid, match=r"unpacks to sha256:.* instead of"):
        await imported(store, tmp_path / "a.tar")
    assert store.all() == ()
    assert not any((store.root / "layers").iterdir())
    assert not any((store.root / "partial").iterdir())


async def test_names_in_an_archive_lead_nowhere(tmp_path: Path) -> None:
    manifest = b'[{"Config": "../../../etc/passwd", "Layers": []}]'
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for entry, data in (tar_entry("manifest.json", manifest), link("etc", "/etc")):
            tar.addfile(entry, io.BytesIO(data))
    with pytest.raises(Invalid, match="is missing in it"):
        await imported(opened(tmp_path / "root"), tmp_path / "a.tar")


async def test_a_diff_id_is_no_path(tmp_path: Path) -> None:
    layer = layer_of(tar_entry("x", b"x"))
    write_layout([image_of("example.com/x:1", [PackedLayer(layer.blob, "sha256:../../../x")])], tmp_path / "a.tar")
    with pytest.raises(Invalid, match="is not a digest"):
        await imported(opened(tmp_path / "root"), tmp_path / "a.tar")


async def test_an_images_accounts_are_read_from_the_image_alone(isolated: Machine) -> None:
    """A link in the place of /etc/passwd would have this machine's looked up."""
    base = busybox_layer()
    evil = layer_of(tar_entry("etc/passwd", type=tarfile.SYMTYPE, linkname="/etc/passwd"), tar_entry("etc/.wh.group"))
    image = image_of("example.com/x:1", [PackedLayer(base, base.digest), evil], {"User": "daemon"})
    await isolated.has(image)
    with pytest.raises(Invalid, match="the image's user or group daemon is not in its /etc/passwd"):
        await isolated.start("true", image="example.com/x:1")


async def test_a_hostile_root_does_not_lead_a_container_out(isolated: Machine, tmp_path: Path) -> None:
    """Links where the runtime mounts its own folders: /etc, /dev and a volume's place lead to this machine's."""
    secret = tmp_path / "machine"
    (secret / "etc").mkdir(parents=True)
    base = busybox_layer()
    links = [link(name, str(secret)) for name in ("mnt", "run")] + [link("etc", str(secret / "etc"))]
    gone = [tar_entry(".wh.etc")]
    await isolated.has(image_of("example.com/x:1", [PackedLayer(base, base.digest), layer_of(*gone, *links)]))
    await isolated.run("echo > /mnt/x; echo > /etc/y; true", image="example.com/x:1")
    assert [path.name for path in secret.rglob("*")] == ["etc"]


async def test_setuid_programs_are_out_of_reach_of_other_users(isolated: Machine) -> None:
    base = busybox_layer()
    await isolated.has(
        make_image("example.com/x:1", Blob(base.data, base.media_type)),
        image_of("example.com/y:1", [layer_of(tar_entry("su", b"x", mode=0o4755))]),
    )
    found = [path for path in (isolated.root / "images").rglob("su") if path.stat().st_mode & stat.S_ISUID]
    assert found
    assert stat.S_IMODE((isolated.root / "images").stat().st_mode) == 0o700


async def test_what_unpacks_a_layer_has_nothing_else_in_reach(tmp_path: Path) -> None:
    """Looked at from outside while it waits for more: its root, what it may do, what it has open."""
    layer = layer_of(folder("d"), tar_entry("d/x", os.urandom(2 << 20))).blob.data
    seen: dict[str, str] = {}

    def look() -> bool:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if str(tmp_path).encode() in path.read_bytes() and b"images.unpack" in path.read_bytes():
                    status = dict(line.split(":\t", 1) for line in (path.parent / "status").read_text().splitlines())
                    seen.update({name: status[name].strip() for name in ("CapEff", "CapBnd", "NoNewPrivs")})
                    seen["root"] = os.readlink(path.parent / "root")
                    more = [os.readlink(each) for each in (path.parent / "fd").iterdir() if int(each.name) > 2]
                    seen["outside"] = " ".join(each for each in more if not each.startswith(str(tmp_path)))
        return seen.get("root", "/") != "/"

    async def slowly() -> AsyncIterator[bytes]:
        yield layer[: 1 << 20]
        await eventually(look)
        yield layer[1 << 20 :]

    target = tmp_path / "layer"
    target.mkdir()
    await unpack(slowly(), target)
    assert seen["root"] == str(target)
    assert int(seen["CapEff"], 16) & ~0x8000001B == 0  # owners, modes and file capabilities
    assert int(seen["CapBnd"], 16) & ~0x8000001B == 0
    assert (seen["NoNewPrivs"], seen["outside"]) == ("1", "")


async def test_an_image_of_nothing_does_not_show_this_machine(isolated: Machine) -> None:
    """Without a layer of its own, a container's root would be made of this machine's files, secrets among them."""
    nothing = image_of("example.com/x:1", [])
    with pytest.raises(Invalid, match="it has no layers"):
        await isolated.has(nothing)
    store = opened(isolated.root)
    store.add(StoredImage(id=nothing.blobs[0].digest, names=("example.com/x:1",)))  # as if it were here all the same
    with pytest.raises(Invalid, match="has no layers"):
        await isolated.start("cat /etc/shadow", image="example.com/x:1")
