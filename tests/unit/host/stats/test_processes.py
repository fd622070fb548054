"""What processes hold that nobody else can see."""

import mmap
import os
from pathlib import Path

from pykubelet.host.stats.processes import unlinked

MB = 1 << 20


def held(folder: Path) -> tuple[int, int]:
    return unlinked("/proc", [str(os.getpid())], str(folder)).get("volumes", (0, 0))


def test_files_without_a_name_are_counted_once_while_somebody_holds_them(tmp_path: Path) -> None:
    before = held(tmp_path)
    with (tmp_path / "large").open("w+b") as file, os.fdopen(os.dup(file.fileno()), "rb"):
        file.write(os.urandom(MB))
        file.flush()
        assert held(tmp_path) == before, "it is found by its name"
        (tmp_path / "large").unlink()
        used, inodes = held(tmp_path)
        assert (used - before[0] >= MB, inodes - before[1]) == (True, 1)
    assert held(tmp_path) == before


def test_a_mapped_file_is_held_without_being_open(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        return  # only root may look at what is mapped
    before = held(tmp_path)
    with (tmp_path / "large").open("w+b") as file:
        file.write(os.urandom(MB))
        file.flush()
        mapped = mmap.mmap(file.fileno(), 4096, access=mmap.ACCESS_READ)
    (tmp_path / "large").unlink()
    # Python keeps a descriptor of its own for what it maps: the kernel counts the file once all the same.
    used, inodes = held(tmp_path)
    assert (used - before[0] >= MB, inodes - before[1]) == (True, 1)
    mapped.close()


def test_who_has_gone_holds_nothing(tmp_path: Path) -> None:
    assert unlinked("/proc", ["0", "999999999"], str(tmp_path)) == {}
