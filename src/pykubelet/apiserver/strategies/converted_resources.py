"""Custom resources whose versions only a webhook can convert: it is asked before, and remembered until it is shown."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from pykubelet.apiserver import status
from pykubelet.apiserver.custom.conversion import ConversionFailed, converted, review_of
from pykubelet.apiserver.custom.definition import CustomResource
from pykubelet.apiserver.custom.pruning import pruned
from pykubelet.apiserver.objects import Object, encode, loaded, new_uid
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.custom_resources import CustomResourceStrategy

Call = Callable[[bytes], Awaitable[bytes]]
"""Asks the webhook. Raises ConversionFailed."""

_MOST: Final = 4096
"""Objects that are remembered, unless more are asked for at once."""
_AT_ONCE: Final = 250
_BYTES_AT_ONCE: Final = 1 << 20
"""What is asked in one go: the answer has a limit, too."""


class ConvertedResourceStrategy(CustomResourceStrategy):
    waits = True

    def __init__(self, resource: CustomResource, versions: Sequence[str], call: Call) -> None:
        super().__init__(resource)
        self._versions = versions
        self._call = call
        self._made: dict[tuple[str, str], Object] = {}

    async def ready(self, stored: Sequence[tuple[bytes, int]]) -> None:
        missing: list[tuple[Object, int]] = []
        for value, revision in stored:
            if value.startswith(self.resource.head):
                continue
            obj = loaded(value, revision)
            if obj.get("apiVersion") != self.resource.api_version and _key(obj) not in self._made:
                missing.append((obj, len(value)))
        for some in _batches(missing):
            for old, new in zip(some, await self._convert(some, self.resource.api_version), strict=True):
                self._made[_key(old)] = new
        while len(self._made) > max(_MOST, 2 * len(stored)):
            del self._made[next(iter(self._made))]

    def from_storage(self, obj: Object) -> Object:
        if obj.get("apiVersion") == self.resource.api_version:
            return self._with_defaults(pruned(obj, self.version.given), self.version)
        found = self._made.get(_key(obj))
        if found is None:
            raise self._failed("it was not asked in time; try again")
        return pruned(found, self.version.given)

    def stored_fields(self, obj: Object) -> dict[str, str]:
        """By what is stored: nobody can be asked while a list is looked through."""
        return self.fields(obj)

    async def storable(self, obj: Object) -> Object:
        wanted = f"{self.resource.group}/{self.custom.storage}"
        if obj["apiVersion"] == wanted:
            return obj
        (new,) = await self._convert([obj], wanted)
        return pruned(new, self.custom.stored_as.given)

    async def _convert(self, objects: list[Object], wanted: str) -> list[Object]:
        try:
            review = review_of(self._versions, objects, wanted, new_uid())
            return converted(await self._call(encode(review)), review, objects)
        except ConversionFailed as error:
            raise self._failed(str(error)) from None

    def _failed(self, why: str) -> status.ApiError:
        return status.internal(
            f"conversion webhook for {self.resource.api_version}, Kind={self.resource.kind} failed: {why}"
        )


def converted_strategy(resource: Resource, *, versions: Sequence[str], call: Call) -> Strategy:
    assert isinstance(resource, CustomResource)
    return ConvertedResourceStrategy(resource, versions, call)


def _batches(objects: Sequence[tuple[Object, int]]) -> Iterator[list[Object]]:
    batch: list[Object] = []
    size = 0
    for obj, weight in objects:
        if batch and (len(batch) >= _AT_ONCE or size + weight > _BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(obj)
        size += weight
    if batch:
        yield batch


def _key(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", "")
