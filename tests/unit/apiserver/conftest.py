"""An API server over plain HTTP, with a store in memory."""

from collections.abc import AsyncGenerator

import pytest

from kit.api_process import Api, serving_api


@pytest.fixture
async def api() -> AsyncGenerator[Api, None]:
    async with serving_api() as running:
        yield running
