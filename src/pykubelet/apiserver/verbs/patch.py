"""Patch: a change in one of four forms, made to whatever the object is at that moment."""

from collections.abc import Callable
from typing import Final

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.patch.apply_conflicts import ApplyConflict
from pykubelet.apiserver.patch.errors import INTERNAL, TOO_LARGE, UNPROCESSABLE, PatchRefused
from pykubelet.apiserver.patch.json_patch import apply_json_patch
from pykubelet.apiserver.patch.merge_patch import apply_merge_patch
from pykubelet.apiserver.patch.server_side_apply import apply
from pykubelet.apiserver.patch.strategic_merge import apply_strategic_merge_patch
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.json_text import read_json
from pykubelet.apiserver.requests.options import META_GROUP, WriteOptions
from pykubelet.apiserver.schema.schema import Json, copied
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.strategies.base import normal
from pykubelet.apiserver.verbs.bodies import check_shape, from_yaml, told_unknown
from pykubelet.apiserver.verbs.create import check_namespace, create_object, writer_for
from pykubelet.apiserver.verbs.update import check_name

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_SHOWN: Final = 1000
_OTHER_NAME: Final = "does not match the name on the URL"
_FORMS: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC, APPLY)
_CUSTOM_FORMS: Final = (JSON_PATCH, MERGE_PATCH, APPLY)

Patched = Callable[[Object | None], Json]


async def patch(backend: Backend, call: Call) -> Answer:
    options = call.write_options
    check_patch(call, options)
    attempt = _Attempt(backend, call, options)
    if attempt.is_apply and not call.info.subresource:
        made = await attempt.create_if_absent()
        if made is not None:
            return Answer(201, made)
    writer, info, is_patch = writer_for(backend, call, options), call.info, not attempt.is_apply
    changed = await writer.change(
        call.resource,
        info.namespace,
        info.name,
        attempt.changed,
        part=info.subresource,
        is_tracked=is_patch,
        is_patch=is_patch,
    )
    return Answer(200, changed)


class _Attempt:
    """One patch, which may have to be made to several versions of an object until one of them is still the last."""

    def __init__(self, backend: Backend, call: Call, options: WriteOptions) -> None:
        self.is_apply = call.content_type == APPLY
        self._backend = backend
        self._call = call
        self._options = options
        self._twice: list[str] = []
        """Names that some map of what is applied has twice."""
        self._patched = _applied(backend, call, options, self._twice) if self.is_apply else patched_by(call)

    async def create_if_absent(self) -> Object | None:
        """What is applied, if it was not there before."""
        call = self._call
        try:
            await self._backend.read(call.resource, call.info.namespace, call.info.name)
            return None
        except ApiError:
            obj = self._result(None)
        check_name(call, obj)
        if uid := obj["metadata"].get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise status.conflict(call.resource.plural, call.info.name, why, call.resource.group)
        try:
            return await create_object(self._backend, call, obj, self._options, is_tracked=False)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return None  # somebody else was faster: it is applied to what he made

    def changed(self, old: Object) -> Object:
        obj = self._result(old)
        if self.is_apply:
            check_name(self._call, obj)
        else:
            name, there = obj["metadata"].get("name") or "", old["metadata"].get("namespace", "")
            if name != self._call.info.name:
                raise status.bad_request(f"the name of the object ({name}) {_OTHER_NAME} ({self._call.info.name})")
            check_namespace(obj["metadata"].get("namespace"), there)
            if there:
                obj["metadata"]["namespace"] = there
        return obj

    def _result(self, old: Object | None) -> Object:
        """What the patch makes of the object, with its defaults."""
        call, resource = self._call, self._call.resource
        try:
            obj = self._patched(old)
        except PatchRefused as error:
            raise refused(error) from None
        except ApplyConflict as conflict:
            raise status.apply_conflict(str(conflict), [(c.field, c.message) for c in conflict.causes]) from None
        if not isinstance(obj, dict):
            raise status.bad_request("the patch leaves something that is not an object")
        if (obj.get("apiVersion"), obj.get("kind")) != (resource.api_version, resource.kind):
            raise status.bad_request("a patch may not change the apiVersion or the kind of an object")
        try:
            strategy = self._backend.strategy(resource)
            is_known = check_shape(obj, resource.kind, resource.api_version, strategy.shape)
            call.warnings.clear()
            unknown = () if is_known and not resource.is_custom else strategy.unknown(obj)
            told_unknown(call, unknown, resource.kind, resource.api_version, self._options.validation, self._twice)
            return normal(strategy, obj)
        except ApiError as error:
            raise _unfit(call, error) from None


