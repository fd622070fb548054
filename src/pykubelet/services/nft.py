"""The program that the packet filter is spoken to with. Everything here blocks for as long as it runs."""

import os
import shutil
import subprocess
from typing import Final

_SECONDS: Final = 30.0
_PLACES: Final = "/usr/sbin:/sbin:/usr/local/sbin"
"""Where it is, also for those whose path does not lead there."""


def applied(text: str, *, only_check: bool = False) -> str:
    """All of it, or nothing. -> what is wrong; empty: nothing."""
    code, said = _run(*(("-c",) if only_check else ()), "-f", "-", given=text)
    return "" if code == 0 else said or f"nft ended with code {code}"


def tables() -> frozenset[str]:
    """Those that are there, as `ip filter`; none where they cannot be seen."""
    _, said = _run("list", "tables")
    return frozenset(line.removeprefix("table ") for line in said.splitlines() if line.startswith("table "))


def has_chain(table: str, chain: str) -> bool:
    return _run("list", "chain", *table.split(" "), chain)[0] == 0


def _run(*arguments: str, given: str = "") -> tuple[int, str]:
    """-> its code, and what it says: the first line of trouble, or all of its answer."""
    program = shutil.which("nft", path=f"{os.environ.get('PATH', os.defpath)}:{_PLACES}")
    if program is None:
        return -1, "the program nft is not installed (package nftables)"
    try:
        done = subprocess.run(  # noqa: S603 - ours
            [program, *arguments], input=given, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return -1, str(error)
    if done.returncode == 0:
        return 0, done.stdout
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return done.returncode, next((line.partition("Error: ")[2] or line for line in lines), "")
