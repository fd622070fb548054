from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import pytest

from kit.api_process import Api, serving_api
from kit.containerd import Containerd
from kit.cri import cleared
from kit.cri_node import CriNode


@pytest.fixture
async def node(containerd: Containerd, tmp_path: Path) -> AsyncIterator[CriNode]:
    node = CriNode(containerd, tmp_path / "logs")
    yield node
    await cleared(node.runtime)


@pytest.fixture
async def api() -> AsyncGenerator[Api, None]:
    async with serving_api() as running:
        yield running
