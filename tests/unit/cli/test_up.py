import os
import sys
from pathlib import Path

import pytest

from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.cli.up import _left_running, _what_next
from pykubelet.up.folder import Folder, Plan, called
from pykubelet.up.installation import Installation

PLAN = Plan(node="n", address="192.0.2.1", api_port=1, kubelet_port=2, runtime="process")


def test_people_are_told_the_name_that_their_shell_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "opt").mkdir()
    program = tmp_path / "opt/pykubelet"
    program.touch(0o755)
    (tmp_path / "bin").mkdir()
    os.symlink(program, tmp_path / "bin/pykubelet")
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert called() == "pykubelet"
    (other := tmp_path / "other").mkdir()
    (other / "pykubelet").touch(0o755)
    for path in "/nowhere", str(other):
        monkeypatch.setenv("PATH", path)
        for typed in str(program), "opt/pykubelet":
            monkeypatch.setattr(sys, "argv", [typed])
            assert called() == typed
    monkeypatch.setattr(sys, "argv", [str(program)])
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert called() == str(program)
    monkeypatch.setattr(sys, "argv", ["/a/pykubelet/__main__.py"])
    monkeypatch.setattr(sys, "executable", "/with space/python3")
    assert called() == "'/with space/python3' -m pykubelet"


def test_who_has_no_kubectl_is_told_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "get kubectl " in _what_next(Folder(tmp_path), "https://a", PLAN)
    (tmp_path / "kubectl").touch(0o755)
    assert "get kubectl " not in _what_next(Folder(tmp_path), "https://a", PLAN)


def test_who_has_static_pods_is_told_how_to_be_rid_of_them(tmp_path: Path) -> None:
    assert "Static" not in _what_next(Folder(tmp_path), "https://a", PLAN)
    told = _what_next(Folder(tmp_path), "https://a", changed(PLAN, manifests="/examples"))
    assert "Static pods (NAME-n) come from /examples: deleted ones come back" in told


@pytest.mark.parametrize(("is_running", "told"), [(True, Retry), (False, KeyboardInterrupt)])
def test_who_interrupts_up_learns_what_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_running: bool, told: type[BaseException]
) -> None:
    monkeypatch.setattr(Installation, "is_running", is_running)
    with pytest.raises(told) as raised, _left_running(Folder(tmp_path)):
        raise KeyboardInterrupt
    assert not is_running or f"down --data {tmp_path}` stops it" in str(raised.value)
