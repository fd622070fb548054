"""Serves what custom resource definitions define, says in their status whether it does, and clears up after them.

Every API server does this for itself, from what is in the store: `load` before it answers, and `run` from then on. What
is written (the status, and the end of a definition) comes out the same whoever writes it.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.admission.client import WebhookClient
from pykubelet.apiserver.admission.hooks import Hook, conversion_hook
from pykubelet.apiserver.admission.review import CallFailed
from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.controllers.conditions import condition, conditioned
from pykubelet.apiserver.custom.naming import accepted_names, approval, decided, established, is_established
from pykubelet.apiserver.objects import Object, at, of_entry
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.store.port import Entry
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.custom_resource_definitions import FINALIZER, TERMINATING
from pykubelet.apiserver.writer.checks import without_finalizer

log = logging.getLogger(__name__)

CRDS: Final[Kind] = ("apiextensions.k8s.io", "customresourcedefinitions")
_LOOK_AGAIN: Final = 0.5


class _Known(msgspec.Struct, frozen=True):
    """What is remembered of a definition."""

    revision: int
    kind: Kind
    names: Mapping[str, Any]
    """Those that it was given."""
    served: str = ""
    """What is served for it: empty for nothing."""
    is_settled: bool = True
    is_terminating: bool = False


class CustomResourceDefinitions:
    def __init__(self, client: ControllerClient, webhooks: WebhookClient) -> None:
        self._client = client
        self._webhooks = webhooks
        self._known: dict[str, _Known] = {}

    async def load(self) -> None:
        """Serve what was served before."""
        for entry in await self._client.entries(CRDS):
            with self._client.apart(entry.key):
                self._look(entry)

    async def run(self) -> None:
        async with self._client.informer(CRDS) as informer:
            while True:
                is_busy = await self.sync()
                await informer.wait(_LOOK_AGAIN if is_busy else None)

    async def sync(self) -> bool:
        """Whether something is still on its way out."""
        entries = {entry.key: entry for entry in await self._client.entries(CRDS)}
        for key in self._known.keys() - entries.keys():
            self._forget(key)
        for key, entry in entries.items():
            known = self._known.get(key)
            if known is None or known.revision != entry.revision:
                with self._client.apart(key):
                    self._look(entry)
        for key, known in list(self._known.items()):
            if not known.is_settled:
                with self._client.apart(key):
                    await self._settle(entries[key])
        is_busy = False
        for key, known in list(self._known.items()):
            if known.is_terminating:
                is_busy = True
                with self._client.apart(key):
                    await self._empty(entries[key])
        return is_busy

    # --- serving

    def _look(self, entry: Entry) -> None:
        crd = self._client.read(self._client.resource(CRDS), entry)
        before = self._known.get(entry.key)
        served = before.served if before else ""
        kind = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        if is_established(crd):
            served = self._serve(crd, entry, served)
        names, accepted = self._decided(entry.key, crd)
        is_settled = same(names, dict(accepted_names(crd))) and _holds(crd, accepted) and is_established(crd)
        is_told = not is_established(crd) and _holds(crd, accepted) and accepted["status"] == "False"
        metadata = crd["metadata"]
        self._known[entry.key] = _Known(
            entry.revision,
            kind,
            accepted_names(crd),
            served,
            is_settled or is_told,
            bool(metadata.get("deletionTimestamp")) and FINALIZER in metadata.get("finalizers", ()),
        )

    def _serve(self, crd: Object, entry: Entry, served: str) -> str:
        """-> what is served now; the same as before is left as it is, with all who watch it"""
        metadata = crd["metadata"]
        facts = (
            metadata.get("uid"),
            metadata.get("generation"),
            accepted_names(crd),
            metadata.get("deletionTimestamp"),
        )
        wanted = repr((*facts, at(crd, "status.storedVersions")))
        if wanted == served:
            return served
        from pykubelet.apiserver.custom.definition import custom_resources  # much, for who has definitions only

        resources, backend = custom_resources(crd, entry.value), self._client.backend
        kind = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        if not resources:
            backend.withdraw(*kind)
            return ""
        try:
            backend.serve(resources, self._strategies(crd))
        except ValueError as error:
            log.warning("%s is not served: %s", metadata["name"], error)
            return ""
        return wanted

    def _strategies(self, crd: Object) -> Callable[[Resource], Strategy]:
        from pykubelet.apiserver.strategies.converted_resources import converted_strategy
        from pykubelet.apiserver.strategies.custom_resources import custom_strategy

        conversion = crd["spec"].get("conversion") or {}
        if conversion.get("strategy") != "Webhook":
            return custom_strategy
        webhook = conversion.get("webhook") or {}
        hook = conversion_hook(crd["metadata"]["name"], webhook.get("clientConfig") or {})
        versions = tuple(webhook.get("conversionReviewVersions") or ())
        return partial(converted_strategy, versions=versions, call=partial(self._ask, hook))

    async def _ask(self, hook: Hook, body: bytes) -> bytes:
        from pykubelet.apiserver.custom.conversion import ConversionFailed

        try:
            return await self._webhooks.call(hook, body)
        except CallFailed as error:
            raise ConversionFailed(str(error)) from None

    def _forget(self, key: str) -> None:
        known = self._known.pop(key)
        if known.served:
            self._client.backend.withdraw(*known.kind)
        for other, each in self._known.items():
            if each.kind[0] == known.kind[0]:  # a name that it wanted may be free now
                self._known[other] = msgspec.structs.replace(each, revision=0)

    # --- names

    def _decided(self, key: str, crd: Object) -> tuple[dict[str, Any], dict[str, Any]]:
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        others = [each.names for other, each in self._known.items() if other != key and each.kind[0] == group]
        found = self._client.resources.versions(group, plural)
        if any(not each.is_custom for each in found):
            others.append({"plural": plural})
        return decided(crd, others)

    async def _settle(self, entry: Entry) -> None:
        """Say in its status whether it has its names, and serve it first: who reads that may use it at once."""
        crd = of_entry(entry)
        names, accepted = self._decided(entry.key, crd)
        now = rfc3339(self._client.now())
        new = established(crd, is_accepted=accepted["status"] == "True")

        def settled(live: Object) -> Object:
            named = {**live, "status": {**live.get("status", {}), "acceptedNames": names}}
            settled_ = conditioned(conditioned(named, accepted, now), new, now)
            approved = approval(crd)
            return conditioned(settled_, approved, now) if approved else settled_

        changed = settled(crd)
        if is_established(changed):
            served = self._serve(changed, entry, self._known[entry.key].served)
            self._known[entry.key] = msgspec.structs.replace(self._known[entry.key], served=served, names=names)
        else:
            self._known[entry.key] = msgspec.structs.replace(self._known[entry.key], names=names)
        await self._client.change(CRDS, crd, settled, part="status")

    # --- the end

    async def _empty(self, entry: Entry) -> None:
        crd = of_entry(entry)
        now = rfc3339(self._client.now())
        if not is_established(crd):
            await self._release(crd, "NeverEstablished", "resource was never established", now)
            return
        kind = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        if not any(each.is_custom for each in self._client.resources.versions(*kind)):
            await self._release(crd, "NotServed", "it was not served here", now)
            return
        if not _holds(crd, TERMINATING):
            await self._client.change(CRDS, crd, lambda live: conditioned(live, TERMINATING, now), part="status")
        for obj in await self._client.all(kind):
            await self._client.remove(kind, obj)
        if await self._client.entries(kind):
            return
        await self._release(crd, "InstanceDeletionCompleted", "removed all instances", now)

    async def _release(self, crd: Object, reason: str, message: str, now: str) -> None:
        done = {"type": "Terminating", "status": "False", "reason": reason, "message": message}
        await self._client.change(CRDS, crd, lambda live: conditioned(live, done, now), part="status")
        await self._client.change(CRDS, crd, lambda live: without_finalizer(live, FINALIZER))


def _holds(crd: Object, wanted: dict[str, Any]) -> bool:
    return wanted.items() <= condition(crd, wanted["type"]).items()
