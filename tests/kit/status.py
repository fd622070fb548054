"""A status manager that is running, and what it is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from kit.pod_api import MemoryPods
from kit.pods import make_pod
from pykubelet.api.pod import (
    Pod,
    PodStatus,
)
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION, SOURCE_ANNOTATION
from pykubelet.api.struct import changed
from pykubelet.node.status_manager import StatusManager

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def manager_of(api: MemoryPods | None, **options: Any) -> StatusManager:
    return StatusManager(api, now=lambda: NOW, **options)


@asynccontextmanager
async def running(manager: StatusManager) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(manager.run())
        try:
            yield
        finally:
            task.cancel()


def says(phase: str, **fields: Any) -> PodStatus:
    return PodStatus(phase=phase, **fields)


async def quiet(api: MemoryPods, *, seconds: float = 120.0) -> None:
    """Let time pass: whatever was going to be sent has been sent then."""
    await asyncio.sleep(seconds)
    assert not api.open


def clock() -> float:
    return asyncio.get_running_loop().time()


def static_pod(name: str = "web", uid: str = "static-1") -> Pod:
    return make_pod(name, uid=uid, annotations={SOURCE_ANNOTATION: "file"})


def mirror_of(static: Pod, uid: str = "mirror-1") -> Pod:
    annotations = {**static.metadata.annotations, MIRROR_ANNOTATION: "hash"}
    return changed(static, metadata=changed(static.metadata, uid=uid, annotations=annotations))
