"""What people install: the wheel, in an environment that has what it says it needs and none of the tests' tools."""

import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[2]


def built(folder: Path) -> Path:
    """-> the wheel, made from the source archive, which is made from this tree: both have to be whole."""
    _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder), cwd=PROJECT)
    with tarfile.open(next(folder.glob("pykubelet-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    source = next(path for path in folder.glob("pykubelet-*") if path.is_dir())
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=source)
    return next(folder.glob("*.whl"))


def installed(wheel: Path, folder: Path) -> Path:
    """-> an environment with that wheel. Its dependencies are links to those that are here: quick, and no others."""
    venv.create(folder, symlinks=True)
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "--python",
        str(folder / "bin/python"),
    )
    # With a home of its own: pip asks what compilers there are, and one of those makes itself at home when it is asked.
    _run(*pip, "install", "--no-compile", "--no-deps", "--no-index", str(wheel), home=folder)
    packages = next(folder.glob("lib/python*/site-packages"))
    made = next(packages.glob("pykubelet-*.dist-info"))
    for needed in _closure(Distribution.at(made)):
        for name in {file.parts[0] for file in needed.files or () if file.parts[0] != ".."}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(str(needed.locate_file(name))))
    return folder


def environment() -> dict[str, str]:
    """Of a person who has never worked on it: no path leads to this tree."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _closure(of: Distribution, seen: frozenset[str] = frozenset()) -> Iterator[Distribution]:
    """What it needs, and what that needs, without extras and without what other versions of Python would need."""
    for requirement in of.requires or ():
        what, _, condition = requirement.partition(";")
        matched = re.match(r"[\w.-]+", what)
        if matched is None or "extra" in condition or matched[0] in seen or not _holds(condition):
            continue
        needed = distribution(matched[0])
        yield needed
        yield from _closure(needed, seen | {matched[0]})


def _holds(condition: str) -> bool:
    from packaging.markers import Marker

    return not condition.strip() or Marker(condition).evaluate()


def _run(*command: str, cwd: Path = PROJECT, home: Path | None = None) -> None:
    env = {**os.environ, "HOME": str(home)} if home else None
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
