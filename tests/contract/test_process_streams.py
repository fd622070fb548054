from pathlib import Path

import pytest

from contract.streams import PROMISES, Promise
from unit.runtime.process.machine import machine


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "plain"])
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
async def test_the_process_runtime_keeps_its_promises_about_streams(
    promise: Promise, isolated: bool, tmp_path: Path
) -> None:
    async with machine(tmp_path / "root", isolated=isolated) as outside:
        await promise(outside)
