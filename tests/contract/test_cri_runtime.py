from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from contract.runtime import PROMISES, Promise
from kit.containerd import Containerd
from kit.cri import CriOutside, cleared


@asynccontextmanager
async def outside_of(containerd: Containerd) -> AsyncIterator[CriOutside]:
    outside = CriOutside(containerd)
    try:
        yield outside
    finally:
        await cleared(outside.runtime)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
async def test_the_cri_runtime_keeps_its_promises_on_containerd(promise: Promise, containerd: Containerd) -> None:
    async with outside_of(containerd) as outside:
        await promise(outside)
