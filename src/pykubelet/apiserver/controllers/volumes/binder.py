"""Brings claims and volumes together, and says of each how it stands.

Everything is decided from what is there, whenever a claim, a volume or a class has changed: a binding that was broken
off half way is finished by the next look.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from pykubelet.api.rules.well_known import PROVISIONED_BY
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import CLAIMS, PODS, VOLUMES, ControllerClient, Kind
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.volumes import binding_rules as rules
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.storage_classes import class_of, default_class
from pykubelet.base.errors import Retry

CLASSES: Final[Kind] = ("storage.k8s.io", "storageclasses")
_LOOK_AGAIN: Final = 60.0


class Provisioner(Protocol):
    """Who makes volumes for the claims of some classes, and takes them away."""

    name: str

    async def offer(self) -> None:
        """Tell people that it is there. Raises base.errors."""
        ...

    async def provide(self, claim: Object, storage_class: Object) -> None:
        """Have a volume for this claim. Never raises."""
        ...

    async def take_away(self, volume: Object) -> str:
        """Remove what is in a volume that nobody needs. -> why not; empty: it is gone. Raises Retry while it goes on"""
        ...


class VolumeBinder:
    def __init__(self, client: ControllerClient, provisioner: Provisioner | None = None) -> None:
        self._client = client
        self._provisioner = provisioner
        self._events = EventRecorder(client, "persistentvolume-controller")
        self._claims: dict[tuple[str, str], Object] = {}
        self._waiting: dict[tuple[str, str], set[str]] | None = None
        """By claim: the pods without a node that need it; None: nobody has wanted to know in this look."""
        self._volumes: dict[str, Object] = {}
        self._classes: dict[str, Object] = {}
        self._there: set[str] = set()
        """The keys of all, also of those that cannot be read: nobody has lost them."""

    async def run(self) -> None:
        if self._provisioner is not None:
            await self._provisioner.offer()
        await self._client.follow(self.sync, CLAIMS, VOLUMES, CLASSES, most=_LOOK_AGAIN)

    async def sync(self) -> None:
        client, self._waiting = self._client, None
        self._there = {entry.key for kind in (CLAIMS, VOLUMES) for entry in await client.entries(kind)}
        self._volumes = {each["metadata"]["name"]: each for each in await client.all(VOLUMES)}
        self._classes = {each["metadata"]["name"]: each for each in await client.all(CLASSES)}
        claims = await client.all(CLAIMS)
        self._claims = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in claims}
        for volume in list(self._volumes.values()):
            with client.apart(f"volume {volume['metadata']['name']}"):
                await self._see_to_volume(volume)
        for claim in sorted(claims, key=lambda each: str(each["metadata"].get("creationTimestamp", ""))):
            with client.apart(f"claim {claim['metadata']['namespace']}/{claim['metadata']['name']}"):
                await self._see_to_claim(claim)

    # --- claims

    async def _see_to_claim(self, claim: Object) -> None:
        if rules.annotation(claim, rules.BIND_COMPLETED):
            await self._see_to_bound(claim)
        elif name := at(claim, "spec.volumeName", ""):
            await self._take_wanted(claim, self._volumes.get(name))
        elif not at(claim, "metadata.deletionTimestamp"):
            await self._find(claim)

    async def _see_to_bound(self, claim: Object) -> None:
        name = at(claim, "spec.volumeName", "")
        volume = self._volumes.get(name)
        if volume is None and self._client.resource(VOLUMES).key("", name) in self._there:
            return
        if volume is None:
            lost = "its PersistentVolume" if name else "reference to PersistentVolume"
            await self._lose(claim, "ClaimLost", f"Bound claim has lost {lost}. Data on the volume is lost!")
        elif at(volume, "spec.claimRef") is None or rules.is_for(volume, claim):
            await self._bind(claim, volume)
        else:
            text = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(claim, "ClaimMisbound", text)

    async def _take_wanted(self, claim: Object, volume: Object | None) -> None:
        """The one that whoever made the claim has named."""
        if volume is None:
            return
        if at(volume, "spec.claimRef") is None:
            if why := rules.mismatch(volume, claim):
                text = f'Cannot bind to requested volume "{volume["metadata"]["name"]}": {why}'
                await self._events.record(claim, "Warning", "VolumeMismatch", text)
                return
            await self._bind(claim, volume)
        elif rules.is_for(volume, claim):
            await self._bind(claim, volume)
        else:
            text = f'volume "{volume["metadata"]["name"]}" already bound to a different claim.'
            await self._events.record(claim, "Warning", "FailedBinding", text)

    async def _find(self, claim: Object) -> None:
        storage_class = self._classes.get(class_of(claim))
        chosen = rules.annotation(claim, rules.SELECTED_NODE)
        delayed = storage_class is not None and storage_class.get("volumeBindingMode") == rules.DELAYED and not chosen
        volume = rules.best_volume(claim, self._volumes.values(), delayed=delayed)
        default = default_class(self._classes.values())
        if volume is not None:
            await self._bind(claim, volume)
        elif default and at(claim, "spec.storageClassName") is None and not class_of(claim):
            await self._client.change(CLAIMS, claim, lambda live: rules.in_class(live, default))
        elif delayed:
            await self._wait_for_pods(claim)
        elif storage_class is not None:
            await self._provision(claim, storage_class)
        elif name := class_of(claim):
            text = f'storageclass.storage.k8s.io "{name}" not found'
            await self._events.record(claim, "Warning", "ProvisioningFailed", text)
        else:
            text = "no persistent volumes available for this claim and no storage class is set"
            await self._events.record(claim, "Normal", "FailedBinding", text)

    async def _wait_for_pods(self, claim: Object) -> None:
        key, reason = (claim["metadata"]["namespace"], claim["metadata"]["name"]), "WaitForFirstConsumer"
        text = "waiting for first consumer to be created before binding"
        if self._waiting is None:
            found = (each for each in await self._client.views(PODS, rules.waiting_for) if each is not None)
            self._waiting = {}
            for namespace, pod, claims in found:
                for name in claims:
                    self._waiting.setdefault((namespace, name), set()).add(pod)
        pods = sorted(self._waiting.get(key, ()))
        if pods:
            reason = "WaitForPodScheduled"
            text = f"waiting for pod{'s' if len(pods) > 1 else ''} {','.join(pods)} to be scheduled"
        await self._events.record(claim, "Normal", reason, text)

    async def _provision(self, claim: Object, storage_class: Object) -> None:
        name = storage_class.get("provisioner", "")
        if name == rules.NO_PROVISIONER:
            text = "no persistent volumes available for this claim, and its storage class makes none"
            await self._events.record(claim, "Normal", "FailedBinding", text)
            return
        marks = {rules.PROVISIONER: name, rules.OLD_PROVISIONER: name}
        if any(rules.annotation(claim, key) != value for key, value in marks.items()):
            await self._client.change(CLAIMS, claim, lambda live: rules.annotated(live, marks))
        if self._provisioner is not None and name == self._provisioner.name:
            await self._provisioner.provide(claim, storage_class)
            return
        text = (
            f"Waiting for a volume to be created either by the external provisioner '{name}' or manually by the system "
            "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
            "registered."
        )
        await self._events.record(claim, "Normal", "ExternalProvisioning", text)

    async def _bind(self, claim: Object, volume: Object) -> None:
        """The volume first: it is what two might want."""
        now = rfc3339(self._client.now())
        name, key = volume["metadata"]["name"], (claim["metadata"]["namespace"], claim["metadata"]["name"])
        if rules.kept_for(volume, claim) is not None:
            volume = await self._changed(VOLUMES, volume, lambda live: rules.kept_for(live, claim))
        if not rules.is_for(volume, claim) or not at(volume, "spec.claimRef.uid"):
            return  # somebody else was faster
        if rules.in_phase(volume, "Bound") is not None:
            volume = await self._changed(
                VOLUMES, volume, lambda live: rules.in_phase(live, "Bound", now), part="status"
            )
        self._volumes[name] = volume
        if rules.bound_to(claim, volume) is not None:
            claim = await self._changed(CLAIMS, claim, lambda live: rules.bound_to(live, volume))
        if at(claim, "spec.volumeName") == name and rules.bound_status(claim, volume) is not None:
            claim = await self._changed(CLAIMS, claim, lambda live: rules.bound_status(live, volume), part="status")
        self._claims[key] = claim

    async def _lose(self, claim: Object, reason: str, text: str) -> None:
        if rules.in_phase(claim, "Lost") is not None:
            await self._client.change(CLAIMS, claim, lambda live: rules.in_phase(live, "Lost"), part="status")
            await self._events.record(claim, "Warning", reason, text)

    # --- volumes

    async def _see_to_volume(self, volume: Object) -> None:
        ref: Mapping[str, str] | None = at(volume, "spec.claimRef")
        if not ref or not ref.get("uid"):
            await self._say(volume, "Available")
            return
        key = ref.get("namespace", ""), ref.get("name", "")
        claim = self._claims.get(key)
        if claim is None and self._client.resource(CLAIMS).key(*key) in self._there:
            return
        if claim is None or claim["metadata"].get("uid") != ref["uid"]:
            if at(volume, "status.phase") != "Failed":
                await self._say(volume, "Released")
            await self._reclaim(volume)
        elif at(claim, "spec.volumeName", "") not in ("", volume["metadata"]["name"]):
            await self._free(volume)

    async def _free(self, volume: Object) -> None:
        """Its claim has another one by now."""
        if rules.annotation(volume, PROVISIONED_BY) and _policy(volume) == "Delete":
            await self._say(volume, "Released")
            await self._reclaim(volume)
            return
        wholly = bool(rules.annotation(volume, rules.BY_CONTROLLER))
        freed = await self._changed(VOLUMES, volume, lambda live: rules.let_go(live, wholly=wholly))
        await self._say(freed, "Available")

    async def _reclaim(self, volume: Object) -> None:
        policy, name = _policy(volume), volume["metadata"]["name"]
        if policy == "Recycle":
            await self._fail(volume, "VolumeFailedRecycle", "no volume is recycled here: delete it, or retain it")
        provisioner, maker = self._provisioner, rules.annotation(volume, PROVISIONED_BY)
        if policy == "Delete" and not maker:
            why = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
            await self._fail(volume, "VolumeFailedDelete", why)
        if policy != "Delete" or provisioner is None or maker != provisioner.name:
            return  # whoever has made it takes it away
        try:
            why = await provisioner.take_away(volume)
        except Retry:
            return  # it is looked at again
        if why:
            await self._fail(volume, "VolumeFailedDelete", why)
            return
        await self._client.remove(VOLUMES, volume)
        self._volumes.pop(name, None)

    async def _fail(self, volume: Object, reason: str, why: str) -> None:
        if rules.in_phase(volume, "Failed", message=why) is not None:
            await self._say(volume, "Failed", why)
            await self._events.record(volume, "Warning", reason, why)

    async def _say(self, volume: Object, phase: str, message: str = "") -> None:
        now, name = rfc3339(self._client.now()), volume["metadata"]["name"]
        if rules.in_phase(volume, phase, now, message) is not None:
            how = _in_phase(phase, now, message)
            self._volumes[name] = await self._changed(VOLUMES, volume, how, part="status")

    async def _changed(
        self, kind: Kind, obj: Object, how: Callable[[Object], Object | None], *, part: str = ""
    ) -> Object:
        """As it is then; as it was, when it has gone."""
        return await self._client.change(kind, obj, how, part=part) or obj


def _in_phase(phase: str, now: str, message: str) -> Callable[[Object], Object | None]:
    return lambda live: rules.in_phase(live, phase, now, message)


def _policy(volume: Object) -> str:
    policy: str = at(volume, "spec.persistentVolumeReclaimPolicy", "Retain")
    return policy
