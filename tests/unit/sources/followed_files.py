"""Manifests in a folder, and what is told of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from contract.pod_source import Following, following
from pykubelet.pod.lifecycle.pod_update import Listed
from pykubelet.sources.files import FileSource
from pykubelet.sources.static_objects import StaticObjects

AT_ONCE: Final = 1.0
"""Much less than the 20 s of the safety net: who is this fast was told by the kernel."""


def manifest(name: str, image: str = "nginx:1") -> str:
    spec = f"{{containers: [{{name: c, image: '{image}'}}]}}"
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {spec}\n"


@asynccontextmanager
async def followed(
    path: Path, *, period: float = 20.0, objects: StaticObjects | None = None
) -> AsyncIterator[Following]:
    """A source whose first word has been heard."""
    async with following(FileSource(str(path), "n1", period=period, objects=objects)) as view:
        await view.next()
        yield view


async def becomes(view: Following, *, within: float = AT_ONCE, **images: str) -> None:
    """The next event is a list of exactly these pods."""
    event = await view.next(within=within)
    assert isinstance(event, Listed)
    found = {pod.metadata.name.removesuffix("-n1"): pod.spec.containers[0].image for pod in event.pods}
    assert found == images


def faults(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return told
