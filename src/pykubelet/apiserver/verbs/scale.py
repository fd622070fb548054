"""The sub-resource `scale`: how many there are to be of something, said in one way for all kinds that can be scaled."""

from typing import Any, Final

import msgspec

from pykubelet.api.field_errors import invalid
from pykubelet.api.selectors import from_json
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at, clean
from pykubelet.apiserver.patch.apply_conflicts import ApplyConflict
from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.server_side_apply import apply
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.options import WriteOptions
from pykubelet.apiserver.schema.resources import Resource, ScalePaths
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.strategies.base import normal
from pykubelet.apiserver.verbs.bodies import from_yaml, read_object, told_unknown
from pykubelet.apiserver.verbs.create import writer_for
from pykubelet.apiserver.verbs.patch import APPLY, check_patch, patched_by, refused
from pykubelet.apiserver.writer.asking import ask

_SCALE: Final = Resource(group="autoscaling", version="v1", kind="Scale", plural="scales", is_stored=False)
_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


async def scale(backend: Backend, call: Call) -> Answer:
    resource, info = call.resource, call.info
    if info.verb == "get":
        entry = await backend.read(resource, info.namespace, info.name)
        return Answer(200, scale_of(resource, backend.object_of(resource, entry.value, entry.revision)))
    options, strategy = call.write_options, backend.strategy(resource)
    if info.verb == "patch":
        check_patch(call, options)
    is_apply = info.verb == "patch" and call.content_type == APPLY
    wish = _Wish(backend, call, options)
    writer = writer_for(backend, call, options)
    entry = await backend.read(resource, info.namespace, info.name)
    before = backend.object_of(resource, entry.value, entry.revision)
    wanted = normal(strategy, wish.applied(before) if is_apply else wish.changed(before))
    asked = scale_of(resource, wanted)
    await ask(backend, writer.author, resource, "scale", asked, old=scale_of(resource, before), operation="UPDATE")
    changed = await writer.change(
        resource,
        info.namespace,
        info.name,
        lambda old: normal(strategy, wish.applied(old) if is_apply else wish.changed(old)),
        part="scale",
        is_tracked=not is_apply,
        is_patch=info.verb == "patch",
    )
    return Answer(200, scale_of(resource, changed))


def scale_of(resource: Resource, obj: Object) -> Object:
    paths = resource.scale or ScalePaths()
    wanted, there = at(obj, paths.spec_replicas, 0), at(obj, paths.status_replicas, 0)
    selector = at(obj, paths.selector, "") if paths.selector else _selector(obj, resource)
    return {
        "kind": _SCALE.kind,
        "apiVersion": _SCALE.api_version,
        "metadata": {name: obj["metadata"][name] for name in _SHOWN if name in obj["metadata"]},
        "spec": {"replicas": wanted} if wanted else {},
        "status": {"replicas": there, **({"selector": selector} if selector else {})},
    }


def _selector(obj: Object, resource: Resource) -> str:
    if resource.is_custom:
        return ""
    given = at(obj, "spec.selector", {})
    if not resource.group:  # a replication controller has labels only
        given = {"matchLabels": given}
    try:
        selector = from_json(given)
    except ValueError:  # another server's objects are read as they are
        return ""
    return ",".join(map(str, sorted(selector, key=lambda each: each.key)))


class _Wish:
    """What a client wants the number to be."""

    def __init__(self, backend: Backend, call: Call, options: WriteOptions) -> None:
        self._backend = backend
        self._call = msgspec.structs.replace(call, resource=_SCALE)
        self._resource = call.resource
        self._options = options
        self._given: Object | None = None
        if call.info.verb == "update":
            strategy = backend.strategy(call.resource)
            self._given = read_object(call, strategy, kind=_SCALE.kind, api_version=_SCALE.api_version)
            _check_name(self._given, call.info.name)
        elif call.content_type != APPLY:
            self._patched = patched_by(self._call)

    def changed(self, old: Object) -> Object:
        given = self._given
        if given is None:
            try:
                given = self._patched(scale_of(self._resource, old))
            except PatchRefused as error:
                raise refused(error) from None
            _check_name(given, old["metadata"]["name"])
        new: Object = copied(old)
        _set(new, self._path, _replicas(given, old["metadata"]["name"]))
        for name in ("resourceVersion", "uid"):
            if at(given, f"metadata.{name}"):
                new["metadata"][name] = given["metadata"][name]
        return new

    def applied(self, old: Object) -> Object:
        """Applied as a part of the object that has the number, so that it has one owner whichever way it is set."""
        resource, name = self._resource, old["metadata"]["name"]
        twice: list[str] = []
        body = from_yaml(self._call.body, _SCALE.kind, twice)
        told_unknown(self._call, (), _SCALE.kind, _SCALE.api_version, self._options.validation, twice)
        if not isinstance(body, dict) or (body.get("apiVersion"), body.get("kind")) != ("autoscaling/v1", "Scale"):
            raise status.bad_request("what is applied must be a Scale of autoscaling/v1")
        _check_name(body, name)
        head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        applied: Object = head
        if at(body, "spec.replicas") is not None:
            _set(applied, self._path, _replicas(body, name))
        try:
            return apply(
                old,
                applied,
                manager=self._options.manager,
                force=bool(self._options.force),
                kind=resource.kind,
                api_version=resource.api_version,
                schema=resource.schema,
                subresource="scale",
                now=self._backend.now(),
            )
        except PatchRefused as error:
            raise refused(error) from None
        except ApplyConflict as conflict:
            raise status.apply_conflict(str(conflict), [(c.field, c.message) for c in conflict.causes]) from None

    @property
    def _path(self) -> str:
        return (self._resource.scale or ScalePaths()).spec_replicas


def _check_name(given: Any, name: str) -> None:
    if not isinstance(given, dict) or (at(given, "metadata.name") or name) != name:
        raise status.bad_request(f"the name of the object does not match the name on the URL ({name})")


def _replicas(given: Object, name: str) -> int:
    known = clean(given, _SCALE.schema)
    found = at(known, "spec.replicas", 0)
    if not isinstance(found, int) or isinstance(found, bool):
        raise status.unfit(_SCALE.kind, "v1", "spec.replicas: has to be a whole number")
    if found < 0:
        error = invalid("spec.replicas", found, "must be greater than or equal to 0")
        raise status.invalid(_SCALE.kind, _SCALE.group, name, [error])
    return found


def _set(obj: Object, path: str, value: int) -> None:
    *way, last = path.split(".")
    for part in way:
        obj = obj.setdefault(part, {})
    obj[last] = value
