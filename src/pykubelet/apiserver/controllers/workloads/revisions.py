"""The history of a template: a ControllerRevision for each version of it, so that each pod can be told whose it is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykubelet.api.selectors import Selector
from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.controllers.workloads.ownership import claim, controller_reference, take
from pykubelet.apiserver.controllers.workloads.pod_views import controller_of
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied, same
from pykubelet.apiserver.status import ApiError

CONTROLLER_REVISIONS: Final[Kind] = ("apps", "controllerrevisions")


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str
    owner: str
    labels: Mapping[str, str]
    is_leaving: bool
    created: str
    number: int
    data: dict[str, Any]

    def head(self) -> Object:
        return {"metadata": {"namespace": self.namespace, "name": self.name, "uid": self.uid}}

    @property
    def template(self) -> dict[str, Any]:
        """The template as it was."""
        template = (self.data.get("spec") or {}).get("template") or {}
        return {key: value for key, value in template.items() if key != "$patch"}


def revision_view(obj: Object) -> Revision:
    metadata = obj["metadata"]
    return Revision(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        owner=controller_of(obj).get("uid", ""),
        labels=metadata.get("labels") or {},
        is_leaving="deletionTimestamp" in metadata,
        created=metadata.get("creationTimestamp") or "",
        number=obj.get("revision", 0),
        data=obj.get("data") or {},
    )


def revision_data(template: dict[str, Any]) -> dict[str, Any]:
    """What brings the template back, as a patch."""
    return {"spec": {"template": {**copied(template), "$patch": "replace"}}}


def new_revision(owner: Object, hash_: str, number: int, labels: Mapping[str, str]) -> Object:
    metadata, template = owner["metadata"], owner["spec"]["template"]
    annotations = metadata.get("annotations") or {}
    return {
        "metadata": {
            "name": f"{metadata['name'][:223]}-{hash_}",
            "namespace": metadata["namespace"],
            "labels": {**((template.get("metadata") or {}).get("labels") or {}), **labels},
            **({"annotations": dict(annotations)} if annotations else {}),
            "ownerReferences": [controller_reference(owner)],
        },
        "data": revision_data(template),
        "revision": number,
    }


def equals(revisions: Iterable[Revision], template: dict[str, Any]) -> list[Revision]:
    """Those that would bring back this template."""
    return [each for each in revisions if same(each.template, template)]


def excess(revisions: Sequence[Revision], live: set[str], limit: int | None) -> list[Revision]:
    """The oldest of those that are no longer needed."""
    history = [each for each in revisions if each.name not in live]
    return [] if limit is None or limit < 0 else history[: max(len(history) - limit, 0)]


async def history_of(client: ControllerClient, owner: Object, owner_kind: Kind, selector: Selector) -> list[Revision]:
    """The owner's own, the oldest first; orphans that its selector finds are adopted."""
    everything = await client.views(CONTROLLER_REVISIONS, revision_view, owner["metadata"]["namespace"])
    found = claim(owner, selector, everything)
    found.released.clear()
    own = await take(client, CONTROLLER_REVISIONS, owner, owner_kind, found)
    return sorted(own, key=lambda each: (each.number, each.created, each.name))


async def add_revision(client: ControllerClient, made: Object) -> Revision | None:
    """None: another has its name, and other data. Raises ApiError."""
    metadata = made["metadata"]
    try:
        return revision_view(await client.make(CONTROLLER_REVISIONS, made))
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
    there = await client.find(CONTROLLER_REVISIONS, metadata["namespace"], metadata["name"])
    is_own = there is not None and controller_of(there).get("uid") == metadata["ownerReferences"][0]["uid"]
    return revision_view(there) if there is not None and is_own and same(there.get("data"), made["data"]) else None


async def renumber(client: ControllerClient, revision: Revision, number: int) -> Revision:
    """It is the newest again."""
    if revision.number == number:
        return revision
    changed = await client.change(CONTROLLER_REVISIONS, revision.head(), lambda live: {**live, "revision": number})
    return revision if changed is None else revision_view(changed)


async def newest_revision(
    client: ControllerClient, owner: Object, history: Sequence[Revision], hash_of: Callable[[int], str], label: str
) -> tuple[Revision, int]:
    """The revision of the template as it is, and how often the name that its hash makes was taken. Raises ApiError."""
    template, collisions = owner["spec"]["template"], at(owner, "status.collisionCount", 0)
    found, number = equals(history, template), history[-1].number + 1 if history else 1
    if found:
        newest = found[-1]
        return (newest if newest is history[-1] else await renumber(client, newest, number)), collisions
    while True:
        hash_ = hash_of(collisions)
        made = await add_revision(client, new_revision(owner, hash_, number, {label: hash_}))
        if made is not None:
            return made, collisions
        collisions += 1