def check_patch(call: Call, options: WriteOptions) -> None:
    """That it is in a form that can be made, and may be asked for in this way. Raises 415 and 422."""
    forms = _CUSTOM_FORMS if call.resource.is_custom else _FORMS
    if call.content_type not in forms:
        raise status.unsupported_media_type(forms)
    errors = []
    if call.content_type == APPLY:
        if not call.query.get("fieldManager"):
            errors.append(FieldError("FieldValueRequired", "fieldManager", "is required for apply patch"))
    elif options.force is not None:
        errors.append(FieldError("FieldValueForbidden", "force", "may not be specified for non-apply patch"))
    if errors:
        raise status.invalid("PatchOptions", META_GROUP, "", errors)


def patched_by(call: Call) -> Patched:
    """What a patch that is not applied makes of an object."""
    try:
        body = read_json(call.body)
    except (ValueError, RecursionError) as error:
        raise status.bad_request(f"error decoding patch: {error}") from None

    def make(old: Object | None) -> Json:
        assert old is not None
        match call.content_type:
            case "application/json-patch+json":
                return apply_json_patch(old, body)
            case "application/merge-patch+json":
                return apply_merge_patch(old, body)
        return apply_strategic_merge_patch(old, body, call.resource.schema)

    return make


def _applied(backend: Backend, call: Call, options: WriteOptions, twice: list[str]) -> Patched:
    body = from_yaml(call.body, call.resource.kind, twice)
    if not isinstance(body, dict):
        raise status.bad_request("what is applied must be an object")
    resource, info = call.resource, call.info
    if isinstance(body.get("metadata"), dict) or body.get("metadata") is None:
        name = at(body, "metadata.name", "")
        if name != info.name:
            raise status.bad_request(f"the name of the object ({name}) {_OTHER_NAME} ({info.name})")

    def make(old: Object | None) -> Object:
        applied = copied(body)
        if at(applied, "metadata.resourceVersion") and old is not None:
            if applied["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
                raise status.conflict(resource.plural, info.name, group=resource.group)
            del applied["metadata"]["resourceVersion"]
        if resource.namespaced and isinstance(applied.get("metadata"), dict):
            applied["metadata"].setdefault("namespace", info.namespace)
        return apply(
            old,
            applied,
            manager=options.manager,
            force=bool(options.force),
            kind=resource.kind,
            api_version=resource.api_version,
            schema=resource.schema,
            subresource=info.subresource,
            now=backend.now(),
        )

    return make


def _unfit(call: Call, error: ApiError) -> ApiError:
    """What is wrong with the object that a patch leaves is the patch's fault."""
    if call.content_type == APPLY:
        return error
    text = call.body[:_SHOWN].decode("utf-8", "replace")
    return status.invalid("", "", "", [invalid("patch", text, error.message)])


def refused(error: PatchRefused) -> ApiError:
    if error.code == UNPROCESSABLE:
        return status.unprocessable()
    if error.code == TOO_LARGE:
        return ApiError(413, "RequestEntityTooLarge", str(error), {})
    if error.code == INTERNAL:
        return ApiError(500, "InternalError", str(error))
    return status.bad_request(str(error))
