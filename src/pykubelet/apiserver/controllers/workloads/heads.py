"""Whose object a change is about: the owner that has to look again, found from as little of the object as possible."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pykubelet.api.selectors import Selector, matches
from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.controllers.keyed_work import Key
from pykubelet.apiserver.controllers.workloads.ownership import selector_of
from pykubelet.apiserver.objects import Object, loaded
from pykubelet.apiserver.schema.protobuf import MAGIC
from pykubelet.apiserver.store.port import Event


class _Owner(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = {}
    owner_references: tuple[_Owner, ...] = ()


class Head(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()

    @property
    def controller(self) -> _Owner | None:
        return next((each for each in self.metadata.owner_references if each.controller), None)


_decode = msgspec.json.Decoder(Head).decode
_NONE = Head()


def heads(event: Event) -> tuple[Head, Head]:
    """Of the object before the change, and after it; made once for all who ask."""
    found: tuple[Head, Head] | None = event.cache.get("heads")
    if found is None:
        found = event.cache["heads"] = (_head(event.previous or b""), _head(event.value))
    return found


def _head(value: bytes) -> Head:
    if not value:
        return _NONE
    if value.startswith(MAGIC):
        return msgspec.convert(loaded(value, 0), Head)
    return _decode(value)


def own_key(event: Event) -> Key:
    """Of the object itself."""
    before, after = heads(event)
    metadata = after.metadata if after.metadata.name else before.metadata
    return metadata.namespace, metadata.name


class Selecting(msgspec.Struct, frozen=True):
    """An owner, as far as it finds what may be its own."""

    key: Key
    selector: Selector | None


def selecting(obj: Object) -> Selecting:
    metadata = obj["metadata"]
    return Selecting((metadata.get("namespace", ""), metadata["name"]), selector_of(obj))


async def owner_keys(client: ControllerClient, event: Event, owners: Kind, kind: str) -> Iterable[Key]:
    """Who has to look again when this object has changed: its owners of this kind, before and after, and for an orphan
    that is new or has other labels, those whose selector finds it."""
    before, after = heads(event)
    was, now = before.controller, after.controller
    namespace = after.metadata.namespace or before.metadata.namespace
    keys = {(namespace, each.name) for each in (was, now) if each is not None and each.kind == kind}
    is_news = event.is_new or was is not None or before.metadata.labels != after.metadata.labels
    if event.kind == "put" and now is None and is_news:
        keys.update(await _selected_by(client, owners, namespace, after.metadata.labels))
    return keys


async def _selected_by(client: ControllerClient, owners: Kind, namespace: str, labels: Mapping[str, Any]) -> set[Key]:
    found = await client.views(owners, selecting, namespace)
    return {each.key for each in found if each.selector is not None and matches(each.selector, labels)}
