"""Keeps as many pods as a replica set wants; a replication controller is the same under an older name."""

from collections.abc import Iterable
from typing import Any, Final

from pykubelet.apiserver.controllers.client import PODS, ControllerClient, Kind
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.keyed_work import Key, KeyedWork
from pykubelet.apiserver.controllers.workloads.heads import own_key, owner_keys
from pykubelet.apiserver.controllers.workloads.ownership import claim, selector_of, take
from pykubelet.apiserver.controllers.workloads.pod_control import MOST_AT_ONCE, REST, PodControl, pod_of
from pykubelet.apiserver.controllers.workloads.pod_views import PodView, controller_of, next_availability, pods_of
from pykubelet.apiserver.controllers.workloads.replica_rules import replicas_wanted, status_of, to_delete
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event

REPLICA_SETS: Final[Kind] = ("apps", "replicasets")
REPLICATION_CONTROLLERS: Final[Kind] = ("", "replicationcontrollers")


class ReplicaSetController:
    def __init__(self, client: ControllerClient, kind: Kind = REPLICA_SETS) -> None:
        self._client = client
        self._kind = kind
        self._resource = client.resource(kind)
        component = "replicaset-controller" if kind == REPLICA_SETS else "replication-controller"
        self._pods = PodControl(client, EventRecorder(client, component))
        self._work = KeyedWork(component, self.sync)

    async def run(self) -> None:
        await self._work.run(self._client, (self._kind, PODS), self._keys_of, self._kind)

    async def _keys_of(self, event: Event) -> Iterable[Key]:
        if event.key.startswith(self._resource.prefix):
            return (own_key(event),)
        return await owner_keys(self._client, event, self._kind, self._resource.kind)

    async def sync(self, key: Key) -> float | None:
        """Raises ApiError when it has to be tried again."""
        everyone = await pods_of(self._client, key[0])
        obj = await self._client.known(self._kind, *key)
        selector = None if obj is None else selector_of(obj)
        if obj is None or selector is None:
            return None
        claimed = claim(obj, selector, (pod for pod in everyone if pod.is_active))
        pods = await take(self._client, PODS, obj, self._kind, claimed)
        made, error = 0, None
        if not at(obj, "metadata.deletionTimestamp"):
            pods, made, error = await self._adjust(obj, pods, everyone)
        if made == MOST_AT_ONCE:
            self._work.hold(key, REST)
        await self._say(obj, pods, made, error)
        if error is not None:
            raise error
        return next_availability(pods, at(obj, "spec.minReadySeconds", 0), self._client.now())

    async def _adjust(
        self, obj: Object, pods: list[PodView], everyone: list[PodView]
    ) -> tuple[list[PodView], int, ApiError | None]:
        """-> the pods that are left, how many were made, and what went wrong."""
        missing = replicas_wanted(obj) - len(pods)
        if missing > 0:
            template = at(obj, "spec.template", {})
            wanted = [pod_of(obj, template) for _ in range(min(missing, MOST_AT_ONCE))]
            return pods, *await self._pods.create_all(obj, wanted)
        if missing < 0:
            related = await self._related(obj, everyone)
            gone = to_delete(pods, related, min(-missing, MOST_AT_ONCE), self._client.now())
            error = await self._pods.delete_all(obj, gone)
            return [pod for pod in pods if error is not None or pod not in gone], 0, error
        return pods, 0, None

    async def _related(self, obj: Object, everyone: list[PodView]) -> list[PodView]:
        """The pods of all that have the same owner."""
        owner = controller_of(obj).get("uid")
        if not owner:
            return [pod for pod in everyone if pod.owner == obj["metadata"]["uid"]]
        siblings = await self._client.views(self._kind, _owned, obj["metadata"]["namespace"])
        uids = {uid for uid, of in siblings if of == owner}
        return [pod for pod in everyone if pod.owner in uids]

    async def _say(self, obj: Object, pods: list[PodView], made: int, error: ApiError | None) -> None:
        status = status_of(obj, pods, error.message if error else "", self._client.now(), made=made)
        if obj.get("status", {}) != status:
            await self._client.change(self._kind, obj, lambda live: _with_status(live, status), part="status")


def _owned(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["uid"], controller_of(obj).get("uid", "")


def _with_status(live: Object, status: dict[str, Any]) -> Object:
    return {**live, "status": status}
