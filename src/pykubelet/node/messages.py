"""What the sync loop hears. A message says which pod, never what to do about it."""

from collections.abc import Mapping

from msgspec import Struct

from pykubelet.pod.eviction.eviction import Eviction
from pykubelet.pod.lifecycle.pod_update import SourceEvent
from pykubelet.pod.lifecycle.probe_results import ProbeKind, Result


class Said(Struct, frozen=True):
    """A source of pods has said something."""

    source: str
    event: SourceEvent


class RuntimeChanged(Struct, frozen=True):
    """Something has happened in the runtime to a pod: a container has started or died."""

    uid: str


class ObjectsChanged(Struct, frozen=True):
    """Config maps or secrets have changed that these pods use."""

    uids: frozenset[str]


class Tick(Struct, frozen=True):
    """Another second has passed."""


class Housekeep(Struct, frozen=True):
    """Time to look for what nobody wants any more."""

    folders: frozenset[str]
    """Uids of the pods that have a folder or a control group."""


class Probed(Struct, frozen=True):
    """The result of a probe has changed."""

    kind: ProbeKind
    uid: str
    container_id: str
    result: Result


class OverLimit(Struct, frozen=True):
    """A pod uses more than it may, or than the node can bear."""

    uid: str
    found: Eviction


class GoingDown(Struct, frozen=True):
    """The machine is about to go down, or is not any more."""

    is_near: bool
    graces: Mapping[str, int] = {}
    """By uid: pods that have to end now, and the seconds that each has."""


Message = Said | RuntimeChanged | ObjectsChanged | Tick | Housekeep | Probed | OverLimit | GoingDown
