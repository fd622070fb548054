"""How a write looks to those who have a word in it: whether it is meant, as which resource, and in which version."""

from typing import Final

from pykubelet.api.selectors import matches
from pykubelet.apiserver import status
from pykubelet.apiserver.admission import matching
from pykubelet.apiserver.admission.hooks import GROUP, Match, labels_of
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, loaded, new_uid, stored
from pykubelet.apiserver.requests.admission import Attempt
from pykubelet.apiserver.schema.resources import Resource

_OWN: Final = ("uid", "resourceVersion")


class Sight:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def meant_as(self, match: Match, attempt: Attempt) -> Resource | None:
        """The resource as which a write is meant; None: it is not. Raises 404 for a namespace that is not there."""
        if attempt.resource.group == GROUP and attempt.resource.plural in matching.EXEMPT:
            return None
        if not matching.of_objects(match.objects, attempt):
            return None
        equivalents = self.equivalents(attempt.resource) if match.takes_equivalents else []
        if matching.meant_as(match.excluded, attempt, equivalents) is not None:
            return None
        found = matching.meant_as(match.rules, attempt, equivalents)
        return found if found is not None and await self._in_namespaces(match, attempt) else None

    async def _in_namespaces(self, match: Match, attempt: Attempt) -> bool:
        if not matching.asks_namespace(match.namespaces, attempt):
            return True
        labels = matching.own_labels(attempt)
        if labels is None:
            namespace = await self._backend.find("", "namespaces", "", attempt.namespace)
            if namespace is None:
                raise status.not_found("namespaces", attempt.namespace)
            labels = labels_of(namespace)
        return matches(match.namespaces, labels)

    def equivalents(self, resource: Resource) -> list[Resource]:
        """Other ways to the same objects."""
        every = self._backend.resources
        return [each for each in every if each.prefix == resource.prefix and each.path != resource.path]

    async def both(self, attempt: Attempt, seen_as: Resource) -> tuple[Object | None, Object | None]:
        """The new object and the old one, in the version in which they are to be seen."""
        obj, old = attempt.obj, attempt.old
        if attempt.is_fixed:
            return obj, old
        return (
            None if obj is None else await self.converted(obj, attempt.resource, seen_as),
            None if old is None else await self.converted(old, attempt.resource, seen_as),
        )

    async def converted(self, obj: Object, given: Resource, wanted: Resource) -> Object:
        """By way of the version that is stored."""
        if given.path == wanted.path:
            return obj
        metadata, strategy = obj["metadata"], self._backend.strategy(wanted)
        # Conversions are remembered by uid and version, and this is none that is stored.
        value = stored(
            await self._backend.strategy(given).storable({**obj, "metadata": {**metadata, "uid": new_uid()}})
        )
        await strategy.ready([(value, 0)])
        made = strategy.from_storage(loaded(value, 0))
        own = {name: metadata[name] for name in _OWN if name in metadata}
        free = {name: inner for name, inner in made["metadata"].items() if name not in _OWN}
        return {**made, "metadata": {**free, **own}}
