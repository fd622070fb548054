"""Places in a container's root: opened or made without ever leaving it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.runtime.process.shim import kernel, places


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    made.mkdir()
    (tmp_path / "outside").mkdir()
    return made


@pytest.fixture
def root(inside: Path) -> Iterator[int]:
    descriptor = os.open(inside, os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def opened(root: int, path: str, *, folder: bool = True) -> str:
    """-> where it is on this machine"""
    target = places.point(root, path, folder=folder)
    try:
        return os.readlink(f"/proc/self/fd/{target}")
    finally:
        os.close(target)


def test_what_is_missing_is_made(root: int, inside: Path) -> None:
    assert opened(root, "/a/b/c") == f"{inside}/a/b/c"
    assert opened(root, "/a/file", folder=False) == f"{inside}/a/file"
    assert (inside / "a/b/c").is_dir()
    assert (inside / "a/file").read_bytes() == b""


@pytest.mark.parametrize(
    ("link", "path", "where"),
    [
        ("/elsewhere", "link/x", "elsewhere/x"),
        ("elsewhere/deep", "link", "elsewhere/deep"),
        ("../../../..", "link/x", "x"),
        ("/../../elsewhere", "link/x", "elsewhere/x"),
        ("other", "link/x", "target/x"),
    ],
)
def test_links_lead_to_where_they_would_in_the_container(
    root: int, inside: Path, link: str, path: str, where: str
) -> None:
    (inside / "link").symlink_to(link)
    (inside / "other").symlink_to("/target")
    assert opened(root, path) == f"{inside}/{where}"


def test_a_link_to_this_machine_leads_nowhere_near_it(root: int, inside: Path, tmp_path: Path) -> None:
    (inside / "link").symlink_to(tmp_path / "outside")
    found = opened(root, "link/x")
    assert found == f"{inside}{tmp_path}/outside/x"
    assert list((tmp_path / "outside").iterdir()) == []


def test_links_in_a_ring_are_an_error(root: int, inside: Path) -> None:
    (inside / "a").symlink_to("b")
    (inside / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        opened(root, "a/x")


def test_links_of_the_kernel_are_not_followed(inside: Path) -> None:
    machine = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        with pytest.raises(OSError, match="Too many levels"):
            kernel.open_inside(machine, "/proc/self/root/etc", os.O_PATH)
    finally:
        os.close(machine)


def test_where_something_changes_all_the_time_nothing_is_mounted(
    root: int, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "mkdir", lambda *_, **__: None)  # made, and gone again at once
    with pytest.raises(OSError, match="changes all the time"):
        opened(root, "a/b")


@pytest.mark.parametrize("link", ["/", "..", "/outside"])
def test_the_kernels_folders_are_where_they_belong(root: int, inside: Path, link: str) -> None:
    os.close(places.own_folder(root, "sys"))
    assert (inside / "sys").is_dir()
    (inside / "proc").symlink_to(link)
    with pytest.raises(OSError, match="proc"):
        places.own_folder(root, "proc")


def test_a_part_stays_beneath_its_volume(root: int, inside: Path) -> None:
    (inside / "real").mkdir()
    (inside / "inner").symlink_to("real")
    (inside / "outer").symlink_to("../outside")
    (inside / "absolute").symlink_to(inside / "real")
    os.close(kernel.open_inside(root, "inner", os.O_PATH, kernel.BENEATH))
    for path in ("outer", "absolute", "..", "/real", "real/../../outside"):
        with pytest.raises(OSError, match="cannot open"):
            kernel.open_inside(root, path, os.O_PATH, kernel.BENEATH)
