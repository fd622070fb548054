"""What the scheduler reads and writes of claims on devices: before a pod is bound, its claims have what they get."""

import asyncio
import logging
from functools import partial
from typing import Final

from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.controllers.resource_claim_rules import is_reserved
from pykubelet.apiserver.controllers.resource_claims import DEVICE_CLAIMS
from pykubelet.apiserver.controllers.scheduling.device_pools import supply
from pykubelet.apiserver.controllers.scheduling.devices import (
    Devices,
    PodDevices,
    deallocated,
    given,
    given_up,
    protected,
)
from pykubelet.apiserver.controllers.scheduling.fit import Place
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.writer.writer import Change

log = logging.getLogger(__name__)

SLICES: Final[Kind] = ("resource.k8s.io", "resourceslices")
DEVICE_CLASSES: Final[Kind] = ("resource.k8s.io", "deviceclasses")
_REST: Final = 60.0
"""Seconds for which a pod is left alone whose claims took too long: others wait for their nodes, too."""


class DeviceClaims:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._known: Devices | None = None
        self._tired: dict[str, float] = {}

    def forget(self) -> None:
        """Look anew when somebody needs it next."""
        self._known = None

    async def of(self, pod: Object) -> PodDevices | None:
        """None: the pod claims no devices."""
        if not at(pod, "spec.resourceClaims"):
            return None
        if self._known is None:
            client = self._client
            claims = await client.views(DEVICE_CLAIMS, _as_it_is)
            self._known = Devices(
                {(at(each, "metadata.namespace"), at(each, "metadata.name")): each for each in claims},
                supply(await client.views(SLICES, _as_it_is), await client.views(DEVICE_CLASSES, _as_it_is), claims),
            )
        return PodDevices(pod, self._known)

    def rests(self, pod: Object) -> bool:
        """Whether it took too long to look for its devices a moment ago."""
        now = asyncio.get_running_loop().time()
        self._tired = {uid: until for uid, until in self._tired.items() if until > now}
        return pod["metadata"].get("uid", "") in self._tired

    def tire(self, pod: Object) -> None:
        self._tired[pod["metadata"].get("uid", "")] = asyncio.get_running_loop().time() + _REST

    async def reserve(self, devices: PodDevices, pod: Object, node: Place) -> str:
        """Have all claims written for the pod. -> why that cannot be, and then nothing is reserved for it"""
        done: list[Object] = []
        for claim, allocation in devices.writes(node):
            try:
                if allocation is not None:
                    await self._change(claim, protected)
                how = partial(given, allocation=allocation, pod=pod)
                changed = await self._change(claim, how, part="status")
            except ApiError as error:
                what = "allocation and reservation" if allocation is not None else "reservation"
                why = f"add {what} to claim {_name(claim)}: {error.message}"
            else:
                if is_reserved(changed, pod):
                    done.append(changed)
                    if self._known is not None:
                        self._known.note(changed)
                    continue
                gone = at(changed, "metadata.deletionTimestamp")
                why = f"claim {_name(claim)} got {'deleted' if gone else 'allocated elsewhere'} in the meantime"
            await self.give_up(pod, done)
            return f'running PreBind plugin "DynamicResources": {why}'
        return ""

    async def give_up(self, pod: Object, claims: list[Object] | None = None) -> None:
        """The pod does not get its node after all: its claims are not reserved for it. What they have they keep, as
        upstream: it is looked at again with the pod."""
        self.forget()
        for claim in claims if claims is not None else await self._client.all(DEVICE_CLAIMS):
            if is_reserved(claim, pod):
                await self._client.change(DEVICE_CLAIMS, claim, partial(given_up, pod=pod), part="status")

    async def release(self, devices: PodDevices, pod: Object) -> bool:
        """Take the devices from a claim that keeps the pod from every node, and that nobody uses. -> whether one did"""
        claim = devices.idle()
        if claim is None:
            return False
        self.forget()
        await self._client.change(DEVICE_CLAIMS, claim, partial(deallocated, pod=pod), part="status")
        log.info("claim %s has its devices where pod %s cannot run: it gives them back", _name(claim), _name(pod))
        return True

    async def _change(self, claim: Object, how: Change, part: str = "") -> Object:
        """Raises ApiError."""
        client, metadata = self._client, claim["metadata"]
        uid = metadata.get("uid")

        def change(live: Object) -> Object | None:
            return how(live) if at(live, "metadata.uid") == uid else None

        resource = client.resource(DEVICE_CLAIMS)
        return await client.writer.change(resource, metadata["namespace"], metadata["name"], change, part=part)


def _as_it_is(obj: Object) -> Object:
    """Slices may be many and large: whoever looks at them lets others have their turns."""
    return obj


def _name(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"
