"""Many sources, one ordered stream: what each source says becomes the smallest set of updates that makes it true here.

Each source owns a map of its pods by uid. The API source sends one changed pod, never the list, so an event costs the
same on a node with ten pods and with ten thousand.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, assert_never

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import full_name
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION, SEEN_ANNOTATION, SOURCE_ANNOTATION
from pykubelet.api.struct import changed, rfc3339_nano
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed, Op, PodUpdate, Restored, SourceEvent

_LOCAL_ANNOTATIONS: Final = frozenset((SOURCE_ANNOTATION, MIRROR_ANNOTATION, SEEN_ANNOTATION))


class Notify(StrEnum):
    """How the stream tells of changes."""

    INCREMENTAL = "Incremental"
    """Each change as itself. The node agent's mode."""
    SNAPSHOT = "Snapshot"
    """All pods of all sources, whenever anything changes."""
    SNAPSHOT_AND_UPDATES = "SnapshotAndUpdates"
    """All pods when some come or go; updates and deletes as themselves."""


class _Changes:
    """What one event of one source amounts to, in the order in which the source named the pods."""

    __slots__ = ("adds", "deletes", "reconciles", "removes", "restores", "updates")

    def __init__(self) -> None:
        self.adds: list[Pod] = []
        self.updates: list[Pod] = []
        self.deletes: list[Pod] = []
        self.removes: list[Pod] = []
        self.reconciles: list[Pod] = []
        self.restores: list[Pod] = []


class Merge:
    """The pods of all sources. Not a coroutine and not a queue: a call changes the state and returns what to deliver.

    `on_duplicate(pod, source)` is told of each pod that is dropped because another of its name or uid came with it.
    """

    def __init__(
        self,
        notify: Notify = Notify.INCREMENTAL,
        *,
        sources: Iterable[str] = (),
        on_duplicate: Callable[[Pod, str], None] | None = None,
    ) -> None:
        self._notify = notify
        self._sources = frozenset(sources)
        self._on_duplicate = on_duplicate
        self._pods: dict[str, dict[str, Pod]] = {}
        self._seen: set[str] = set()

    @property
    def seen(self) -> frozenset[str]:
        """The sources that have sent their whole truth at least once."""
        return frozenset(self._seen)

    def seen_all(self, handled: Iterable[str]) -> bool:
        """Whether every source has spoken, and its first word is among those `handled` by the reader of the stream."""
        return self._sources <= self._seen and self._sources <= set(handled)

    def pods(self, source: str) -> Mapping[str, Pod]:
        """One source's pods by uid. The map is live: read it, do not keep it."""
        return self._pods.get(source, {})

    def apply(self, source: str, event: SourceEvent, now: datetime) -> tuple[PodUpdate, ...]:
        """Take in what a source says. -> the updates to deliver, in their order."""
        match event:
            case Applied(pod):
                return self.upsert(source, (pod,), now)
            case Gone(uid):
                return self.remove(source, (uid,))
            case Listed(pods, unread):
                return self.set(source, pods, now, unread=unread)
            case Restored(pods):
                return self.restore(source, pods, now)
            case _:
                assert_never(event)

    def set(
        self, source: str, pods: Iterable[Pod], now: datetime, *, unread: frozenset[str] = frozenset()
    ) -> tuple[PodUpdate, ...]:
        """The source's whole truth: what it leaves out is removed, but for the uids that are there and `unread`."""
        first = source not in self._seen
        self._seen.add(source)
        before = self._pods.get(source, {})
        after: dict[str, Pod] = {}
        changes = _Changes()
        self._take(source, pods, before, after, changes, now)
        after.update({uid: before[uid] for uid in unread if uid in before and uid not in after})
        changes.removes.extend(pod for uid, pod in before.items() if uid not in after)
        self._pods[source] = after
        return self._deliver(source, changes, first)

    def upsert(self, source: str, pods: Iterable[Pod], now: datetime) -> tuple[PodUpdate, ...]:
        """New or changed pods; the source's other pods stay."""
        known = self._pods.setdefault(source, {})
        changes = _Changes()
        self._take(source, pods, known, known, changes, now)
        return self._deliver(source, changes)

    def remove(self, source: str, uids: Iterable[str]) -> tuple[PodUpdate, ...]:
        known = self._pods.get(source, {})
        changes = _Changes()
        changes.removes.extend(known.pop(uid) for uid in uids if uid in known)
        return self._deliver(source, changes)

    def restore(self, source: str, pods: Iterable[Pod], now: datetime) -> tuple[PodUpdate, ...]:
        """Pods from a checkpoint, to be run before the source can be asked. What it says later counts for more."""
        known = self._pods.setdefault(source, {})
        changes = _Changes()
        for pod in pods:
            if pod.metadata.uid not in known:
                known[pod.metadata.uid] = restored = _first_seen(pod, source, now)
                changes.restores.append(restored)
        return self._deliver(source, changes)

    def _take(
        self,
        source: str,
        pods: Iterable[Pod],
        before: Mapping[str, Pod],
        after: dict[str, Pod],
        changes: _Changes,
        now: datetime,
    ) -> None:
        for pod in self._without_duplicates(source, pods):
            uid = pod.metadata.uid
            existing = before.get(uid)
            if existing is None:
                after[uid] = added = _first_seen(pod, source, now)
                changes.adds.append(added)
            elif _differs(existing, pod):
                after[uid] = updated = _updated(existing, pod, source)
                (changes.updates if pod.metadata.deletion_timestamp is None else changes.deletes).append(updated)
            elif existing.status != pod.status:
                after[uid] = reconciled = _with_annotations(pod, existing.metadata.annotations)
                changes.reconciles.append(reconciled)
            else:
                after[uid] = existing

    def _without_duplicates(self, source: str, pods: Iterable[Pod]) -> Iterable[Pod]:
        names: set[str] = set()
        uids: set[str] = set()
        for pod in pods:
            name, uid = full_name(pod), pod.metadata.uid
            if name not in names and uid not in uids:
                names.add(name)
                uids.add(uid)
                yield pod
            elif self._on_duplicate is not None:
                self._on_duplicate(pod, source)

    def _deliver(self, source: str, changes: _Changes, first: bool = False) -> tuple[PodUpdate, ...]:
        match self._notify:
            case Notify.INCREMENTAL:
                return _incremental(source, changes, first)
            case Notify.SNAPSHOT:
                news = changes.adds or changes.updates or changes.deletes or changes.removes or changes.restores
                return (PodUpdate(Op.SET, source, self._all_pods()),) if news or first else ()
            case Notify.SNAPSHOT_AND_UPDATES:
                updates = []
                if changes.adds or changes.removes or changes.restores or first:
                    updates.append(PodUpdate(Op.SET, source, self._all_pods()))
                if changes.updates:
                    updates.append(PodUpdate(Op.UPDATE, source, tuple(changes.updates)))
                if changes.deletes:
                    updates.append(PodUpdate(Op.DELETE, source, tuple(changes.deletes)))
                return tuple(updates)
            case _:
                assert_never(self._notify)

    def _all_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pods in self._pods.values() for pod in pods.values())


