"""Where nothing can be isolated a pod could take the node's credentials: so nothing runs, unless somebody says so."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.runtime.endpoints import make_runtime
from pykubelet.runtime.process import runtime as process_runtime
from pykubelet.runtime.process.abilities import PLAIN, Abilities
from pykubelet.runtime.process.cgroups import Cgroups
from pykubelet.runtime.process.spawner import Spawner
from pykubelet.runtime.settings import RuntimeSettings
from pykubelet.up.runtime_choice import isolation_of
from unit.runtime.process.machine import machine


@pytest.fixture(autouse=True)
def _no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(spawner: Spawner, root: Path, cgroups: Cgroups) -> Abilities:
        return Abilities.plain("unshare: Operation not permitted", cgroups)

    monkeypatch.setattr(process_runtime, "probe_abilities", refuse)


async def test_no_pod_runs_unisolated_by_accident(tmp_path: Path) -> None:
    async with machine(tmp_path / "root", log_root=tmp_path / "logs") as made:
        with pytest.raises(Invalid, match=f"Operation not permitted.*endpoint={PLAIN}"):
            await made.start(f"touch {tmp_path}/was-here")
        status = await made.runtime.status()
        assert not status.ready
        assert PLAIN in status.message
    assert not (tmp_path / "was-here").exists()


async def test_who_wants_plain_processes_gets_them_and_is_told(tmp_path: Path) -> None:
    runtime = make_runtime(RuntimeSettings(endpoint=PLAIN, root=tmp_path, log_root=tmp_path))
    status = await runtime.status()
    assert status.ready
    assert "credentials" in status.isolation
    assert any("credentials" in sentence for sentence in status.limitations)
    await runtime.close()


def test_up_does_not_begin_with_it_unless_told(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=f"endpoint={PLAIN}"):
        isolation_of("process", tmp_path)
    assert isolation_of(PLAIN, tmp_path).startswith("Pods are plain processes of user ")
    assert isolation_of("unix:///somewhere.sock", tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
