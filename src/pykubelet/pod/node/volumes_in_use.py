"""Which volumes this node uses that somebody else attaches, so that nobody takes one away while it is in use.

A volume is told of before it is mounted and for as long as it is: whoever detaches looks at that first. What an earlier
agent has left is believed to be one of those if the API server knew it as such.
"""

from collections.abc import Callable

from pykubelet.api.node import NodeStatus


class VolumesInUse:
    """`shown` is the node's status as an API server shows it now, None while that is unknown; `changed` is called when
    there is something new to tell. Holders are pods, by uid, each with any number of volumes."""

    def __init__(
        self,
        shown: Callable[[], NodeStatus | None] = lambda: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._shown = shown
        self._changed = changed
        self._held: dict[str, set[str]] = {}
        self._left: dict[str, set[str]] = {}
        """By an earlier agent: nobody has said yet whether these are attached at all."""

    def found(self, volume: str, uid: str) -> None:
        """What an earlier agent has left, before the first report."""
        self._left.setdefault(volume, set()).add(uid)

    def hold(self, volume: str, uid: str) -> None:
        is_new = volume not in self._held
        self._held.setdefault(volume, set()).add(uid)
        if is_new:
            self._changed()

    def let_go(self, volume: str, uid: str) -> None:
        """Nothing of it is left here for that pod."""
        for holders in (self._held, self._left):
            if uid in holders.get(volume, ()):
                holders[volume].discard(uid)
                if not holders[volume]:
                    del holders[volume]
                    self._changed()

    def forget(self, uid: str) -> None:
        """All that the pod holds."""
        for volume in [each for holders in (self._held, self._left) for each in holders]:
            self.let_go(volume, uid)

    def names(self, shown: NodeStatus) -> tuple[str, ...]:
        """What the node's status has to say, where it says this now."""
        known = {*shown.volumes_in_use, *(each.name for each in shown.volumes_attached)}
        return tuple(sorted({*self._held, *known.intersection(self._left)}))

    def awaited(self, volume: str) -> str:
        """What keeps a held volume from being mounted; empty: nothing."""
        shown = self._shown()
        if shown is None or volume not in shown.volumes_in_use:
            return "it is not in the node's list of volumes in use yet"
        if all(each.name != volume for each in shown.volumes_attached):
            return (
                "it is not in the node's list of attached volumes yet: the cluster's attach-detach controller adds it"
            )
        return ""
