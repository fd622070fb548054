"""What a source of pods can say, and what becomes of it: the two ends of the merge."""

from enum import StrEnum

from msgspec import Struct

from pykubelet.api.pod import Pod


class Listed(Struct, frozen=True, tag=True):
    """The source's whole truth. A pod that is in neither part of it is gone."""

    pods: tuple[Pod, ...]
    unread: frozenset[str] = frozenset()
    """Uids of pods that exist, but whose present state could not be understood: they stay as they were."""


class Applied(Struct, frozen=True, tag=True):
    """One pod is new or has changed."""

    pod: Pod


class Gone(Struct, frozen=True, tag=True):
    """One pod is no more."""

    uid: str


class Restored(Struct, frozen=True, tag=True):
    """Pods that an earlier run of the agent had admitted. The source itself has not spoken yet."""

    pods: tuple[Pod, ...]


SourceEvent = Listed | Applied | Gone | Restored


class Op(StrEnum):
    SET = "SET"
    """The pods are everything there is."""
    ADD = "ADD"
    """The pods are new to this node."""
    UPDATE = "UPDATE"
    """The pods are known, and what is asked of them has changed."""
    DELETE = "DELETE"
    """The pods are to stop gracefully: they carry a deletion timestamp."""
    REMOVE = "REMOVE"
    """The source no longer has the pods."""
    RECONCILE = "RECONCILE"
    """Only the pods' status differs from what the node knows: the node's word counts."""
    RESTORE = "RESTORE"
    """The pods come from a checkpoint."""


class PodUpdate(Struct, frozen=True):
    """One delivery of the ordered stream that the sync loop consumes."""

    op: Op
    source: str
    pods: tuple[Pod, ...]
