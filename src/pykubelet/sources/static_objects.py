"""Config maps and secrets that lie beside the manifests of static pods, for these pods alone.

They are read, handed to the pods that name them, and sent nowhere. Whatever other pods use comes from the API server.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing

from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import FILE_SOURCE, source_of
from pykubelet.api.services import Service
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.failures import MissingObject, ObjectKind
from pykubelet.pod.container.references import object_uses
from pykubelet.pod.ports.api import PodObjects

ObjectKey = tuple[ObjectKind, str, str]
"""Kind, namespace and name."""


class StaticObjects:
    """The PodObjects port of a node with a manifest folder. `others` is asked for pods from elsewhere; None: there is
    no API server."""

    def __init__(self, others: PodObjects | None = None) -> None:
        self._others = others
        self._objects: Mapping[ObjectKey, ConfigMap | Secret] = {}
        self._uses: dict[str, dict[ObjectKey, bool]] = {}
        """By uid of a pod: what it uses, and whether its files follow it."""
        self._woken: set[str] = set()
        self._news = asyncio.Event()

    def replace(self, objects: Mapping[ObjectKey, ConfigMap | Secret]) -> None:
        """All there are from now on. A change wakes the pods whose files follow an object, and one that has come to be
        those that cannot start without it."""
        before, self._objects = self._objects, objects
        changed = {key for key in {**before, **objects} if before.get(key) != objects.get(key)}
        self._wake(
            uid
            for uid, uses in self._uses.items()
            if any(key in changed and (follows or key not in before) for key, follows in uses.items())
        )

    def register(self, pod: Pod) -> None:
        if _is_ours(pod):
            namespace = pod.metadata.namespace
            uses = object_uses(pod.spec).items()
            self._uses[pod.metadata.uid] = {(kind, namespace, name): follows for (kind, name), follows in uses}
        elif self._others is not None:
            self._others.register(pod)

    async def changes(self) -> AsyncGenerator[frozenset[str], None]:
        relay = asyncio.create_task(self._relay()) if self._others is not None else None
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                woken, self._woken = frozenset(self._woken), set()
                yield woken
        finally:
            if relay is not None:
                relay.cancel()
                await asyncio.gather(relay, return_exceptions=True)

    async def secret(self, pod: Pod, name: str, *, fresh: bool = False) -> Secret:
        if not _is_ours(pod):
            return await self._elsewhere("secret", name).secret(pod, name, fresh=fresh)
        found = self._objects.get(("secret", pod.metadata.namespace, name))
        if not isinstance(found, Secret):
            raise MissingObject("secret", name)
        return found

    async def config_map(self, pod: Pod, name: str, *, fresh: bool = False) -> ConfigMap:
        if not _is_ours(pod):
            return await self._elsewhere("configmap", name).config_map(pod, name, fresh=fresh)
        found = self._objects.get(("configmap", pod.metadata.namespace, name))
        if not isinstance(found, ConfigMap):
            raise MissingObject("configmap", name)
        return found

    async def service_account_token(
        self, namespace: str, name: str, audience: str, seconds: int | None, pod: Pod
    ) -> str:
        if self._others is None or _is_ours(pod):
            raise Invalid("static pods may not reference serviceaccounts")
        return await self._others.service_account_token(namespace, name, audience, seconds, pod)

    def renewal_in(self, uid: str) -> float | None:
        return self._others.renewal_in(uid) if self._others is not None else None

    def forget(self, uid: str) -> None:
        if self._uses.pop(uid, None) is None and self._others is not None:
            self._others.forget(uid)

    async def services(self, namespace: str, *, wait: bool = True) -> tuple[Service, ...]:
        return await self._others.services(namespace, wait=wait) if self._others is not None else ()

    def _elsewhere(self, kind: ObjectKind, name: str) -> PodObjects:
        if self._others is None:
            raise MissingObject(kind, name)
        return self._others

    def _wake(self, uids: Iterable[str]) -> None:
        self._woken.update(uids)
        if self._woken:
            self._news.set()

    async def _relay(self) -> None:
        assert self._others is not None
        async with aclosing(self._others.changes()) as changes:
            async for uids in changes:
                self._wake(uids)


def _is_ours(pod: Pod) -> bool:
    """Pods of any other source, a URL's too, must not see what lies in the folder."""
    return source_of(pod) == FILE_SOURCE
