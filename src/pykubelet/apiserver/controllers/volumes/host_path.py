"""Volumes that are folders of a node, made when a claim wants one: enough for one machine, as others' local paths are.

Folders of other machines are made by their agents, and removed by them: by an annotation of its own object a node is
asked for it, since what else nodes may read and write is upstream's, and needs no pod with an image to do it.
"""

import asyncio
import os
from typing import Final

from pykubelet.api.rules.well_known import DEFAULT_CLASS_ANNOTATION, HOSTNAME_LABEL, PROVISIONED_BY, REMOVED_VOLUMES
from pykubelet.api.rules.well_known import HOST_PATH_PROVISIONER as PROVISIONER
from pykubelet.apiserver.controllers.client import NODES, VOLUMES, ControllerClient
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.volumes import binding_rules as rules
from pykubelet.apiserver.controllers.volumes.binder import CLASSES
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.status import ApiError
from pykubelet.base.errors import PykubeletError, Retry
from pykubelet.base.open_folder import make_open_folder
from pykubelet.base.removal import sweep

CLASS: Final = "host-path"
_PATIENCE: Final = 2.0
"""Seconds for which a removal is waited for: others want volumes meanwhile."""
_ASKED: Final = "pykubelet.io/removal-asked"
"""Of a volume: the uid of the node that was asked to remove its folder."""
_MOST_ASKED: Final = 50
"""Of one node at a time."""
_LONGEST_NAME: Final = 255  # of a folder; the names of a namespace and a claim alone may be longer


