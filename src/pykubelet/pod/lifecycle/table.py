"""The pods that should be here, by uid and by name; static pods and the mirror pods that show them to the cluster.

What is in the table is wished for, whether or not it was admitted or runs. Everything is an index that is kept up to
date as pods come and go, so no question depends on how many there are.
"""

from collections.abc import Iterable

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import full_name, is_mirror, is_static


class _Pods:
    """Pods by uid and by full name. Of several with one name the newest comes first."""

    def __init__(self) -> None:
        self.by_uid: dict[str, Pod] = {}
        self._by_name: dict[str, dict[str, Pod]] = {}

    def put(self, pod: Pod) -> None:
        uid, name = pod.metadata.uid, full_name(pod)
        old = self.by_uid.get(uid)
        if old is not None and full_name(old) != name:
            self.remove(uid)
        self.by_uid[uid] = pod
        self._by_name.setdefault(name, {})[uid] = pod

    def remove(self, uid: str) -> Pod | None:
        pod = self.by_uid.pop(uid, None)
        if pod is None:
            return None
        name = full_name(pod)
        namesakes = self._by_name[name]
        del namesakes[uid]
        if not namesakes:
            del self._by_name[name]
        return pod

    def newest(self, name: str) -> Pod | None:
        namesakes = self._by_name.get(name)
        return next(reversed(namesakes.values())) if namesakes else None


class PodTable:
    """All pods of all sources. A static pod and its mirror have different uids; their full name is what links them."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._pods = _Pods()
        self._mirrors = _Pods()
        self._orphans: dict[str, Pod] = {}
        self._pod_uid: dict[str, str] = {}
        for pod in pods:
            self.add(pod)

    def add(self, pod: Pod) -> None:
        """A pod or a mirror pod is new or has changed."""
        ours, others = (self._mirrors, self._pods) if is_mirror(pod) else (self._pods, self._mirrors)
        if pod.metadata.uid in others.by_uid:
            self.remove(pod)
        ours.put(pod)
        self._link(full_name(pod))

    def remove(self, pod: Pod) -> None:
        """A pod or a mirror pod is no longer wished for. Goes by the uid; harmless when it is not here."""
        uid = pod.metadata.uid
        old = self._pods.remove(uid)
        if old is None:
            old = self._mirrors.remove(uid)
            self._pod_uid.pop(uid, None)
            self._orphans.pop(uid, None)
        if old is not None:
            self._link(full_name(old))

    def get(self, uid: str) -> Pod | None:
        """The pod with a uid of its own. A mirror pod is not found by its uid: see `pod_uid`."""
        return self._pods.by_uid.get(uid)

    def by_name(self, namespace: str, name: str) -> Pod | None:
        return self._pods.newest(f"{name}_{namespace}")

    def mirror_of(self, static: Pod) -> Pod | None:
        return self._mirrors.newest(full_name(static))

    def static_of(self, mirror: Pod) -> Pod | None:
        return self._pods.newest(full_name(mirror))

    def pods(self) -> tuple[Pod, ...]:
        """All pods, without the mirrors."""
        return tuple(self._pods.by_uid.values())

    def mirrors(self) -> tuple[Pod, ...]:
        return tuple(self._mirrors.by_uid.values())

    def static_pods(self) -> tuple[Pod, ...]:
        return tuple(filter(is_static, self._pods.by_uid.values()))

    def orphaned_mirrors(self) -> tuple[Pod, ...]:
        """Mirror pods without the pod that they show."""
        return tuple(self._orphans.values())

    def pod_uid(self, uid: str) -> str:
        """The uid that the node knows a pod by, from any uid that people know: a mirror's stands for its pod's.

        It does so for as long as there is the mirror, also when the pod is no longer wished for but still stopping.
        """
        return self._pod_uid.get(uid, uid)

    def __len__(self) -> int:
        return len(self._pods.by_uid)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods.by_uid

    def _link(self, name: str) -> None:
        """Something of this name has come or gone: who shows whom?"""
        pod, mirror = self._pods.newest(name), self._mirrors.newest(name)
        if mirror is None:
            return
        uid = mirror.metadata.uid
        if pod is None:
            self._orphans[uid] = mirror
            return
        self._orphans.pop(uid, None)
        self._pod_uid[uid] = pod.metadata.uid
