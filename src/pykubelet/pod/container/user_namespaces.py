"""Which users of this machine the users of a pod are when it has a user namespace of its own (`hostUsers: false`): each
such pod has a range that no other has, noted in its folder in upstream's words, so that agents can take turns."""

import json
from typing import Any, Final

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid, Retry

UNIT: Final = 65536
"""Programs count on this many users; ranges are multiples of it."""
_ALL: Final = 2**32


class IdMapping(Struct, frozen=True, kw_only=True):
    """A range of users, and of groups of the same numbers, that a pod's user namespace maps."""

    host_id: int
    container_id: int
    length: int


class IdSpace(Struct, frozen=True, kw_only=True):
    """The users and groups of this machine that may be given to pods. By default all but the first 65536, which are the
    machine's own."""

    first: int = UNIT
    length: int = _ALL - UNIT
    per_pod: int = UNIT


def has_own_users(pod: Pod) -> bool:
    return pod.spec.host_users is False


def checked_space(space: IdSpace, max_pods: int) -> IdSpace:
    """Raises Invalid for a space that cannot be divided among so many pods."""
    first, length, per_pod = space.first, space.length, space.per_pod
    if per_pod <= 0 or per_pod % UNIT:
        raise Invalid(f"userNamespaces.idsPerPod: must be a multiple of {UNIT}, got {per_pod}")
    where = "the subordinate ids of the user kubelet"
    if first % per_pod or length % per_pod:
        raise Invalid(f"{where}: first id and length must be multiples of {per_pod}, got {first} and {length}")
    if first < per_pod:  # the machine's own root would be in it
        raise Invalid(f"{where}: must begin at {per_pod} or above, got {first}")
    if first + length > _ALL or length // per_pod < max_pods:
        raise Invalid(f"{where}: {length} from {first} on are not enough for {max_pods} pods of {per_pod} each")
    return space


class IdRanges:
    """Who has which range. Plain functions only: nothing can come between a look and a change."""

    def __init__(self, space: IdSpace) -> None:
        self._space = space
        self._slots: dict[str, int] = {}
        self._next = 0

    def of(self, uid: str) -> IdMapping | None:
        slot = self._slots.get(uid)
        return None if slot is None else self._mapping(slot)

    def allocate(self, uid: str) -> IdMapping:
        """A free range for a pod that has none. One that was given back just now comes last: files of its last owner
        may still be around. Raises Retry when all are taken."""
        taken, count = frozenset(self._slots.values()), self._count
        for offset in range(min(len(taken) + 1, count)):
            slot = (self._next + offset) % count
            if slot not in taken:
                self._slots[uid], self._next = slot, slot + 1
                return self._mapping(slot)
        raise Retry(f"could not find an empty slot to allocate a user namespace: all {count} are taken")

    def record(self, uid: str, mapping: IdMapping) -> None:
        """It was given this range before. Raises Invalid when that cannot be."""
        per_pod = self._space.per_pod
        if mapping.container_id != 0:
            raise Invalid("UID 0 must be mapped")
        if mapping.length != per_pod:
            raise Invalid(f"wrong user namespace length {mapping.length}, must be {per_pod}")
        slot, rest = divmod(mapping.host_id - self._space.first, per_pod)
        if rest or not 0 <= slot < self._count:
            raise Invalid(f"id {mapping.host_id} is out of range")
        if self._slots.get(uid, slot) != slot:
            raise Invalid("a different user namespace range is already used by the pod")
        owner = next((other for other, theirs in self._slots.items() if theirs == slot), uid)
        if owner != uid:
            raise Invalid(f"the range is already taken by the pod {owner}")
        self._slots[uid] = slot

    def release(self, uid: str) -> None:
        """Harmless when it has none."""
        self._slots.pop(uid, None)

    @property
    def _count(self) -> int:
        return self._space.length // self._space.per_pod

    def _mapping(self, slot: int) -> IdMapping:
        per_pod = self._space.per_pod
        return IdMapping(host_id=self._space.first + slot * per_pod, container_id=0, length=per_pod)


def written(mapping: IdMapping) -> bytes:
    """As upstream writes it, byte for byte."""
    own = [{"hostId": mapping.host_id, "containerId": mapping.container_id, "length": mapping.length}]
    return json.dumps({"uidMappings": own, "gidMappings": own}, separators=(",", ":")).encode()


def read(content: bytes) -> IdMapping:
    """Raises Invalid for what nobody of us has written."""
    try:
        noted = json.loads(content)
        users, groups = _mappings(noted["uidMappings"]), _mappings(noted["gidMappings"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Invalid("it holds no mappings of users and groups") from None
    if len(users) != 1 or users != groups:
        raise Invalid("it must hold one mapping of users, and the same of groups")
    return users[0]


def _mappings(given: list[dict[str, Any]]) -> list[IdMapping]:
    return [
        IdMapping(host_id=_id(each["hostId"]), container_id=_id(each["containerId"]), length=_id(each["length"]))
        for each in given
    ]


def _id(given: object) -> int:
    if type(given) is not int or not 0 <= given < _ALL:
        raise ValueError(given)
    return given
