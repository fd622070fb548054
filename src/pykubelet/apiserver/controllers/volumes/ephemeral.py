"""Claims for volumes that come and go with their pod: each is made once, and belongs to the pod."""

from typing import Final

from pykubelet.apiserver.controllers.client import CLAIMS, PODS, ControllerClient
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.workloads.ownership import belongs_to, controller_reference
from pykubelet.apiserver.objects import Object, at, has_ended
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event

_ASKED: Final = b'"ephemeral":'


def ephemeral_volumes(pod: Object) -> tuple[Object, list[Object]] | None:
    """None: it has none, or has ended."""
    found = [volume for volume in at(pod, "spec.volumes", ()) if volume.get("ephemeral")]
    if not found or at(pod, "metadata.deletionTimestamp") or has_ended(pod):
        return None
    return pod, found


class EphemeralVolumes:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._pods = client.resource(PODS).prefix
        self._events = EventRecorder(client, "ephemeral_volume")

    async def run(self) -> None:
        await self._client.follow(self.sync, PODS, CLAIMS, wanted=self._matters)

    def _matters(self, event: Event) -> bool:
        return _ASKED in event.value if event.key.startswith(self._pods) else event.kind == "delete"

    async def sync(self) -> None:
        for found in await self._client.views(PODS, ephemeral_volumes):
            if found is not None:
                for volume in found[1]:
                    await self._provide(found[0], volume)

    async def _provide(self, pod: Object, volume: Object) -> None:
        metadata = pod["metadata"]
        name = f"{metadata['name']}-{volume['name']}"
        known = await self._client.known(CLAIMS, metadata["namespace"], name)
        if known is not None:
            if not belongs_to(known, pod):
                where = metadata["namespace"]
                text = f"PVC {where}/{name} was not created for pod {where}/{metadata['name']} (pod is not owner)"
                await self._events.record(pod, "Warning", "FailedBinding", text)
            return
        try:
            await self._client.make(CLAIMS, claim_for(pod, volume))
        except ApiError as error:
            if error.code != 409:
                text = f"ephemeral volume {volume['name']}: create PVC {name}: {error.message}"
                await self._events.record(pod, "Warning", "FailedBinding", text)


def claim_for(pod: Object, volume: Object) -> Object:
    template, metadata = volume["ephemeral"].get("volumeClaimTemplate") or {}, pod["metadata"]
    return {
        "metadata": {
            "name": f"{metadata['name']}-{volume['name']}",
            "namespace": metadata["namespace"],
            "labels": at(template, "metadata.labels", {}),
            "annotations": at(template, "metadata.annotations", {}),
            "ownerReferences": [controller_reference(pod)],
        },
        "spec": copied(template.get("spec") or {}),
    }
