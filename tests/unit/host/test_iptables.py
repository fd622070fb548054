import asyncio
from pathlib import Path

import pytest

from kit.waiting import eventually
from pykubelet.host import iptables
from pykubelet.host.iptables import keep_chains, present_programs

REFUSING = "#!/bin/sh\nexit 4\n"


def test_a_machine_whose_kernel_does_not_obey_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert present_programs() == ()
    (tmp_path / "iptables").write_text(REFUSING)
    (tmp_path / "iptables").chmod(0o755)
    assert present_programs() == ()


async def test_what_cannot_be_made_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "iptables"
    program.write_text(f"#!/bin/sh\necho once >> {tmp_path}/calls\nexit 4\n")
    program.chmod(0o755)
    monkeypatch.setattr(iptables, "_PERIOD", 0.01)
    task = asyncio.create_task(keep_chains(str(program)))
    await eventually(lambda: (tmp_path / "calls").exists() and len((tmp_path / "calls").read_text().split()) > 8)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert caplog.text.count("KUBE-IPTABLES-HINT cannot be made") == 1
