"""What storage drivers need of an API server: what is said of them, attachments, secrets."""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from pykubelet.api.node import Node
from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.api.storage import CSIDriver, CSIDriverSpec, PersistentVolumeClaim, SecretReference, VolumeAttachment
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Conflict, NotFound, PykubeletError, Retry
from pykubelet.kube.before import Before
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.pod.container.csi_migration import PLUGINS
from pykubelet.pod.ports.api import PodObjects

log = logging.getLogger(__name__)

_GROUP: Final = "storage.k8s.io/v1"
_HOLDS: Final = 60.0
_SOON: Final = 1.0
_TRIES: Final = 5
_ANNOTATION: Final = "csi.volume.kubernetes.io/nodeid"
_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_PLUGINS: Final = ",".join(sorted(PLUGINS.values()))
_MOST: Final = 2**31 - 1

Object = dict[str, Any]


class KubeCsi:
    """The CsiApi port over HTTP, for one node."""

    def __init__(self, server: ApiClient, node: str, objects: PodObjects, before: Before | None = None) -> None:
        self._server = server
        self._node = node
        self._objects = objects
        self._before = before or Before()
        self._known: dict[str, tuple[float, CSIDriverSpec]] = {}
        """By name: until when it need not be asked for, on the loop's clock, and what is said of it."""

    async def driver(self, name: str) -> CSIDriverSpec:
        """What was found is believed for a while, and for as long as the server does not answer: a pod whose volumes
        are there should not have to wait for it."""
        now = asyncio.get_running_loop().time()
        if not self._known:
            earlier = self._before.recall(dict[str, CSIDriverSpec], "csidrivers") or {}
            self._known = {each: (now, spec) for each, spec in earlier.items()}
        until, known = self._known.get(name, (now, None))
        if known is not None and now < until:
            return known
        path = object_path("csidrivers", name=name, group=_GROUP)
        try:
            asked = self._server.get(path, CSIDriver)
            found = await (asked if known is None else self._before.or_else(asked, CSIDriver(spec=known)))
            self._known[name] = now + _HOLDS, found.spec
        except NotFound:
            self._known[name] = now, CSIDriverSpec()  # it may come at any moment
        if self._known[name][1] != known:
            self._before.save("csidrivers", value=lambda: {each: spec for each, (_, spec) in self._known.items()})
        return self._known[name][1]

    async def attached(self, attachment: str) -> Mapping[str, str]:
        path = object_path("volumeattachments", name=attachment, group=_GROUP)
        try:
            found = await self._server.get(path, VolumeAttachment)
        except NotFound:
            raise Retry(f"volume attachment is being created: {attachment} is not there yet", after=_SOON) from None
        if found.metadata.deletion_timestamp is not None:  # somebody is taking it away
            raise Retry("volume attachment is being deleted", after=_SOON)
        if not found.status.attached:
            error = found.status.attach_error
            why = f": {error.message}" if error is not None and error.message else ""
            raise Retry(f"volume is not attached to this node yet{why}", after=_SOON)
        return found.status.attachment_metadata

    async def patch_claim(self, claim: PersistentVolumeClaim, patch: Mapping[str, Any]) -> PersistentVolumeClaim:
        namespace, name = claim.metadata.namespace, claim.metadata.name
        path = object_path("persistentvolumeclaims", namespace=namespace, name=name, subresource="status")
        return await self._server.patch(path, patch, PersistentVolumeClaim)

    async def secret(self, reference: SecretReference) -> Mapping[str, str]:
        path = object_path("secrets", namespace=reference.namespace, name=reference.name)
        try:
            found = await self._server.get(path, Secret)
        except NotFound:
            where = f"{reference.namespace}/{reference.name}"
            raise Retry(f"the driver's secret {where} is not there") from None
        return {name: value.decode(errors="replace") for name, value in found.data.items()}

    async def token(self, pod: Pod, audience: str, seconds: int | None) -> str:
        account = pod.spec.service_account_name or "default"
        return await self._objects.service_account_token(pod.metadata.namespace, account, audience, seconds, pod)

    async def install(self, driver: str, node_id: str, topology: Mapping[str, str], most_volumes: int) -> None:
        entry: Object = {"name": driver, "nodeID": node_id, "topologyKeys": sorted(topology) or None}
        if most_volumes > 0:
            entry["allocatable"] = {"count": min(most_volumes, _MOST)}
        # What is said of a driver cannot be changed: it goes, and comes again.
        await self._change(
            lambda drivers: {name: each for name, each in drivers.items() if name != driver or each == entry}
        )
        await self._change(lambda drivers: {**drivers, driver: entry})
        await self._annotate(driver, node_id, topology)

    async def uninstall(self, driver: str) -> None:
        await self._change(lambda drivers: {name: each for name, each in drivers.items() if name != driver})
        await self._annotate(driver, None, {})

    async def run(self) -> None:
        """Tell what this node leaves to drivers, before there is any: schedulers look for it. Then do nothing more."""
        backoff = Backoff(1.0, 60.0, now=asyncio.get_running_loop().time)
        while True:
            try:
                await self._change(lambda drivers: drivers)
            except PykubeletError as error:
                log.debug("the node's list of CSI drivers cannot be made: %s", error)
                await asyncio.sleep(backoff.next())
            else:
                await asyncio.Event().wait()

    async def _change(self, how: Callable[[dict[str, Object]], dict[str, Object]]) -> None:
        """The node's list of drivers, whoever else changes it at the same time."""
        path = object_path("csinodes", name=self._node, group=_GROUP)
        for _ in range(_TRIES):
            try:
                found = await self._server.get(path, dict)
            except NotFound:
                found = await self._made()
            before = {each["name"]: each for each in (found.get("spec") or {}).get("drivers") or ()}
            after, metadata = how(before), found["metadata"]
            annotations = metadata.get("annotations") or {}
            if after == before and annotations.get(_MIGRATED) == _PLUGINS:
                return
            metadata = {**metadata, "annotations": {**annotations, _MIGRATED: _PLUGINS}}
            wanted = {**found, "metadata": metadata, "spec": {"drivers": list(after.values())}}
            try:
                await self._server.update(path, wanted, dict)
                return
            except Conflict:
                continue
        raise Retry("the node's list of CSI drivers is changed by others all the time")

    async def _made(self) -> Object:
        node = await self._server.get(object_path("nodes", name=self._node), Node)
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": node.metadata.uid}
        made = {
            "apiVersion": _GROUP,
            "kind": "CSINode",
            "metadata": {"name": self._node, "annotations": {_MIGRATED: _PLUGINS}, "ownerReferences": [owner]},
            "spec": {"drivers": []},
        }
        try:
            return await self._server.create(object_path("csinodes", group=_GROUP), made, dict)
        except Conflict:
            return await self._server.get(object_path("csinodes", name=self._node, group=_GROUP), dict)

    async def _annotate(self, driver: str, node_id: str | None, topology: Mapping[str, str]) -> None:
        """What older parts of a cluster read, and the labels that volumes are chosen by."""
        path = object_path("nodes", name=self._node)
        node = await self._server.get(path, Node)
        try:
            ids = json.loads(node.metadata.annotations.get(_ANNOTATION, "{}"))
        except ValueError:
            ids = {}
        others = {name: each for name, each in ids.items() if name != driver} if isinstance(ids, dict) else {}
        after = others if node_id is None else {**others, driver: node_id}
        metadata: Object = {"annotations": {_ANNOTATION: json.dumps(after, separators=(",", ":")) if after else None}}
        if topology:
            metadata["labels"] = dict(topology)
        await self._server.patch(path, {"metadata": metadata}, Node)