def boot_id() -> str:
    """Of this machine, as nodes report theirs; empty: it has none. Blocks."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


class HostPathProvisioner:
    """`folder` is where the volumes of this machine are; on other nodes they have the same path, and those make and
    remove them. `boot_id`: by which a node is known to be on this machine."""

    name = PROVISIONER

    def __init__(self, client: ControllerClient, folder: str, boot_id: str = "") -> None:
        self._client = client
        self._boot_id = boot_id
        self._folder = folder.rstrip("/")
        self._events = EventRecorder(client, PROVISIONER)
        self._removals: dict[str, asyncio.Task[str]] = {}
        """By path: those that are not over, or have not been told of yet."""
        self._turn = asyncio.Lock()

    async def offer(self) -> None:
        """The class that claims get when they name none, unless people have one."""
        classes = await self._client.all(CLASSES)
        has_default = any(rules.annotation(each, DEFAULT_CLASS_ANNOTATION) == "true" for each in classes)
        made = {
            "metadata": {"name": CLASS, "annotations": {DEFAULT_CLASS_ANNOTATION: str(not has_default).lower()}},
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": rules.DELAYED,
            "allowVolumeExpansion": True,
        }
        if not any(each["metadata"]["name"] == CLASS for each in classes):
            await self._client.create(CLASSES, made)

    async def provide(self, claim: Object, storage_class: Object) -> None:
        try:
            made = await self._volume(claim, storage_class)
            if self._is_here(await self._node_of(made)):
                await asyncio.to_thread(make_open_folder, made["spec"]["hostPath"]["path"])
            await self._client.make(VOLUMES, made)
        except ApiError as error:
            if error.code == 409:
                return  # it is there already
            await self._fail(claim, storage_class, error.message)
        except (PykubeletError, OSError, ValueError) as error:
            await self._fail(claim, storage_class, str(error))
        else:
            text = f"Successfully provisioned volume {made['metadata']['name']}"
            await self._events.record(claim, "Normal", "ProvisioningSucceeded", text)

    async def take_away(self, volume: Object) -> str:
        """What somebody else has written into the volume's object counts for nothing here."""
        path = at(volume, "spec.hostPath.path", "")
        parent, name = os.path.split(path)
        if parent != self._folder or not name.startswith(f"{volume['metadata']['name']}_"):
            return f"{path} was not made by {PROVISIONER}: it stays as it is"
        node = await self._node_of(volume)
        if node is not None and not self._is_here(node):
            await self._ask(volume, node)
        removal = self._removals.get(path)
        patience = 0.0 if self._turn.locked() else _PATIENCE
        if removal is None:
            removal = self._removals[path] = asyncio.create_task(self._removed(path), name=f"removal of {path}")
        await asyncio.wait({removal}, timeout=patience)
        if not removal.done():
            raise Retry(f"{path} is still being removed")
        return self._removals.pop(path).result()

    async def _ask(self, volume: Object, node: Object) -> None:
        """Have the node remove it. Raises Retry until it has; one that makes no folders, or is gone, has none."""
        name, uid = volume["metadata"]["name"], node["metadata"]["uid"]
        if REMOVED_VOLUMES not in at(node, "metadata.annotations", {}):
            return
        names, is_asked = _asked(node), rules.annotation(volume, _ASKED) == uid
        if is_asked and name not in names:
            return
        if name in names or len(names) < _MOST_ASKED:
            await self._client.change(NODES, node, lambda live: _asking(live, name))
            await self._client.change(VOLUMES, volume, lambda live: rules.annotated(live, {_ASKED: uid}))
        raise Retry(f"node {node['metadata']['name']} has to remove {name}")

    async def _node_of(self, volume: Object) -> Object | None:
        """The one that it is on; None: there is none."""
        for node in await self._client.all(NODES):
            if rules.reaches(volume, node["metadata"]["name"], at(node, "metadata.labels", {})):
                return node
        return None

    def _is_here(self, node: Object | None) -> bool:
        """Whether it is this machine, or nobody knows."""
        boot_id = at(node, "status.nodeInfo.bootID", "")
        return not boot_id or not self._boot_id or bool(boot_id == self._boot_id)

    async def _removed(self, path: str) -> str:
        """One at a time: threads are few, and how much there is to remove is for who had the volume to say."""
        async with self._turn:
            try:
                await asyncio.to_thread(sweep, path)
            except (OSError, PykubeletError) as error:
                return f"{path} cannot be removed: {error}"
            return ""

    async def _volume(self, claim: Object, storage_class: Object) -> Object:
        """Raises ValueError for what it cannot be."""
        metadata = claim["metadata"]
        if at(claim, "spec.volumeMode") == "Block":
            raise ValueError("a folder is no block device: use volumeMode: Filesystem")
        if at(claim, "spec.selector") is not None:
            raise ValueError("claim.spec.selector is not supported")
        if at(claim, "spec.dataSourceRef") is not None:
            raise ValueError("volumes are made empty: leave spec.dataSource out")
        name = f"pvc-{metadata['uid']}"
        host = await self._host(rules.annotation(claim, rules.SELECTED_NODE))
        folder = f"{name}_{metadata['namespace']}_{metadata['name']}"[:_LONGEST_NAME]
        requirement = {"key": HOSTNAME_LABEL, "operator": "In", "values": [host]}
        return {
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
            "spec": {
                "capacity": {"storage": at(claim, "spec.resources.requests.storage")},
                "accessModes": at(claim, "spec.accessModes"),
                "claimRef": rules.reference(claim),
                "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
                "storageClassName": storage_class["metadata"]["name"],
                "hostPath": {"path": f"{self._folder}/{folder}", "type": "DirectoryOrCreate"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}},
            },
        }

    async def _host(self, node: str) -> str:
        """The label of the node that the volume is on."""
        nodes = {each["metadata"]["name"]: each for each in await self._client.all(NODES)}
        if not node and len(nodes) == 1:
            node = next(iter(nodes))
        if node not in nodes:
            raise ValueError(
                "a volume is on one node, and there is none yet: use volumeBindingMode WaitForFirstConsumer"
            )
        host: str = at(nodes[node], "metadata.labels", {}).get(HOSTNAME_LABEL, node)
        return host

    async def _fail(self, claim: Object, storage_class: Object, why: str) -> None:
        text = f'failed to provision volume with StorageClass "{storage_class["metadata"]["name"]}": {why}'
        await self._events.record(claim, "Warning", "ProvisioningFailed", text)


def _asked(node: Object) -> list[str]:
    return [name for name in at(node, "metadata.annotations", {}).get(REMOVED_VOLUMES, "").split(",") if name]


def _asking(node: Object, name: str) -> Object | None:
    names = _asked(node)
    return None if name in names else rules.annotated(node, {REMOVED_VOLUMES: ",".join((*names, name))})
