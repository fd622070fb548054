"""Writes that are none of an object itself: an eviction, a binding, a scale, a token, a connection. Those who have a
word in what is written hear of them, too, and may refuse them, but not change them."""

import msgspec

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.admission import Attempt, Operation
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.writer.attempts import attempt_of
from pykubelet.apiserver.writer.author import Author


async def ask(
    backend: Backend,
    author: Author,
    resource: Resource,
    part: str,
    obj: Object,
    *,
    old: Object | None = None,
    operation: Operation = "CREATE",
) -> None:
    """About a part of the object that `obj` names in its metadata. Raises ApiError."""
    attempt: Attempt | None = attempt_of(author, resource, obj, old, "")
    if attempt is None:
        return
    whole = msgspec.structs.replace(attempt, operation=operation, part=part, is_fixed=True)
    await backend.admission.mutate(whole)
    await backend.admission.validate(whole)
