from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from kit.rogue_node import RogueNode, rogue_node
from kit.tls_world import World
from unit.runtime.process.conftest import any_machine, isolated, plain

__all__ = ["any_machine", "isolated", "plain", "rogue", "world"]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World, None]:
    async with World(tmp_path).running() as running:
        yield running


@pytest.fixture
async def rogue(world: World, tmp_path: Path) -> AsyncGenerator[RogueNode, None]:
    async with rogue_node(world, tmp_path) as made:
        yield made
