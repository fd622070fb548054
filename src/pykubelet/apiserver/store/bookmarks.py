"""Bookmarks: an idle watcher is told from time to time how far it has come, so that after a break it goes on from there
instead of listing everything again."""

import asyncio
from collections.abc import Callable
from typing import Final

from pykubelet.apiserver.store.port import Bookmark, Store
from pykubelet.apiserver.store.watchers import Audience

BOOKMARK_EVERY: Final = 60.0


async def send_bookmarks(store: Store, audience: Audience, revision: Callable[[], int], seconds: float) -> None:
    """Endless. What the store tells when it is asked is in the next bookmark."""
    while True:
        await asyncio.sleep(seconds)
        store.request_progress()
        audience.tell_idle(Bookmark(revision()))
