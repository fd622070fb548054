from pathlib import Path

import pytest

from contract.streams import PROMISES, Promise, a_connection_leads_to_what_a_command_listens_on
from unit.runtime.process.machine import machine


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "plain"])
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
async def test_the_process_runtime_keeps_its_promises_about_streams(
    promise: Promise, isolated: bool, tmp_path: Path
) -> None:
    async with machine(tmp_path / "root", isolated=isolated) as outside:
        await promise(outside)


async def test_a_command_in_a_container_of_its_own_processes_may_listen(tmp_path: Path) -> None:
    async with machine(tmp_path / "root", isolated=True) as outside:
        await a_connection_leads_to_what_a_command_listens_on(outside)
