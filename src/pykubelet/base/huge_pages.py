"""The sizes of huge pages that this machine's kernel knows, whether it has any of them or not."""

import os
import re
from typing import Final

HUGE_PAGES: Final = "/sys/kernel/mm/hugepages"


def page_size(folder: str) -> int:
    """`hugepages-2048kB` -> bytes; 0 for what is no such folder."""
    match = re.fullmatch(r"hugepages-(\d+)kB", folder, re.ASCII)
    return int(match[1]) * 1024 if match else 0


def page_sizes(folder: str = HUGE_PAGES) -> tuple[int, ...]:
    try:
        names = os.listdir(folder)
    except OSError:  # a kernel without huge pages
        return ()
    return tuple(sorted(filter(None, map(page_size, names))))
