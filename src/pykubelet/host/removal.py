"""Taking away a folder that something may be mounted in."""

from pykubelet.base.errors import Retry
from pykubelet.base.removal import sweep
from pykubelet.host.mount import mounts_below


def remove_tree(path: str) -> None:
    """Remove a folder and all that is in it. Harmless when it is gone.

    What is mounted is never entered: Retry is raised, with the places, before anything is touched. Raises OSError for
    what cannot be removed.
    """
    mounted = mounts_below(path)
    if mounted:
        raise Retry(f"{path} cannot be removed, for this is still mounted: {', '.join(mounted)}")
    sweep(path)
