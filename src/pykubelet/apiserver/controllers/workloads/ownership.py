"""Whose an object is: orphans that a selector finds are adopted, and what it no longer finds is let go."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from pykubelet.api.selectors import Selector, from_json, matches
from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.controllers.workloads.pod_views import controller_of
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.writer.checks import without_owners


class Owned(Protocol):
    """What an owner has to know of what may be its own."""

    @property
    def uid(self) -> str: ...

    @property
    def labels(self) -> Any: ...

    @property
    def owner(self) -> str: ...

    @property
    def is_leaving(self) -> bool: ...

    def head(self) -> Object: ...


T = TypeVar("T", bound=Owned)


class Claim(msgspec.Struct, Generic[T], frozen=True):
    """What belongs to an owner already, what it takes and what it lets go."""

    kept: list[T]
    adopted: list[T]
    released: list[T]


def claim(
    owner: Object, selector: Selector, candidates: Iterable[T], fits: Callable[[T], bool] = lambda each: True
) -> Claim[T]:
    """An owner that is about to go takes nothing and lets nothing go. `fits`: what has to hold besides the selector."""
    uid, is_leaving = at(owner, "metadata.uid", ""), bool(at(owner, "metadata.deletionTimestamp"))
    found: Claim[T] = Claim([], [], [])
    for each in candidates:
        if each.owner and each.owner != uid:
            continue
        is_match = matches(selector, each.labels) and fits(each)
        if each.owner:
            if is_match:
                found.kept.append(each)
            elif not is_leaving:
                found.released.append(each)
        elif is_match and not is_leaving and not each.is_leaving:
            found.adopted.append(each)
    return found


async def take(client: ControllerClient, kind: Kind, owner: Object, owner_kind: Kind, found: Claim[T]) -> list[T]:
    """Write down what `claim` decided. -> what belongs to the owner now."""
    uid = owner["metadata"]["uid"]
    for each in found.released:
        await client.change(kind, each.head(), lambda live: without_owners(live, {uid}))
    if not found.adopted:
        return found.kept
    live = await client.find(owner_kind, owner["metadata"]["namespace"], owner["metadata"]["name"])
    if live is None or live["metadata"].get("uid") != uid or at(live, "metadata.deletionTimestamp"):
        return found.kept
    reference, taken = controller_reference(owner), list(found.kept)
    for each in found.adopted:
        changed = await client.change(kind, each.head(), _adopting(reference))
        if changed is not None and controller_of(changed).get("uid") == uid:
            taken.append(each)
    return taken


def _adopting(reference: dict[str, Any]) -> Callable[[Object], Object | None]:
    def adopted(live: Object) -> Object | None:
        owners = live["metadata"].get("ownerReferences") or []
        if at(live, "metadata.deletionTimestamp") or any(each.get("controller") for each in owners):
            return None  # somebody was faster
        others = [each for each in owners if each.get("uid") != reference["uid"]]
        return {**live, "metadata": {**live["metadata"], "ownerReferences": [*others, reference]}}

    return adopted


def controller_reference(owner: Object) -> dict[str, Any]:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def belongs_to(obj: Object, owner: Object) -> bool:
    """Whether it was made for its owner, and is controlled by it."""
    return bool(controller_of(obj).get("uid") == owner["metadata"]["uid"])


def selector_of(obj: Object) -> Selector | None:
    """The selector of a workload; None when it makes no sense or is empty, and then finds nothing."""
    given = at(obj, "spec.selector")
    if obj.get("kind") == "ReplicationController":
        given = {"matchLabels": given or {}}
    try:
        return from_json(given) or None if given else None
    except ValueError:
        return None
