"""Every file that an agent remembers something in, spoilt in every way: none of them brings it down, and each is told.

What has to be whole lest pods get what is another's (processors, memory, users) is refused by name; all else is put
aside or passed over, and the agent goes on as if it had not been there.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from kit.pods import make_pod
from pykubelet.api.pod import Pod
from pykubelet.app.pinning import _restore
from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.host.allocation_files import ALLOCATED, AllocationFiles
from pykubelet.host.checkpoint import ObjectCheckpoint, PodCheckpoint
from pykubelet.host.dirs import PodDirs
from pykubelet.host.journal_files import read_journal
from pykubelet.host.shutdown_state import ShutdownState
from pykubelet.host.state_files import StateFiles
from pykubelet.host.user_namespaces import UserNamespaces
from pykubelet.kube.before import Before
from pykubelet.plugins.claims import CHECKPOINT as CLAIMS
from pykubelet.plugins.claims import NodeClaims
from pykubelet.plugins.csi_records import DATA, CsiRecords
from pykubelet.plugins.devices import CHECKPOINT as DEVICES
from pykubelet.plugins.devices import PluginDevices
from pykubelet.pod.container.user_namespaces import IdSpace
from pykubelet.pod.moments import Journal
from pykubelet.pod.pinning.state_files import read_cpu_state, read_memory_state
from pykubelet.runtime.process.store import Store
from pykubelet.up.folder import Folder
from pykubelet.up.supervisor import read_parts

UID: Final = "uid-web"
DAMAGE: Final[Mapping[str, bytes | None]] = {
    "empty": b"",
    "truncated": b'{"data": "{\\"entries',
    "garbage": b"\x00\xff\xfe not json \x80",
    "another kind": b"[1, 2, 3]",
    "another version": b'{"version": "v99", "apiVersion": "v99", "Data": 7, "data": 7, "t": {}, "checksum": "x"}',
    "deep": b"[" * 100_000,
    "unreadable": None,
}


def devices(folder: Path) -> object:
    made = PluginDevices(str(folder))
    made.load()
    return made.inventory.devices


def claims(folder: Path) -> object:
    made = NodeClaims(folder, None, None, Journal())  # type: ignore[arg-type]
    made.load()
    return made.table.of(UID)


def objects(folder: Path) -> object:
    kept = ObjectCheckpoint(folder)
    kept.load([make_pod()])
    return Before(kept).recall(Pod, "node")


def pinned(kind: str, read: Callable[[str, bytes], Any]) -> Callable[[Path], object]:
    return lambda folder: _restore(StateFiles(folder), f"{kind}_manager_state", kind, "static", read, None)


def users(folder: Path) -> object:
    dirs = PodDirs(str(folder), str(folder / "logs"))
    space = IdSpace(first=65536, length=65536 * 10, per_pod=65536)
    return asyncio.run(UserNamespaces(dirs, space)._read_record(UID))


PASSED_OVER: Final[Mapping[str, tuple[str, Callable[[Path], object], object]]] = {
    "allocations": (ALLOCATED, lambda folder: AllocationFiles(folder).load().allocated, {}),
    "devices": (DEVICES, devices, {}),
    "claims": (CLAIMS, claims, []),
    "pods": ("u1.json", lambda folder: PodCheckpoint(folder).load(), ()),
    "objects": ("node.json", objects, None),
    "shutdown": ("graceful_node_shutdown_state", lambda at: asyncio.run(ShutdownState(at).load()), (None, None)),
    "containers": ("containers/c1/state.json", lambda folder: list(opened(folder).read_containers()), []),
    "sandboxes": ("sandboxes/s1/state.json", lambda folder: list(opened(folder).read_sandboxes()), []),
    "csi": (
        f"pods/{UID}/volumes/kubernetes.io~csi/v/{DATA}",
        lambda at: [each for each in CsiRecords(str(at), "n1").all() if not isinstance(each, tuple)],
        [],
    ),
}
REFUSED: Final[Mapping[str, tuple[str, Callable[[Path], object]]]] = {
    "cpus": ("cpu_manager_state", pinned("cpu", read_cpu_state)),
    "memory": ("memory_manager_state", pinned("memory", read_memory_state)),
    "users": (f"pods/{UID}/userns", users),
    "parts": ("parts.json", lambda folder: read_parts(folder / "parts.json")),
    "plan": (".pykubelet", lambda folder: Folder(folder).plan()),
}
QUIET: Final = frozenset({"csi", "objects"})
"""Passed over by name elsewhere, or told when they are asked for."""


def opened(folder: Path) -> Store:
    store = Store(folder)
    store.open()
    return store


def spoil(path: Path, damage: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = DAMAGE[damage]
    if content is None:
        path.symlink_to(path)  # also root cannot read that
    else:
        path.write_bytes(content)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("which", PASSED_OVER)
def test_an_agent_goes_on_without_what_it_cannot_read(
    tmp_path: Path, which: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    name, load, nothing = PASSED_OVER[which]
    path = tmp_path / name
    spoil(path, damage)
    caplog.set_level(logging.WARNING)
    if damage == "unreadable" and which in ("containers", "sandboxes"):  # who runs there has to be known
        with pytest.raises(PykubeletError, match="cannot be read"):
            load(tmp_path)
        return
    assert load(tmp_path) == nothing
    if which not in QUIET:
        assert path.name in caplog.text or path.parent.name in caplog.text
    assert load(tmp_path) == nothing, "and once more"


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("which", REFUSED)
def test_what_nobody_may_guess_is_refused_by_name(tmp_path: Path, which: str, damage: str) -> None:
    name, load = REFUSED[which]
    spoil(tmp_path / name, damage)
    if (which, damage) == ("users", "empty"):
        return  # a pod without one
    with pytest.raises(PykubeletError) as raised:
        load(tmp_path)
    assert str(tmp_path / name) in str(raised.value)
    assert (tmp_path / name).is_symlink() or (tmp_path / name).exists(), "it is for people to remove"


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_segment_of_the_journal_is_passed_over(tmp_path: Path, damage: str) -> None:
    spoil(tmp_path / "1.jsonl", damage)
    assert list(read_journal(tmp_path)) == []


def test_a_state_that_is_not_there_is_no_trouble(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for which, (_, load, nothing) in PASSED_OVER.items():
        assert load(tmp_path / which) == nothing
    assert not caplog.text
    with pytest.raises(Invalid):
        Folder(tmp_path).plan()
