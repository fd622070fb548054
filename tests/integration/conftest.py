from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.containerd import Containerd
from kit.cri import cleared
from kit.cri_node import CriNode


@pytest.fixture
async def node(containerd: Containerd, tmp_path: Path) -> AsyncIterator[CriNode]:
    node = CriNode(containerd, tmp_path / "logs")
    yield node
    await cleared(node.runtime)
