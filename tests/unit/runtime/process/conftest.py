from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from unit.runtime.process.machine import Machine, machine


@pytest.fixture(params=[True, False], ids=["isolated", "plain"])
async def any_machine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Machine]:
    """With all that this machine allows, and with nothing of it."""
    async with machine(tmp_path / "root", isolated=request.param, log_root=tmp_path / "logs") as made:
        yield made


@pytest.fixture
async def isolated(tmp_path: Path) -> AsyncIterator[Machine]:
    options = {"log_root": tmp_path / "logs", "hidden": [tmp_path / "secrets"]}
    async with machine(tmp_path / "root", **options) as made:
        status = await made.runtime.status()
        if any("plain processes" in sentence for sentence in status.limitations):
            pytest.skip("this machine has no namespaces to give")
        yield made


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Machine]:
    async with machine(tmp_path / "root", isolated=False, log_root=tmp_path / "logs") as made:
        yield made
