"""Asks webhooks about writes: those that change objects one after the other, by the names of their configurations, and
those that only refuse all at once."""

import asyncio
import logging
from functools import partial
from typing import Any, Final

import msgspec

from pykubelet.apiserver import status
from pykubelet.apiserver.admission import matching
from pykubelet.apiserver.admission.client import WebhookClient
from pykubelet.apiserver.admission.evaluating import Expressions
from pykubelet.apiserver.admission.hooks import GROUP, MUTATING, VALIDATING, Hook, hooks_of
from pykubelet.apiserver.admission.review import (
    CallFailed,
    Verdict,
    failed_closed,
    review_of,
    review_version,
    unfit_for_dry_run,
    verdict_of,
)
from pykubelet.apiserver.admission.sight import Sight
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, encode, made_of, new_uid
from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.json_patch import apply_json_patch
from pykubelet.apiserver.requests.admission import Attempt, Mutation
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Entry
from pykubelet.apiserver.strategies.base import normal

log = logging.getLogger(__name__)

_KEPT: Final = ("namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
"""Of the metadata, what no webhook has a word in."""


class Webhooks:
    def __init__(self, backend: Backend, client: WebhookClient) -> None:
        self._backend = backend
        self._client = client
        self._sight = Sight(backend)
        self._expressions = Expressions()
        self._known: dict[str, dict[str, tuple[Hook, ...]]] = {MUTATING: {}, VALIDATING: {}}
        self._hooks: dict[str, tuple[Hook, ...]] = {MUTATING: (), VALIDATING: ()}
        for plural in (MUTATING, VALIDATING):
            prefix = backend.resources.of(GROUP, plural).prefix
            backend.cache.mirror(prefix, partial(self._tell, plural, prefix))

    def _tell(self, plural: str, prefix: str, key: str, entry: Entry | None) -> None:
        known, name = self._known[plural], key.removeprefix(prefix)
        known.pop(name, None)
        if entry is not None:
            known[name] = hooks_of(name, made_of(entry, _map, "all that its webhooks may be meant by is refused"))
        self._hooks[plural] = tuple(hook for each in sorted(known) for hook in known[each])

    def has_any(self, *, mutating: bool) -> bool:
        return bool(self._hooks[MUTATING if mutating else VALIDATING])

    def waits(self, resource: Resource) -> bool:
        if resource.group == GROUP and resource.plural in matching.EXEMPT:
            return False
        every = (*self._hooks[MUTATING], *self._hooks[VALIDATING])
        groups = {each.group for each in (resource, *self._sight.equivalents(resource))} | {"*"} if every else set()
        return any(rule.groups & groups for hook in every for rule in hook.match.rules)

    # --- those who change

    async def mutate(self, attempt: Attempt) -> Mutation | None:
        obj, seen, again = attempt.obj, frozenset[str](), frozenset[str]()
        is_changed = False
        for hook in self._hooks[MUTATING]:
            called = await self._changed_by(hook, msgspec.structs.replace(attempt, obj=obj))
            if called is None:
                continue
            new, changed = called
            if changed:
                obj, is_changed, again, seen = new, True, again | seen, frozenset()
            if hook.wants_again:
                seen |= {hook.key}
        if not is_changed or obj is None:
            return None
        # those who were asked last see it again only if those inside change it
        return Mutation(obj, again | frozenset(f"?{key}" for key in seen))

    async def mutate_again(self, attempt: Attempt, before: Mutation) -> Object:
        obj = attempt.obj
        assert obj is not None
        is_other = not same(obj, before.obj)
        wanted = {key.removeprefix("?") for key in before.again if is_other or not key.startswith("?")}
        for hook in self._hooks[MUTATING]:
            if hook.key in wanted:
                called = await self._changed_by(hook, msgspec.structs.replace(attempt, obj=obj))
                obj = obj if called is None or called[0] is None else called[0]
        return obj

    async def _changed_by(self, hook: Hook, attempt: Attempt) -> tuple[Object | None, bool] | None:
        """-> the object as the hook leaves it, and whether it has changed it; None: it was not asked."""
        seen_as = await self._meant(hook, attempt)
        if seen_as is None:
            return None
        try:
            verdict = await self._ask(hook, attempt, seen_as, mutates=True)
        except CallFailed as error:
            if hook.is_closed:
                raise failed_closed(hook.name, error) from None
            log.warning("webhook %s cannot be asked, and is passed over: %s", hook.name, error)
            return attempt.obj, False
        if verdict.refusal is not None:
            raise verdict.refusal
        if not verdict.patch:
            return attempt.obj, False
        return await self._patched(hook, attempt, seen_as, verdict.patch)

    async def _patched(self, hook: Hook, attempt: Attempt, seen_as: Resource, patch: list[Any]) -> tuple[Object, bool]:
        old = attempt.obj
        if old is None or attempt.is_fixed:
            what = "attempted to modify the object, which is not supported for this operation"
            raise status.internal(f'admission webhook "{hook.name}" {what}')
        try:
            patched = apply_json_patch(await self._sight.converted(old, attempt.resource, seen_as), patch)
        except PatchRefused as error:
            raise status.internal(f'admission webhook "{hook.name}": {error}') from None
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise status.internal(f'admission webhook "{hook.name}" leaves something that is not an object')
        if (patched.get("apiVersion"), patched.get("kind")) != (seen_as.api_version, seen_as.kind):
            raise status.internal(f'admission webhook "{hook.name}" changed the kind of the object')
        new = await self._sight.converted(patched, seen_as, attempt.resource)
        kept = {name: old["metadata"][name] for name in _KEPT if name in old["metadata"]}
        free = {name: value for name, value in new["metadata"].items() if name not in _KEPT}
        if attempt.operation == "UPDATE":
            free["name"] = old["metadata"]["name"]
        try:
            made = normal(self._backend.strategy(attempt.resource), {**new, "metadata": {**free, **kept}})
        except ApiError as error:
            raise status.internal(f'admission webhook "{hook.name}": {error.message}') from None
        return made, not same(made, old)

    # --- those who refuse

    async def validate(self, attempt: Attempt) -> None:
        if not self._hooks[VALIDATING]:
            return
        meant = [(hook, await self._meant(hook, attempt)) for hook in self._hooks[VALIDATING]]
        asked = [self._refusal(hook, attempt, seen_as) for hook, seen_as in meant if seen_as is not None]
        for refusal in await asyncio.gather(*asked):
            if refusal is not None:
                raise refusal

    async def _refusal(self, hook: Hook, attempt: Attempt, seen_as: Resource) -> ApiError | None:
        try:
            return (await self._ask(hook, attempt, seen_as, mutates=False)).refusal
        except CallFailed as error:
            if hook.is_closed:
                return failed_closed(hook.name, error)
            log.warning("webhook %s cannot be asked, and is passed over: %s", hook.name, error)
        except ApiError as error:
            return error
        return None

    # --- both

    async def _ask(self, hook: Hook, attempt: Attempt, seen_as: Resource, *, mutates: bool) -> Verdict:
        """Raises CallFailed, and 400 for a dry run that it does not know."""
        if hook.fault:
            raise CallFailed(hook.fault)
        if attempt.dry_run and not hook.can_dry_run:
            raise unfit_for_dry_run(hook.name)
        version, uid = review_version(hook), new_uid()
        obj, old = await self._sight.both(attempt, seen_as)
        body = encode(review_of(attempt, seen_as, obj, old, uid, version))
        verdict = verdict_of(hook, await self._client.call(hook, body), uid, version, mutates=mutates)
        attempt.warnings.extend(verdict.warnings)
        attempt.notes.update(verdict.notes)
        return verdict

    async def _meant(self, hook: Hook, attempt: Attempt) -> Resource | None:
        """As which resource the hook wants to see the write; None: it does not. Raises 403 and 404."""
        seen_as = await self._sight.meant_as(hook.match, attempt)
        if seen_as is None:
            return None
        if not hook.conditions:
            return seen_as
        # Only now: few write expressions, and what reads them takes a tenth of a second to load.
        from pykubelet.apiserver.admission.conditions import unmet, values_of
        from pykubelet.apiserver.admission.verdicts import Verdicts

        obj, old = await self._sight.both(attempt, seen_as)
        verdicts = Verdicts(self._backend.access, attempt)
        values = values_of(attempt, seen_as, obj, old) | verdicts.values(seen_as)
        asked = partial(unmet, hook.conditions, values)
        is_unmet, fault = await self._expressions.evaluated(attempt.user.name, verdicts, asked)
        if is_unmet or (fault and not hook.is_closed):
            return None
        if fault:
            raise status.forbidden(attempt.resource.plural, attempt.name, fault, attempt.resource.group)
        return seen_as


def _map(obj: Object) -> Object:
    if not isinstance(obj, dict):
        raise TypeError("it is not an object")
    return obj
