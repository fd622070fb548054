import sys
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.up.folder import Folder, Plan, default_folder
from pykubelet.up.installation import Installation, _has_running

PLAN = Plan(node="n1", address="10.0.0.1", api_port=6443, kubelet_port=10250, runtime="process")


def test_a_folder_knows_what_was_decided(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.save(PLAN) == PLAN
    assert Folder(tmp_path).plan() == PLAN
    assert PLAN.made_by == "up"
    assert Plan(node="n1", address="", api_port=0, kubelet_port=1, runtime="", kubeconfig="/k").made_by == "join"


def test_a_mark_that_cannot_be_read_is_told_by_who_needs_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.mark.write_text("{}")
    assert folder.read_plan() is None
    with pytest.raises(Invalid, match="cannot be read; was it made by another version"):
        folder.plan()


def test_nothing_is_removed_that_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(Invalid, match="was not made by `pykubelet up`; nothing in it was touched"):
        Installation(Folder(tmp_path), print).reset()
    assert (tmp_path / "precious").exists()


def test_what_is_ours_is_removed_also_when_its_mark_cannot_be_read(tmp_path: Path) -> None:
    folder, said = Folder(tmp_path / "data"), list[str]()
    folder.path.mkdir()
    folder.mark.write_text("{}")
    Installation(folder, said.append).reset()
    assert not folder.path.exists()
    Installation(folder, said.append).reset()
    assert said == ["All is cleared away.", "There is nothing to remove."]


def test_the_next_command_is_told_as_it_was_called_with_the_folder_that_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/pykubelet", "down"])
    monkeypatch.setenv("PATH", "/nowhere")
    folder, said = Folder(tmp_path / "my data"), list[str]()
    folder.path.mkdir()
    folder.save(PLAN)
    Installation(folder, said.append).down()
    assert f"`.venv/bin/pykubelet up --data '{folder.path}'` goes on from here" in said[-1]
    assert f"`.venv/bin/pykubelet reset --data '{folder.path}'` removes" in said[-1]
    folder.state.mkdir()
    Installation(folder, said.append).reset()
    assert said[1:] == ["All is stopped.", "All is cleared away."]
    assert Folder(default_folder()).flag == ""


@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"])
def test_only_pods_that_still_run_are_waited_for(kind: str) -> None:
    assert _has_running({"status": {kind: [{"state": {"terminated": {}}}, {"state": {"running": {}}}]}})
    assert not _has_running({"status": {kind: [{"state": {"terminated": {}}}]}})
    assert not _has_running({})
