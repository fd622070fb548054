"""Claims that ask for more than they have: volumes of our own grow at once, others are for others to grow."""

from typing import Final

from pykubelet.api.quantity import Quantity
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.rules.well_known import PROVISIONED_BY
from pykubelet.apiserver.controllers.client import CLAIMS, VOLUMES, ControllerClient
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.volumes import binding_rules as rules
from pykubelet.apiserver.objects import Object, at

_ELSEWHERE: Final = "waiting for an external controller to expand this PVC"


class Expander:
    def __init__(self, client: ControllerClient, own: str = "") -> None:
        """`own`: the provisioner whose volumes have as much room as anybody wants."""
        self._client = client
        self._own = own
        self._events = EventRecorder(client, "volume_expand")
        self._told: dict[str, Quantity] = {}
        """What each claim asked for when it was told that others see to it, by uid."""

    async def run(self) -> None:
        await self._client.follow(self.sync, CLAIMS)

    async def sync(self) -> None:
        wanting = [claim for claim in await self._client.all(CLAIMS) if wants_more(claim)]
        told, self._told = self._told, {}
        for claim in wanting:
            uid = claim["metadata"]["uid"]
            with self._client.apart(f"claim {claim['metadata']['namespace']}/{claim['metadata']['name']}"):
                volume = await self._client.known(VOLUMES, "", at(claim, "spec.volumeName", ""))
                if volume is None or at(volume, "spec.claimRef.uid") != uid:
                    continue
                if self._own and rules.annotation(volume, PROVISIONED_BY) == self._own:
                    await self._grow(claim, volume)
                    continue
                self._told[uid] = rules.size_of(claim)
                if told.get(uid) != self._told[uid]:
                    await self._events.record(claim, "Normal", "ExternalExpanding", _ELSEWHERE)

    async def _grow(self, claim: Object, volume: Object) -> None:
        """The volume first: its claim has no more than there is."""
        wanted = at(claim, "spec.resources.requests.storage")
        if rules.size_of(volume) < parse_quantity(str(wanted)):
            await self._client.change(VOLUMES, volume, lambda live: _sized(live, "spec", wanted))
        changed = await self._client.change(CLAIMS, claim, lambda live: _sized(live, "status", wanted), part="status")
        if changed is not None:
            text = f"ExpandVolume succeeded for volume {claim['metadata']['namespace']}/{claim['metadata']['name']}"
            await self._events.record(claim, "Normal", "VolumeResizeSuccessful", text)


def wants_more(claim: Object) -> bool:
    """Whether a bound claim asks for more than it has."""
    if at(claim, "status.phase") != "Bound" or not at(claim, "spec.volumeName", ""):
        return False
    return rules.size_of(claim) > parse_quantity(str(at(claim, "status.capacity.storage", "0")))


def _sized(obj: Object, part: str, amount: str) -> Object:
    there = obj.get(part) or {}
    return {**obj, part: {**there, "capacity": {**there.get("capacity", {}), "storage": amount}}}
