import stat
from pathlib import Path

import pytest

from kit.pods import make_pod
from pykubelet.base.errors import Invalid
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.moments import Admitted, Journal, Phase, PhaseEntered, about
from pykubelet.server.control_socket import ask, control_socket


async def test_the_moments_of_a_pod_can_be_asked_for(tmp_path: Path) -> None:
    journal, path = Journal(rule), tmp_path / "s"
    journal.note(Admitted(is_static=True), about(make_pod()))
    journal.note(PhaseEntered(Phase.RUNNING), about(make_pod()))
    async with control_socket(path, {"ping": lambda _: "pong", "journal": journal.of}):
        assert await ask(path, "ping") == "pong"
        first, second = await ask(path, "journal uid-web")
        assert first["about"] == {"uid": "uid-web", "namespace": "default", "name": "web"}
        assert first["moment"] == {"type": "Admitted", "is_static": True}
        assert second["moment"] == {"type": "PhaseEntered", "phase": "running"}
        assert first["times"] == 1
        assert first["at"].endswith("Z")
        assert await ask(path, "journal nobody") == []
        assert await ask(path, "weather today") == {"error": "there is no 'weather'; ask for ping, journal"}


async def test_there_is_one_agent_at_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with control_socket(path, {"ping": lambda _: "pong"}):
        with pytest.raises(Invalid, match="another agent is running here"):
            async with control_socket(path, {}):
                pass


async def test_nobody_but_the_agents_own_user_may_ask(tmp_path: Path) -> None:
    """What happened to a pod may tell of its secrets, such as a hook's own words."""
    path = tmp_path / "run" / "s"
    async with control_socket(path, {"ping": lambda _: "pong"}):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()
