"""Files that change all at once: whoever reads them sees the old ones or the new ones, never some of each.

In the same way as upstream, so that agents can take turns:

    config      -> ..data/config          what people see: links, each made once
    ..data      -> ..2026_01_02_03_04_05.x7f  the switch: one link, replaced by one rename
    ..2026_01_02_03_04_05.x7f/config      the files; a new folder for every change
"""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from pykubelet.host.removal import remove_tree
from pykubelet.pod.container.projected_volumes import FileProjection, Files

DATA: Final = "..data"
_NEXT: Final = "..data_tmp"
_ANYBODY_MAY_LOOK: Final = 0o755


def write_atomically(folder: str, files: Files, publish: Callable[[], None] = lambda: None) -> bool:
    """Make `files`, whose paths were checked, all that there is in a folder. -> whether anything had to be written.

    `publish` is called when the new files are there but not yet seen. What is right already is not written again:
    watches on the files would wake for nothing. May be called again after a failure. Raises OSError.
    """
    old = _current(folder)
    is_new = old is None or not _holds(os.path.join(folder, old), files)
    before = _top_names(os.path.join(folder, old)) if old is not None else frozenset()
    if is_new:
        made = _make_folder(folder)
        try:
            _write(made, files)
            publish()
            _switch(folder, os.path.basename(made))
        except BaseException:
            remove_tree(made)
            raise
    after = {path.split("/")[0] for path in files}
    for name in sorted(after):
        _show(folder, name)
    for name in sorted(before - after):
        _hide(folder, name)
    _discard_old(folder)
    return is_new


def has_content(folder: str) -> bool:
    """Whether files have been written there, by whichever agent."""
    old = _current(folder)
    return old is not None and os.path.isdir(os.path.join(folder, old))


# --- what is there


def _current(folder: str) -> str | None:
    try:
        name = os.readlink(os.path.join(folder, DATA))
    except FileNotFoundError:
        return None
    return name if name.startswith("..") and "/" not in name and name != ".." else None


def _holds(folder: str, files: Files) -> bool:
    found = dict(_files_in(folder))
    if found.keys() != files.keys():
        return False
    return all(_has(path, files[name].data) for name, path in found.items())


def _has(path: str, data: bytes) -> bool:
    if os.lstat(path).st_size != len(data):
        return False
    with open(path, "rb") as file:
        return file.read() == data


def _files_in(folder: str) -> Iterator[tuple[str, str]]:
    """Everything but folders that hold something, each with its path below and its path here."""
    for place, folders, files in os.walk(folder):
        empty = [place] if place != folder and not folders and not files else []
        links = [os.path.join(place, name) for name in folders if os.path.islink(os.path.join(place, name))]
        for path in (*empty, *links, *(os.path.join(place, name) for name in files)):
            yield os.path.relpath(path, folder), path


def _top_names(folder: str) -> frozenset[str]:
    try:
        return frozenset(os.listdir(folder))
    except FileNotFoundError:
        return frozenset()


# --- writing


def _make_folder(folder: str) -> str:
    made = tempfile.mkdtemp(prefix=f"..{datetime.now(UTC):%Y_%m_%d_%H_%M_%S}.", dir=folder)
    os.chmod(made, _ANYBODY_MAY_LOOK)
    return made


def _write(folder: str, files: Files) -> None:
    for name, file in files.items():
        path = os.path.join(folder, name)
        _make_folders(folder, os.path.dirname(name))
        _write_file(path, file)


def _make_folders(root: str, path: str) -> None:
    place = root
    for step in path.split("/") if path else ():
        place = os.path.join(place, step)
        with suppress(FileExistsError):
            os.mkdir(place)
            os.chmod(place, _ANYBODY_MAY_LOOK)  # whatever the umask says


def _write_file(path: str, file: FileProjection) -> None:
    # Nobody may read it before it has the mode that it is to have.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as opened:
        opened.write(file.data)
        opened.flush()
        if file.user is not None:
            with suppress(PermissionError):  # an ordinary user has no files but its own, and runs as nobody else
                os.fchown(fd, file.user, -1)
        os.fchmod(fd, stat.S_IMODE(file.mode))


def _switch(folder: str, name: str) -> None:
    tmp = os.path.join(folder, _NEXT)
    with suppress(FileNotFoundError):
        os.unlink(tmp)  # of an agent that was killed right here
    os.symlink(name, tmp)
    os.rename(tmp, os.path.join(folder, DATA))


def _show(folder: str, name: str) -> None:
    path = os.path.join(folder, name)
    if not os.path.lexists(path):  # a folder of that name is where another volume is mounted
        os.symlink(os.path.join(DATA, name), path)


def _hide(folder: str, name: str) -> None:
    path = os.path.join(folder, name)
    if os.path.islink(path):
        os.unlink(path)


def _discard_old(folder: str) -> None:
    """The last version, and what agents that were killed have left: it may be secret."""
    current = _current(folder)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith("..") and name not in (DATA, current) and os.path.isdir(path) and not os.path.islink(path):
            remove_tree(path)
