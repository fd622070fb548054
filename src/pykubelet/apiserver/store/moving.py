"""Moves what one store holds into another one, so that a small cluster can go on with a larger store.

Keys and values are the same in every store; revisions are each store's own, so clients list again.
"""

from pykubelet.apiserver.store.port import AlreadyExists, Store
from pykubelet.base.errors import Invalid

_PAGE = 500


async def move(source: Store, target: Store, prefix: str) -> int:
    """-> how many objects there are. What an earlier try has brought is left as it is; Invalid when the target holds
    something else, for then it is another cluster's, or it has been in use."""
    count, start, revision = 0, "", 0
    while True:
        page = await source.list(prefix, limit=_PAGE, start_key=start, revision=revision)
        for entry in page.entries:
            try:
                await target.create(entry.key, entry.value)
            except AlreadyExists as error:
                if error.entry.value != entry.value:
                    raise Invalid(
                        f"the store already holds another {entry.key}: nothing can be brought into a store that is in "
                        "use; start without --import-from, or with an empty store"
                    ) from None
            count += 1
        if not page.next_key:
            return count
        start, revision = page.next_key, page.revision
