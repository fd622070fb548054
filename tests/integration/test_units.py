"""The units for systemd, as it reads them itself."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "packaging" / "systemd"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", [path.name for path in UNITS.glob("*.service")])
def test_systemd_understands_every_line(tmp_path: Path, name: str) -> None:
    shutil.copytree(UNITS, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            path.write_text(path.read_text().replace("/opt/pykubelet/bin/", "/bin/echo "))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / name],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
