"""Files that change all at once."""

import os
import re
import stat
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.host.volumes import atomic_writer
from pykubelet.host.volumes.atomic_writer import has_content, write_atomically
from pykubelet.pod.container.projected_volumes import FileProjection


def files(**content: str) -> dict[str, FileProjection]:
    return {name.replace("__", "/"): FileProjection(data=text.encode()) for name, text in content.items()}


def seen(folder: Path) -> dict[str, bytes]:
    """What somebody in a container reads: everything but the writer's own names."""
    found = {}
    for top in sorted(folder.iterdir()):
        if top.name.startswith(".."):
            continue
        for path in [top] if top.is_file() else sorted(p for p in top.rglob("*") if p.is_file()):
            found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def test_the_layout_is_upstreams(tmp_path: Path) -> None:
    assert write_atomically(str(tmp_path), files(config="1", user__labels="2"))
    version = os.readlink(tmp_path / "..data")
    assert re.fullmatch(r"\.\.\d{4}(_\d\d){5}\.\w+", version)
    assert os.readlink(tmp_path / "config") == "..data/config"
    assert os.readlink(tmp_path / "user") == "..data/user"
    assert sorted(os.listdir(tmp_path)) == sorted(["..data", version, "config", "user"])
    assert stat.S_IMODE((tmp_path / version).stat().st_mode) == 0o755
    assert seen(tmp_path) == {"config": b"1", "user/labels": b"2"}


def test_what_has_not_changed_is_not_written_again(tmp_path: Path) -> None:
    write_atomically(str(tmp_path), files(a="1"))
    version = os.readlink(tmp_path / "..data")
    os.unlink(tmp_path / "a")  # as if an agent had been killed before it made the link
    assert not write_atomically(str(tmp_path), files(a="1"))
    assert os.readlink(tmp_path / "..data") == version
    assert seen(tmp_path) == {"a": b"1"}


def test_a_change_replaces_all_and_leaves_nothing_of_the_old(tmp_path: Path) -> None:
    write_atomically(str(tmp_path), files(a="1", b="2", c__d="3"))
    old = os.readlink(tmp_path / "..data")
    assert write_atomically(str(tmp_path), files(a="1", e="4"))
    assert seen(tmp_path) == {"a": b"1", "e": b"4"}
    assert not (tmp_path / old).exists()
    assert not os.path.lexists(tmp_path / "c")


def test_modes_are_those_that_were_asked_for_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        wanted = {"s": FileProjection(data=b"x", mode=0o400), "d/x": FileProjection(data=b"x", mode=0o755)}
        write_atomically(str(tmp_path), wanted)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o400
    assert stat.S_IMODE((tmp_path / "d" / "x").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o755


def test_no_file_at_all_is_content_too(tmp_path: Path) -> None:
    assert not has_content(str(tmp_path))
    write_atomically(str(tmp_path), {})
    assert has_content(str(tmp_path))
    assert seen(tmp_path) == {}


def test_a_folder_where_another_volume_is_mounted_stays(tmp_path: Path) -> None:
    (tmp_path / "nested").mkdir()
    write_atomically(str(tmp_path), files(nested__x="1", a="2"))
    write_atomically(str(tmp_path), files(a="3"))
    assert (tmp_path / "nested").is_dir()
    assert not (tmp_path / "nested").is_symlink()


@pytest.mark.parametrize("step", ["_write", "_switch", "_show", "_discard_old"])
def test_an_agent_that_is_killed_anywhere_leaves_whole_versions_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write_atomically(str(tmp_path), files(a="old", b="old"))
    with monkeypatch.context() as patch:

        def die(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(atomic_writer, step, die)
        patch.setattr(atomic_writer, "remove_tree", lambda path: None)  # the dead clean nothing up
        with pytest.raises(KeyboardInterrupt):
            write_atomically(str(tmp_path), files(a="new", b="new"))
    (tmp_path / "..data_tmp").symlink_to("..nowhere")
    assert len(set(seen(tmp_path).values())) == 1
    write_atomically(str(tmp_path), files(a="new", b="new", c="new"))
    assert seen(tmp_path) == {"a": b"new", "b": b"new", "c": b"new"}
    assert len([name for name in os.listdir(tmp_path) if name.startswith("..2")]) == 1


def test_who_owns_them_is_settled_before_they_are_seen(tmp_path: Path) -> None:
    moments: list[bool] = []
    write_atomically(str(tmp_path), files(a="1"), lambda: moments.append(os.path.lexists(tmp_path / "..data")))
    assert moments == [False]


# --- whatever comes

_NAMES = st.sampled_from(["a", "b", "c", "dir/a", "dir/b", "deep/er/x"])
_PAYLOADS = st.dictionaries(_NAMES, st.binary(max_size=20), max_size=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(_PAYLOADS, min_size=1, max_size=6))
def test_after_any_sequence_of_payloads_there_is_the_last_and_nothing_else(payloads: list[Mapping[str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        before: Mapping[str, bytes] | None = None
        for payload in payloads:
            versions: set[str] = set()
            wrote = write_atomically(place, {name: FileProjection(data=data) for name, data in payload.items()})
            assert wrote == (payload != before)
            assert seen(folder) == payload
            versions = {name for name in os.listdir(place) if name.startswith("..") and name != "..data"}
            assert versions == {os.readlink(folder / "..data")}
            links = {name for name in os.listdir(place) if not name.startswith("..")}
            assert links == {name.split("/")[0] for name in payload}
            before = payload


def test_a_reader_never_sees_a_mix(tmp_path: Path) -> None:
    """All files of a version say the same; a reader that holds one version's folder open sees only that version."""
    names = [f"f{number}" for number in range(5)]
    mixed: list[dict[str, bytes]] = []
    reads, over = [0], threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                folder = os.open(tmp_path / "..data", os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue  # the version to which the link led has just been cleared away
            found: dict[str, bytes] = {}
            try:
                for name in names:
                    fd = os.open(name, os.O_RDONLY, dir_fd=folder)
                    found[name] = os.read(fd, 100)
                    os.close(fd)
            except FileNotFoundError:
                pass  # that version has just been cleared away: what was read of it still has to agree
            os.close(folder)
            reads[0] += 1
            if len(set(found.values())) > 1:
                mixed.append(found)

    write_atomically(str(tmp_path), {name: FileProjection(data=b"0") for name in names})
    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 60):
            write_atomically(str(tmp_path), {name: FileProjection(data=b"%d" % number) for name in names})
            assert {(tmp_path / name).read_bytes() for name in names} == {b"%d" % number}
    finally:
        over.set()
        reader.join()
    assert mixed == []
    assert reads[0] > 0