def _incremental(source: str, changes: _Changes, first: bool) -> tuple[PodUpdate, ...]:
    """Room is made before it is taken: removals come first. A source that has nothing to say at first sends an empty
    ADD, so that its readers know it is there."""
    silent = first and not (changes.adds or changes.updates or changes.deletes)
    return tuple(
        PodUpdate(op, source, tuple(pods))
        for op, pods in (
            (Op.REMOVE, changes.removes),
            (Op.RESTORE, changes.restores),
            (Op.ADD, changes.adds),
            (Op.UPDATE, changes.updates),
            (Op.DELETE, changes.deletes),
            (Op.RECONCILE, changes.reconciles),
        )
        if pods or (silent and op is Op.ADD)
    )


def _differs(existing: Pod, pod: Pod) -> bool:
    """Whether what is asked of the pod has changed. Its status is not asked of it, and our own annotations are ours."""
    old, new = existing.metadata, pod.metadata
    return (
        old.deletion_timestamp != new.deletion_timestamp
        or old.deletion_grace_period_seconds != new.deletion_grace_period_seconds
        or old.labels != new.labels
        or _foreign(old.annotations) != _foreign(new.annotations)
        or existing.spec != pod.spec
    )


def _foreign(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key not in _LOCAL_ANNOTATIONS}


def _first_seen(pod: Pod, source: str, now: datetime) -> Pod:
    ours = {SOURCE_ANNOTATION: source, SEEN_ANNOTATION: rfc3339_nano(now)}
    return _with_annotations(pod, {**pod.metadata.annotations, **ours})


def _updated(existing: Pod, pod: Pod, source: str) -> Pod:
    ours = {key: value for key, value in existing.metadata.annotations.items() if key in _LOCAL_ANNOTATIONS}
    return _with_annotations(pod, {**pod.metadata.annotations, SOURCE_ANNOTATION: source, **ours})


def _with_annotations(pod: Pod, annotations: Mapping[str, str]) -> Pod:
    return changed(pod, metadata=changed(pod.metadata, annotations=annotations))
