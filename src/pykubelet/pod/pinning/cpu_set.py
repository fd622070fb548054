"""Sets of processors as the kernel and the state files spell them: `0-3,8`."""

import re
from collections.abc import Iterable
from typing import Final

CpuSet = frozenset[int]

NO_CPUS: Final[CpuSet] = frozenset()
_HIGHEST: Final = 1 << 16  # more than any kernel counts, short of harm
_PART: Final = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)


def parse_cpu_set(text: str) -> CpuSet:
    """`0-3,8` -> the numbers. Raises ValueError with a sentence for the person who wrote it."""
    found: set[int] = set()
    for part in text.split(",") if text else ():
        match = _PART.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, _HIGHEST)
        if last >= _HIGHEST:
            raise ValueError(f"{part!r} is no processor or range of them: write something like 0-3,8")
        if last < first:
            raise ValueError(f"the range {part!r} ends before it begins")
        found.update(range(first, last + 1))
    return frozenset(found)


def format_cpu_set(cpus: Iterable[int]) -> str:
    """The shortest spelling: {0, 1, 2, 8} -> `0-2,8`."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
