"""The end of a namespace: first everything in it goes, then it goes itself."""

import logging
from functools import partial
from typing import Final

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.client import NAMESPACES, ControllerClient
from pykubelet.apiserver.controllers.conditions import conditioned
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.strategies.namespaces import FINALIZER

log = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 1.0


class NamespaceController:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    async def run(self) -> None:
        async with self._client.informer(NAMESPACES) as informer:
            while True:
                is_busy = await self.sync()
                await informer.wait(_LOOK_AGAIN if is_busy else None)

    async def sync(self) -> bool:
        """Whether something is still on its way out."""
        is_busy = False
        for namespace in await self._client.all(NAMESPACES):
            if at(namespace, "metadata.deletionTimestamp"):
                is_empty = False
                with self._client.apart(f"namespace {namespace['metadata']['name']}"):
                    is_empty = await self._empty(namespace)
                is_busy |= not is_empty
        return is_busy

    async def _empty(self, namespace: Object) -> bool:
        name = namespace["metadata"]["name"]
        left: dict[str, int] = {}
        held: dict[str, int] = {}
        for resource, obj in await self._inside(name):
            if obj:
                await self._client.remove((resource.group, resource.plural), obj)
        for resource, obj in await self._inside(name):
            where = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
            left[where] = left.get(where, 0) + 1
            for finalizer in at(obj, "metadata.finalizers", []):
                held[finalizer] = held.get(finalizer, 0) + 1
        now = rfc3339(self._client.now())
        if left:
            how = partial(terminating, left=left, held=held, now=now)
            await self._client.change(NAMESPACES, namespace, how, part="status")
            return False
        changed = await self._client.change(NAMESPACES, namespace, finalized, part="finalize")
        if changed is not None and not at(changed, "spec.finalizers") and not at(changed, "metadata.finalizers"):
            await self._client.remove(NAMESPACES, changed)
            log.info("namespace %s is gone", name)
        return True

    async def _inside(self, name: str) -> list[tuple[Resource, Object]]:
        """What cannot be read is empty: it is there, and holds the namespace."""
        found = []
        for resource, entry in await self._client.everything():
            if resource.namespaced and entry.key.startswith(resource.folder(name)) and "delete" in resource.verbs:
                obj: Object = {}
                with self._client.apart(entry.key):
                    obj = self._client.read(resource, entry)
                found.append((resource, obj))
        return found


def terminating(namespace: Object, left: dict[str, int], held: dict[str, int], now: str) -> Object:
    """What is still in it, for whoever wonders why it does not go."""
    text = "Some resources are remaining: " + ", ".join(
        f"{where} has {count} resource instances" for where, count in sorted(left.items())
    )
    new = {"type": "NamespaceContentRemaining", "status": "True", "reason": "SomeResourcesRemain", "message": text}
    said = conditioned(namespace, new, now)
    if held:
        text = "Some content in the namespace has finalizers remaining: " + ", ".join(
            f"{name} in {count} resource instances" for name, count in sorted(held.items())
        )
        new = {"type": "NamespaceFinalizersRemaining", "status": "True", "reason": "SomeFinalizersRemain"}
        said = conditioned(said, {**new, "message": text}, now)
    return {**said, "status": {**said["status"], "phase": "Terminating"}}


def finalized(namespace: Object) -> Object | None:
    """Without our own hold on it: there is nothing in it any more."""
    finalizers = at(namespace, "spec.finalizers", [])
    if FINALIZER not in finalizers:
        return None
    rest = [each for each in finalizers if each != FINALIZER]
    spec = {name: value for name, value in namespace.get("spec", {}).items() if name != "finalizers"}
    return {**namespace, "spec": {**spec, **({"finalizers": rest} if rest else {})}}
