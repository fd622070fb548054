"""The agent does what the runtime leaves to it, and no more: by what the runtime says, whosever it is."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kit.fake_runtime import FakeRuntime
from pykubelet.api.struct import changed
from pykubelet.app.agent import agent_parts, chores, rotation
from pykubelet.app.foundations import lay_foundations
from pykubelet.app.machine import machine_parts
from pykubelet.config.agent import make_config
from pykubelet.node.log_rotation import LogRotation, RotationSettings
from pykubelet.node.pleg import Pleg
from pykubelet.pod.ports.runtime import Capabilities

ALWAYS = ("allocations", "logs", "kills for want of memory", "device plug-ins", "plug-ins")


@pytest.mark.parametrize(
    ("can", "high", "expected"),
    [
        (Capabilities(), 85, {*ALWAYS}),
        (Capabilities(keeps_images=True), 85, {*ALWAYS, "image gc"}),
        (Capabilities(keeps_images=True), 100, {*ALWAYS, "image gc"}),  # it may be turned on later
    ],
)
async def test_images_are_cleared_away_where_the_runtime_keeps_them_and_people_want_it(
    tmp_path: Path, can: Capabilities, high: int, expected: set[str]
) -> None:
    given = {"staticPodPath": str(tmp_path), "imageGCHighThresholdPercent": high, "--root-dir": str(tmp_path / "state")}
    async with AsyncExitStack() as stack:
        runtime = FakeRuntime()
        runtime.capabilities = can
        base = changed(await lay_foundations(make_config(given), stack), runtime=runtime)
        parts = agent_parts(base, tuple, tuple)
        local = await machine_parts(base, await runtime.status(), lambda: None, parts.objects)
        pleg = Pleg(runtime, asyncio.Queue(), base.journal)
        logs = LogRotation(runtime, local.logs)
        assert set(chores(base, parts, local, pleg, pleg.look, logs)) == expected
        assert local.cgroups is None


def test_logs_are_rotated_where_the_runtime_writes_to_a_new_file_when_told() -> None:
    settings = RotationSettings(max_size=7)
    assert rotation(settings, Capabilities(reopens_logs=True)).max_size == 7
    assert rotation(settings, Capabilities()).max_size == -1
