from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.sources.manifest_check import check_manifests

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, image: nginx}]}\n"


def test_pods_are_counted_and_faults_are_told_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD)
    (tmp_path / "bad.yaml").write_text("a: b: c")
    (tmp_path / ".hidden.yaml").write_text("a: b: c")
    pods, faults = check_manifests(tmp_path)
    assert pods == 1
    assert [fault.startswith(f"{tmp_path}/bad.yaml:1:5: is not YAML") for fault in faults] == [True]
    assert check_manifests(tmp_path / "web.yaml") == (1, ())


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="none: there is no such file or folder of manifests"):
        check_manifests(tmp_path / "none")


def test_a_misspelled_field_is_told_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(POD.replace("image: nginx", "image: nginx, comand: [sleep]"))
    pods, faults = check_manifests(tmp_path)
    where = f"{tmp_path}/web.yaml:4:45: spec.containers[0].comand"
    assert (pods, faults) == (0, (f"{where}: there is no such field; did you mean command?",))
