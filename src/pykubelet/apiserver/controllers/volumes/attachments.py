"""Has volumes of storage drivers attached to nodes whose pods claim them, and detached when nobody needs them there.

It writes down what is wanted, as VolumeAttachments; the driver's external-attacher does it, and says so there.
"""

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final

from pykubelet.apiserver.controllers.client import CLAIMS, NODES, PODS, VOLUMES, ControllerClient, Kind
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.volumes import attach_rules as rules
from pykubelet.apiserver.controllers.volumes.attach_rules import Attachment, Host, Plan, Wish
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.store.port import Event

ATTACHMENTS: Final[Kind] = ("storage.k8s.io", "volumeattachments")
DRIVERS: Final[Kind] = ("storage.k8s.io", "csidrivers")
_CLAIMED: Final = (b'"persistentVolumeClaim":', b'"ephemeral":')
_LOOK_AGAIN: Final = 30.0
_LONGEST_WAIT: Final = 120.0
"""Seconds after which people are told that nobody attaches a volume."""


class AttachDetach:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._events = EventRecorder(client, "attachdetach-controller")
        self._pods = client.resource(PODS).prefix
        self._prefixes = tuple(client.resource(kind).prefix for kind in (VOLUMES, ATTACHMENTS))
        self._unwanted: dict[str, float] = {}
        """Since when, on the loop's clock."""
        self._asked: dict[str, float] = {}
        """Attachments that nobody has made yet: since when, or since when it was told."""
        self._told: dict[tuple[str, str], str] = {}
        """By attachment and pod: the last that was said."""

    async def run(self) -> None:
        kinds = (PODS, NODES, CLAIMS, VOLUMES, ATTACHMENTS, DRIVERS)
        await self._client.follow(self.sync, *kinds, wanted=self._matters, most=_LOOK_AGAIN)

    def _matters(self, event: Event) -> bool:
        """Where there is no volume, it is all the same what pods and nodes do, and pods without claims always."""
        told = event.value or event.previous
        if told and event.key.startswith(self._pods) and not any(each in told for each in _CLAIMED):
            return False
        return any(self._client.backend.cache.has_any(prefix) for prefix in self._prefixes)

    async def sync(self) -> None:
        client = self._client
        volumes = {each["metadata"]["name"]: each for each in await client.all(VOLUMES)}
        drivers = await client.all(DRIVERS)
        unattached = frozenset(
            each["metadata"]["name"] for each in drivers if at(each, "spec.attachRequired", True) is False
        )
        found = {name: rules.attachable(volume, unattached) for name, volume in volumes.items()}
        attachables = {name: each for name, each in found.items() if each is not None}
        objects = {each["metadata"]["name"]: each for each in await client.all(ATTACHMENTS)}
        if not attachables and not objects:
            return
        hosts = {each.name: each for each in await client.views(NODES, rules.host)}
        pods, every = await client.views(PODS, rules.holder), await client.all(CLAIMS)
        claims = {(at(each, "metadata.namespace"), each["metadata"]["name"]): each for each in every}
        holders = [each for each in pods if each is not None]
        wanted = rules.wishes(holders, claims, volumes, attachables, hosts)
        seen = (rules.attachment(each, attachables, hosts) for each in objects.values())
        there = [each for each in seen if each is not None]
        read = {PODS: len(pods), CLAIMS: len(every), VOLUMES: len(volumes), NODES: len(hosts)}
        is_whole = all([len(await client.entries(kind)) == count for kind, count in read.items()])
        plan = rules.plan(wanted, there, hosts, self._waited(wanted, there) if is_whole else {})
        await self._report(hosts.values(), there, plan, wanted)
        await self._carry_out(plan, objects)
        await self._tell(plan, wanted, objects)

    def _waited(self, wanted: dict[str, Wish], there: list[Attachment]) -> dict[str, float]:
        now = asyncio.get_running_loop().time()
        self._unwanted = {each.name: self._unwanted.get(each.name, now) for each in there if each.name not in wanted}
        return {name: now - since for name, since in self._unwanted.items()}

    async def _report(
        self, hosts: Iterable[Host], there: list[Attachment], plan: Plan, wanted: dict[str, Wish]
    ) -> None:
        """What goes is taken from the status of its node first: nobody is to mount it any longer."""
        for host in hosts:
            says = rules.reported(host, there, plan.detach)
            node = await self._client.known(NODES, "", host.name) if says is not None else None
            if says is None or node is None:
                continue
            await self._client.change(NODES, node, partial(_attached, volumes=says), part="status")
            before = {each.get("name") for each in host.attached}
            new = [each for each in there if each.node == host.name and each.volume not in before]
            for each in new:
                if each.is_attached and each.name in wanted:
                    for pod in wanted[each.name].pods:
                        text = rules.succeeded(each.shown)
                        await self._events.record(pod, "Normal", "SuccessfulAttachVolume", text)

    async def _carry_out(self, plan: Plan, objects: dict[str, Object]) -> None:
        for name in plan.detach:
            await self._client.remove(ATTACHMENTS, objects[name])
        for wish in plan.attach:
            source = {"persistentVolumeName": wish.volume.volume}
            spec = {"attacher": wish.volume.driver, "nodeName": wish.node, "source": source}
            await self._client.create(ATTACHMENTS, {"metadata": {"name": wish.name}, "spec": spec})

    async def _tell(self, plan: Plan, wanted: dict[str, Wish], objects: dict[str, Object]) -> None:
        """The pods that wait, and each of them the same only once."""
        told, now = self._told, asyncio.get_running_loop().time()
        self._told, asked, self._asked = {}, self._asked, {}
        for wish, nodes in plan.blocked:
            users = [
                pod
                for each in wanted.values()
                if each.volume.name == wish.volume.name and each.node in nodes
                for pod in each.pods
            ]
            for pod in wish.pods:
                await self._warn(told, wish, pod, rules.exclusive(wish.volume.volume, pod, users), "taken")
        for wish in wanted.values():
            obj = objects.get(wish.name)
            if obj is None or at(obj, "status.attached") or at(obj, "metadata.deletionTimestamp"):
                continue
            why, mark = at(obj, "status.attachError.message", ""), str(at(obj, "status.attachError.time", ""))
            since = self._asked[wish.name] = asked.get(wish.name, now)
            if not why and now - since >= _LONGEST_WAIT:
                self._asked[wish.name] = now
                why, mark = rules.nobody_came(wish.volume), str(now)
            for pod in wish.pods:
                text = rules.failed(wish.volume.volume, why) if why else ""
                await self._warn(told, wish, pod, text, f"{mark} {why}" if why else "")

    async def _warn(self, told: dict[tuple[str, str], str], wish: Wish, pod: Object, text: str, mark: str) -> None:
        """Unless it was told the same before, by its mark."""
        key = wish.name, pod["metadata"]["uid"]
        self._told[key] = mark or told.get(key, "")
        if mark and told.get(key) != mark:
            await self._events.record(pod, "Warning", "FailedAttachVolume", text)


def _attached(node: Object, volumes: list[Object]) -> Object:
    status = {name: value for name, value in (node.get("status") or {}).items() if name != "volumesAttached"}
    return {**node, "status": {**status, **({"volumesAttached": volumes} if volumes else {})}}
