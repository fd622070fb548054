import os
import sys
from pathlib import Path

import pytest

from pykubelet.cli.up import _called


def test_people_are_told_the_name_that_their_shell_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "opt").mkdir()
    program = tmp_path / "opt/pykubelet"
    program.touch(0o755)
    (tmp_path / "bin").mkdir()
    os.symlink(program, tmp_path / "bin/pykubelet")
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert _called() == "pykubelet"
    monkeypatch.setenv("PATH", "/nowhere")
    assert _called() == "opt/pykubelet"
    (other := tmp_path / "other").mkdir()
    (other / "pykubelet").touch(0o755)
    monkeypatch.setenv("PATH", str(other))
    assert _called() == "opt/pykubelet"
    monkeypatch.setattr(sys, "argv", ["/a/pykubelet/__main__.py"])
    monkeypatch.setattr(sys, "executable", "/with space/python3")
    assert _called() == "'/with space/python3' -m pykubelet"
