"""Removal that is cut short: who comes after must be able to see that something is left."""

import os

import pytest

from kit.pods import make_pod
from pykubelet.base.errors import Retry
from pykubelet.host.dirs import PodDirs
from pykubelet.host.local import LocalHost


async def test_a_pod_whose_logs_are_not_gone_yet_is_still_known(dirs: PodDirs, monkeypatch: pytest.MonkeyPatch) -> None:
    host, pod = LocalHost(dirs, memory=2**30), make_pod("web", uid="u1")
    await host.set_up(pod)

    async def cut_short(uid: str) -> None:
        raise Retry("the agent was killed in this moment")

    monkeypatch.setattr(dirs, "remove_logs", cut_short)
    with pytest.raises(Retry):
        await host.remove("u1")
    monkeypatch.undo()
    assert await host.uids() == {"u1"}
    await host.remove("u1")
    assert await host.uids() == set()
    assert not os.path.exists(dirs.logs(pod))  # noqa: ASYNC240 - tests may block
