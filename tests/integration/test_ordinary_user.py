"""All tests of the embedded runtime once more as an ordinary user: most people have root neither at home nor in CI."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.nobody import NOBODY, as_nobody

_TESTS = Path(__file__).parents[1]
_HERE = "unit/runtime/process"
_ATTACKS = (
    *("capabilities", "credentials", "device_nodes", "device_rules", "escape_by_spec", "mount_races", "profiles"),
    "secrets_at_rest",
    "hostile_images",
    "abstract_sockets",
    "pressure",
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not pytest's own, which nobody but its owner may enter."""
    made = Path(tempfile.mkdtemp(prefix="pykubelet-nobody-"))
    os.chown(made, NOBODY, NOBODY)
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(os.getuid() != 0, reason="they run as an ordinary user already")
@pytest.mark.timeout(300)
def test_all_of_it_works_for_an_ordinary_user(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder}/tests"]
    command += ["--numprocesses=2", "--dist=loadfile"]  # they wait more than they work
    command += ["-c", str(_TESTS.parent / "pyproject.toml"), "--rootdir", str(_TESTS.parent)]
    command += [
        str(_TESTS / _HERE),
        f"--ignore={_TESTS / _HERE / 'seccomp'}",  # pure, and the same for everybody
        *(str(_TESTS / f"contract/test_process_{port}.py") for port in ("runtime", "streams")),
        *(str(_TESTS / f"security/test_{topic}.py") for topic in _ATTACKS),
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*as_nobody(), *command], env=environment, capture_output=True, text=True, check=False, cwd=_TESTS.parent
    )
    if "unshare:" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
