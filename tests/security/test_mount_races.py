# ruff: noqa: ASYNC240 - tests may block
"""One container of a pod swaps folders of a shared volume for links, as fast as it can, while another one with mounts
in there starts again and again: nothing outside of the volume is ever shown or changed."""

import os
import secrets
import tarfile
from pathlib import Path

import pytest

from contract.runtime import container_config, ended, sandbox_config
from kit.oci import OciImage, folder, image_of, layer_of, tar_entry
from kit.waiting import eventually
from pykubelet.base.errors import PykubeletError
from pykubelet.pod.ports.runtime import Mount
from unit.runtime.process.machine import UID, Machine

EVIL = "docker.io/library/evil:1"
STARTS = 25
TOKEN = f"stolen-{secrets.token_hex(8)}"
SWAP = """
import ctypes, os, signal
exchange = ctypes.CDLL(None).renameat2
os.chdir("/data")
os.mkdir("part"), os.mkdir("part/deep")
open("leaf", "w").close()
for name, target in (("link", "{outside}"), ("proc", "/proc"), ("root", "/"), ("file", "{outside}/file")):
    os.symlink(target, name)
while True:
    for one, other in ((b"part", b"link"), (b"leaf", b"file"), (b"part", b"proc"), (b"part", b"root")):
        for _ in range(2):
            exchange(-100, one, -100, other, 2)
"""


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    for name in ("volume", "outside", "inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
    (tmp_path / "outside" / "file").write_text(TOKEN)
    (tmp_path / "inner" / "own").touch()
    return tmp_path / "volume"


async def attack(made: Machine, volume: Path, *mounts: Mount) -> str:
    """-> all that the starting containers saw"""
    sandbox_id = (await made.runtime.run_sandbox(sandbox_config())).id
    whole = Mount(host_path=str(volume), container_path="/data")
    script = SWAP.format(outside=volume.parent / "outside")
    config = container_config(made, "swaps", command=("python3", "-c", script), mounts=(whole,))
    swaps = await made.runtime.create_container(sandbox_id, config)
    await made.runtime.start_container(swaps)
    await eventually(lambda: (volume / "file").is_symlink() or (volume / "leaf").is_symlink())
    seen, failures = [], []
    look = "exec 2>&1; echo looks; cat /part/file /leaf; ls -A /part; touch /part/new /part/deep/new /data/part/new"
    for attempt in range(STARTS):
        config = container_config(made, "starts", attempt, command=("sh", "-c", look), mounts=mounts)
        container = await made.runtime.create_container(sandbox_id, config)
        try:
            await made.runtime.start_container(container)
        except PykubeletError as error:  # it met a link that leads out
            failures.append(str(error))
            continue
        await ended(made.runtime, UID, container)
        seen.append(made.output(container))
    assert (await made.runtime.exec_sync(swaps, ("true",), 10)).exit_code == 0, "the attacker was there to the end"
    assert len(seen) + len(failures) == STARTS
    return "\n".join(seen)


def untouched(volume: Path) -> bool:
    outside = volume.parent / "outside"
    return os.listdir(outside) == ["file"] and (outside / "file").read_text() == TOKEN


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["part", "leaf"])
async def test_a_part_of_a_volume_never_leads_out_of_it(isolated: Machine, volume: Path, name: str) -> None:
    """As the agent of an ordinary user has it mounted: the runtime opens the part itself."""
    part = Mount(host_path=str(volume), sub_path=name, container_path=f"/{name}")
    assert TOKEN not in await attack(isolated, volume, part)
    assert untouched(volume)


async def test_a_part_that_is_a_link_to_elsewhere_is_refused(isolated: Machine, volume: Path) -> None:
    (volume / "out").symlink_to(volume.parent / "outside")
    (volume / "up").symlink_to("../outside")
    for name in ("out", "up", "out/file", "../outside"):
        with pytest.raises(PykubeletError, match="cannot open"):
            await isolated.start("true", mounts=(Mount(host_path=str(volume), sub_path=name, container_path="/part"),))


@pytest.mark.timeout(120)
async def test_a_mount_inside_of_a_volume_never_lands_outside_of_the_container(isolated: Machine, volume: Path) -> None:
    whole = Mount(host_path=str(volume), container_path="/data")
    inner = Mount(host_path=str(volume.parent / "inner"), container_path="/data/part/deep")
    file = Mount(host_path=str(volume.parent / "inner" / "own"), container_path="/data/leaf", read_only=True)
    await attack(isolated, volume, whole, inner, file)
    assert untouched(volume)
    assert str(volume.parent) not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("target", ["/proc", "/proc/sys", "/data/proc/sys", "/data/proc/self/attr", "/data/root"])
async def test_nothing_is_mounted_over_proc_or_the_root(isolated: Machine, volume: Path, target: str) -> None:
    """Else a container could make up its own: and what writes to /proc/self of it would write elsewhere."""
    (volume / "proc").symlink_to("/proc")
    (volume / "root").symlink_to("/")
    mounts = (
        Mount(host_path=str(volume), container_path="/data"),
        Mount(host_path=str(volume.parent / "inner"), container_path=target),
    )
    with pytest.raises(PykubeletError, match=r"cannot (mount at|open)"):
        await isolated.start("true", mounts=mounts)


async def test_links_of_an_image_lead_nowhere_but_inside_of_it(isolated: Machine, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    links = (("out", str(outside)), ("up", "../../../../../../.."), ("proc-link", "/proc/self/root"))
    await isolated.has(evil_image(*links))
    for name in ("out", "up/out", f"up{outside}", "proc-link/out"):
        mounts = (Mount(host_path=str(tmp_path / "root"), container_path=f"/{name}/deep"),)
        with pytest.raises(PykubeletError, match=r"exec: |cannot open"):  # there is no program in it
            await isolated.start("true", image=EVIL, mounts=mounts)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["proc", "sys", "dev"])
async def test_an_image_cannot_have_the_kernels_folders_elsewhere(isolated: Machine, name: str) -> None:
    await isolated.has(evil_image((name, "/bin")))
    with pytest.raises(PykubeletError, match=rf"{name}|Not a directory"):
        await isolated.start("true", image=EVIL)


def evil_image(*links: tuple[str, str]) -> OciImage:
    """Without a program, but with links to where they should not lead."""
    entries = [tar_entry(name, type=tarfile.SYMTYPE, linkname=target) for name, target in links]
    return image_of(EVIL, [layer_of(folder("bin"), *entries)])
