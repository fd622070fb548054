"""From the bytes of a manifest to static pods, or to every reason why not, each with its file, line and column."""

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.defaults import default_pod
from pykubelet.api.documents import Document, DocumentError, read_documents
from pykubelet.api.field_errors import FieldError, forbidden
from pykubelet.api.pod import Pod
from pykubelet.api.validation import validate_pod
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.references import api_references
from pykubelet.pod.lifecycle.static_pod import static_pod, static_uid
from pykubelet.sources.pod_dump import pod_dump

_LIST_KINDS: Final = ("PodList", "List")
_UID: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,252}")


class BadManifest(Invalid):
    """A manifest that cannot be used, with all that is wrong with it: one sentence each."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class Place(Struct, frozen=True):
    """Where a manifest was found and which node reads it."""

    origin: str
    """The path or URL that the pods' identity is made from."""
    source: str
    node_name: str
    shown: str = ""
    """What people get to see instead of an origin that holds a secret."""

    def __str__(self) -> str:
        return self.shown or self.origin


def read_manifest(data: bytes, place: Place) -> tuple[Pod, ...]:
    """The pods of a manifest: YAML or JSON, one document or several, each a Pod or a list of pods.

    All or nothing: a manifest with one bad pod is a bad manifest. Raises BadManifest.
    """
    try:
        documents = read_documents(data)
    except DocumentError as error:
        raise BadManifest((_fault(place, (error.line, error.column) if error.line else None, error.reason),)) from None
    if not documents:
        raise BadManifest((_fault(place, None, "holds no pod"),))
    pods: list[Pod] = []
    faults: list[str] = []
    for document in documents:
        for path, value in _pod_values(document, place, faults):
            pod = _pod(document, path, value, place, faults)
            if pod is not None:
                pods.append(pod)
    if faults:
        raise BadManifest(tuple(faults))
    return tuple(pods)


def _pod_values(document: Document, place: Place, faults: list[str]) -> Iterator[tuple[str, Any]]:
    """The path and plain value of each pod in a document."""
    value = document.value
    version, kind = (value.get("apiVersion"), value.get("kind")) if isinstance(value, dict) else (None, None)
    if version == "v1" and kind == "Pod":
        yield "", value
    elif version == "v1" and kind in _LIST_KINDS:
        items = value.get("items") or []
        if not isinstance(items, list):
            faults.append(_fault(place, document.place("items"), "items: expected a list of pods"))
            return
        for index, item in enumerate(items):
            if isinstance(item, dict) and item.get("kind", "Pod") != "Pod":
                where = document.place(f"items[{index}]")
                faults.append(_fault(place, where, f"items[{index}].kind: is {item['kind']!r}, not a Pod"))
            else:
                yield f"items[{index}].", item
    elif not isinstance(value, dict):
        faults.append(_fault(place, document.place(""), "is not a Kubernetes object, but plain text or a list"))
    else:
        what = f"apiVersion {version or '(none)'}, kind {kind or '(none)'}"
        faults.append(_fault(place, document.place(""), f"is neither a Pod nor a PodList of apiVersion v1: {what}"))


def _pod(document: Document, path: str, value: Any, place: Place, faults: list[str]) -> Pod | None:
    try:
        written = codec.convert(Pod, value)
    except DecodeError as error:
        field = path + error.field if error.field else path.rstrip(".")
        faults.append(_fault(place, document.place(field), f"{field}: {error.reason}" if field else error.reason))
        return None
    if not written.metadata.name:
        faults.append(_fault(place, document.place(path + "metadata"), f"{path}metadata.name: is required"))
        return None
    if written.metadata.uid and not _UID.fullmatch(written.metadata.uid):
        reason = "must be letters, digits, '-', '_' and '.', as a folder can be named"
        faults.append(_fault(place, document.place(f"{path}metadata.uid"), f"{path}metadata.uid: {reason}"))
        return None
    uid = written.metadata.uid or static_uid(pod_dump(value, written), place.node_name, place.source, place.origin)
    pod = static_pod(default_pod(written), uid, place.node_name, place.source)
    errors = [*validate_pod(pod), *_api_dependencies(pod)]
    faults.extend(_fault(place, document.place(path + each.field), f"{path}{each}") for each in errors)
    return None if errors else pod


def _api_dependencies(pod: Pod) -> Iterator[FieldError]:
    for field, needed in api_references(pod.spec):
        yield forbidden(field, f"a static pod cannot use {needed}: there may be no API server to get them from")


def _fault(place: Place, position: tuple[int, int] | None, reason: str) -> str:
    where = f"{place}:{position[0]}:{position[1]}" if position else str(place)
    return f"{where}: {reason}"
