from pathlib import Path

import pytest

from pykubelet.base.huge_pages import page_size, page_sizes


@pytest.mark.parametrize(
    ("folder", "size"), [("hugepages-2048kB", 2 << 20), ("hugepages-64kB", 64 << 10), ("hugepages-x", 0), ("", 0)]
)
def test_a_folder_tells_the_size_of_its_pages(folder: str, size: int) -> None:
    assert page_size(folder) == size


def test_the_kernels_folders_are_its_sizes(tmp_path: Path) -> None:
    for name in ("hugepages-1048576kB", "hugepages-2048kB", "other"):
        (tmp_path / name).mkdir()
    assert page_sizes(str(tmp_path)) == (2 << 20, 1 << 30)
    assert page_sizes(str(tmp_path / "none")) == ()
