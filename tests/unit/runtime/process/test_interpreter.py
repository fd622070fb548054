import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykubelet.base.errors import Retry
from pykubelet.runtime.process import spawner
from pykubelet.runtime.process.interpreter import sealed_copy
from pykubelet.runtime.process.spawner import Spawner
from unit.runtime.process.machine import Machine

PYTHON = os.path.realpath(sys.executable)


def test_a_copy_runs_and_finds_its_library_and_cannot_be_changed() -> None:
    with sealed_copy(PYTHON) as copy:
        command = [PYTHON, "-I", "-S", "-c", "import os; print(os.readlink('/proc/self/exe'))"]
        done = subprocess.run(
            command, executable=f"/proc/self/fd/{copy}", pass_fds=[copy], capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith("/memfd:")
        again = os.open(f"/proc/self/fd/{copy}", os.O_RDWR)
        with pytest.raises(PermissionError):
            os.write(again, b"x")
        with pytest.raises(PermissionError):
            os.truncate(again, 0)
        with pytest.raises(PermissionError):
            mmap.mmap(again, 0)
        os.close(again)


async def test_where_no_copy_can_be_run_the_interpreter_itself_is_and_that_is_said(
    plain: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none(path: str) -> None:
        raise OSError("none today")

    monkeypatch.setattr(spawner, "sealed_copy", none)
    _, output = await plain.run("echo well")
    assert output == "well\n"
    assert "(none today): containers are entered by that file itself" in caplog.text


async def test_an_interpreter_that_does_not_run_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    for text in ("#!/bin/false\n", "nonsense"):
        broken.write_text(text)
        broken.chmod(0o755)
        with pytest.raises(Retry, match=f"cannot start {broken}: "):
            await Spawner(str(broken)).ask("probe", {}, within=30)
