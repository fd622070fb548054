"""From the bytes of a manifest to static pods and what they use, or to every reason why not, each with its file, line
and column."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from pykubelet.api import codec
from pykubelet.api.base64_text import with_canonical_bytes
from pykubelet.api.codec import DecodeError
from pykubelet.api.defaults import default_image_volumes, default_pod
from pykubelet.api.documents import Document, DocumentError, read_documents
from pykubelet.api.field_errors import FieldError, forbidden
from pykubelet.api.meta import ListMeta
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import FILE_SOURCE
from pykubelet.api.struct import Struct as ApiStruct
from pykubelet.api.struct import changed
from pykubelet.api.unknown_fields import unknown_fields
from pykubelet.api.validation import validate_pod
from pykubelet.api.validation.names import dns_subdomain
from pykubelet.api.validation.options import DEFAULT_OPTIONS, PodValidationOptions
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.references import api_references
from pykubelet.pod.lifecycle.static_pod import static_pod, static_uid
from pykubelet.sources.pod_dump import pod_dump
from pykubelet.sources.static_objects import ObjectKey

_LIST_KINDS: Final = ("PodList", "List")
_UID: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,252}")
_DATA_KEY: Final = re.compile(r"[-._A-Za-z0-9]{1,253}")
_MOST_DATA: Final = 1 << 20


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


class Manifest(Struct, frozen=True):
    """What a manifest holds."""

    pods: tuple[Pod, ...] = ()
    objects: Mapping[ObjectKey, ConfigMap | Secret] = {}
    needs: Mapping[str, Mapping[ObjectKey, str]] = {}
    """By uid of a pod: the config maps and secrets that it needs, each with what is wrong when there is none."""
    ignored: tuple[str, ...] = ()
    """Fields that no such object has, where that is no fault."""


class _PodList(ApiStruct, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: ListMeta | None = None
    items: tuple[Pod, ...] = ()


_KINDS: Final[Mapping[str, type[ApiStruct]]] = {
    "Pod": Pod,
    **dict.fromkeys(_LIST_KINDS, _PodList),
    "ConfigMap": ConfigMap,
    "Secret": Secret,
}


def read_manifest(
    data: bytes, place: Place, *, lenient: bool = False, validation: PodValidationOptions = DEFAULT_OPTIONS
) -> Manifest:
    """A manifest: YAML or JSON, one document or several, each a Pod or a list of pods; in a file also config maps and
    secrets for them.

    All or nothing: a manifest with one bad pod is a bad manifest. So is one with a field that is not known, unless it
    is read in the lenient way. Raises BadManifest.
    """
    try:
        documents = read_documents(data)
    except DocumentError as error:
        raise BadManifest((_fault(place, (error.line, error.column) if error.line else None, error.reason),)) from None
    if not documents:
        raise BadManifest((_fault(place, None, "holds no pod"),))
    reader = _Reader(place, validation)
    unknown: list[str] = []
    for document in documents:
        unknown += _unknown_fields(document, place)
        reader.read(document)
    if reader.faults or (unknown and not lenient):
        raise BadManifest((*unknown, *reader.faults))
    ignored = tuple(f"{each}; it is ignored" for each in unknown)
    return Manifest(tuple(reader.pods), reader.objects, reader.needs, ignored)


def _unknown_fields(document: Document, place: Place) -> Iterator[str]:
    value = document.value
    kind = _KINDS.get(str(value.get("kind"))) if isinstance(value, dict) else None
    for each in unknown_fields(kind, value) if kind is not None else ():
        yield _fault(place, document.name_place(each.owner, each.name), str(each))


class _Reader:
    def __init__(self, place: Place, validation: PodValidationOptions) -> None:
        self._place = place
        self._validation = validation
        self.pods: list[Pod] = []
        self.objects: dict[ObjectKey, ConfigMap | Secret] = {}
        self.needs: dict[str, dict[ObjectKey, str]] = {}
        self.faults: list[str] = []

    def read(self, document: Document) -> None:
        value = document.value
        kind = value.get("kind") if isinstance(value, dict) and value.get("apiVersion") == "v1" else None
        if kind in ("ConfigMap", "Secret") and self._place.source == FILE_SOURCE:
            self._object(document, value, ConfigMap if kind == "ConfigMap" else Secret)
            return
        for path, pod in self._pod_values(document):
            self._pod(document, path, pod)

    def _pod_values(self, document: Document) -> Iterator[tuple[str, Any]]:
        """The path and plain value of each pod in a document."""
        value = document.value
        version, kind = (value.get("apiVersion"), value.get("kind")) if isinstance(value, dict) else (None, None)
        if version == "v1" and kind == "Pod":
            yield "", value
        elif version == "v1" and kind in _LIST_KINDS:
            items = value.get("items") or []
            if not isinstance(items, list):
                self._complain(document, "items", "items: expected a list of pods")
                return
            for index, item in enumerate(items):
                if isinstance(item, dict) and item.get("kind", "Pod") != "Pod":
                    reason = f"items[{index}].kind: is {item['kind']!r}, not a Pod"
                    self._complain(document, f"items[{index}]", reason)
                else:
                    yield f"items[{index}].", item
        elif not isinstance(value, dict):
            self._complain(document, "", "is not a Kubernetes object, but plain text or a list")
        else:
            what = f"apiVersion {version or '(none)'}, kind {kind or '(none)'}"
            self._complain(document, "", f"is neither a Pod nor a PodList of apiVersion v1: {what}")

    def _pod(self, document: Document, path: str, value: Any) -> None:
        place = self._place
        try:
            written = codec.convert(Pod, value)
        except DecodeError as error:
            field = path + error.field if error.field else path.rstrip(".")
            self._complain(document, field, f"{field}: {error.reason}" if field else error.reason)
            return
        if not written.metadata.name:
            self._complain(document, path + "metadata", f"{path}metadata.name: is required")
            return
        if written.metadata.uid and not _UID.fullmatch(written.metadata.uid):
            reason = "must be letters, digits, '-', '_' and '.', as a folder can be named"
            self._complain(document, f"{path}metadata.uid", f"{path}metadata.uid: {reason}")
            return
        dump = "" if written.metadata.uid else pod_dump(value, written)
        uid = written.metadata.uid or static_uid(dump, place.node_name, place.source, place.origin)
        pod = default_pod(written)
        pod = changed(pod, spec=default_image_volumes(pod.spec))
        pod = static_pod(pod, uid, place.node_name, place.source)
        errors = [*validate_pod(pod, self._validation), *self._references(document, path, pod)]
        for each in errors:
            self._complain(document, path + each.field, f"{path}{each}")
        if not errors:
            self.pods.append(pod)

    def _references(self, document: Document, path: str, pod: Pod) -> Iterator[FieldError]:
        """What no static pod may refer to. What may lie beside the manifest is needed, and looked for later."""
        for reference in api_references(pod.spec):
            what = f"static pods may not reference {reference.what}"
            if reference.kind is None or self._place.source != FILE_SOURCE:
                yield forbidden(reference.field, what)
                continue
            field = path + reference.field
            reason = f"{field}: {what} that are not in the manifest folder: there is no {reference.name!r}"
            key = reference.kind, pod.metadata.namespace, reference.name
            self.needs.setdefault(pod.metadata.uid, {})[key] = _fault(self._place, document.place(field), reason)

    def _object(self, document: Document, value: Any, kind: type[ConfigMap] | type[Secret]) -> None:
        try:
            part = "data" if kind is Secret else "binaryData"
            found = _usable(codec.convert(kind, with_canonical_bytes(value, part)))
        except DecodeError as error:
            self._complain(document, error.field, f"{error.field}: {error.reason}" if error.field else error.reason)
            return
        except _Unusable as error:
            self._complain(document, error.field, f"{error.field}: {error}")
            return
        meta = found.metadata
        key: ObjectKey = ("secret" if kind is Secret else "configmap", meta.namespace, meta.name)
        if key in self.objects:
            self._complain(document, "metadata", f"{key[0]} {meta.namespace}/{meta.name} is defined twice")
        self.objects[key] = found

    def _complain(self, document: Document, field: str, reason: str) -> None:
        self.faults.append(_fault(self._place, document.place(field), reason))


class _Unusable(ValueError):
    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def _usable(found: ConfigMap | Secret) -> ConfigMap | Secret:
    """With its namespace and all its data in one place. Raises _Unusable, never with what the data is."""
    name = found.metadata.name
    if problem := next(iter(dns_subdomain(name)), None):
        raise _Unusable("metadata.name", f"{name!r} cannot be used: {problem}" if name else "is required")
    if isinstance(found, Secret):
        text = {key: value.encode() for key, value in found.string_data.items()}
        found = changed(found, data={**found.data, **text}, string_data={})
        parts: Mapping[str, Mapping[str, str | bytes]] = {"data": found.data}
    else:
        parts = {"data": found.data, "binaryData": found.binary_data}
    for part, data in parts.items():
        for key in data:
            if key == "." or key.startswith("..") or not _DATA_KEY.fullmatch(key):
                raise _Unusable(part, f"{key!r} cannot be the name of a file: letters, digits, '-', '_' and '.' can")
    if sum(len(content) for data in parts.values() for content in data.values()) > _MOST_DATA:
        raise _Unusable("data", f"is larger than {_MOST_DATA >> 20} MiB")
    namespace = found.metadata.namespace or "default"
    return changed(found, metadata=changed(found.metadata, namespace=namespace))


def _fault(place: Place, position: tuple[int, int] | None, reason: str) -> str:
    where = f"{place}:{position[0]}:{position[1]}" if position else str(place)
    return f"{where}: {reason}"
