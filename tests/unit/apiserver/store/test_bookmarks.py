import asyncio

from kit.virtual_time import virtual_time
from pykubelet.apiserver.store.bookmarks import BOOKMARK_EVERY, send_bookmarks
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Bookmark
from pykubelet.apiserver.store.watchers import Audience, Watcher


class AskedStore(MemoryStore):
    asked = 0

    def request_progress(self) -> None:
        self.asked += 1


@virtual_time
async def test_once_a_minute_the_idle_are_told_where_the_cache_is_and_the_store_is_asked() -> None:
    store, audience, watcher = AskedStore(), Audience(), Watcher("/registry/", 1)
    audience.add(watcher)
    revision = 7
    sending = asyncio.create_task(send_bookmarks(store, audience, lambda: revision, BOOKMARK_EVERY))
    await asyncio.sleep(59)
    assert (watcher.is_idle, store.asked) == (True, 0)
    await asyncio.sleep(2)
    assert await watcher.next() == [Bookmark(7)]
    revision = 9
    await asyncio.sleep(60)
    assert (await watcher.next(), store.asked) == ([Bookmark(9)], 2)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
