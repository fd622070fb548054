"""What a webhook is asked, and what its answer means. Pure."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, Literal

import msgspec

from pykubelet.apiserver import status
from pykubelet.apiserver.admission.hooks import Hook
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.admission import Attempt
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.status import ApiError

GROUP: Final = "admission.k8s.io"
_MOST_NOTES: Final = 64
_LONGEST_KEY: Final = 256
_LONGEST_NOTE: Final = 10 << 10
_KNOWN: Final = ("v1", "v1beta1")


class CallFailed(Exception):
    """A webhook could not be asked, or has answered what makes no sense."""


class _Response(msgspec.Struct, frozen=True, rename="camel"):
    allowed: bool = False
    uid: str = ""
    patch: str | None = None
    patch_type: str | None = None
    status: dict[str, Any] | None = None
    warnings: list[str] = []
    audit_annotations: dict[str, str] = {}


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    response: _Response | None = None


class Verdict(msgspec.Struct, frozen=True):
    refusal: ApiError | None
    patch: list[Any]
    warnings: tuple[str, ...]
    notes: dict[str, str]


def review_version(hook: Hook) -> Literal["v1", "v1beta1"]:
    """Raises CallFailed."""
    for version in hook.versions:
        if version in _KNOWN:
            return "v1" if version == "v1" else "v1beta1"
    raise CallFailed(
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    )


def review_of(
    attempt: Attempt, seen_as: Resource, obj: Object | None, old: Object | None, uid: str, version: str
) -> Object:
    """`obj` and `old` in the version of `seen_as`."""
    asked = attempt.resource
    request: Object = {
        "uid": uid,
        "kind": _kind(seen_as, attempt.part),
        "resource": {"group": seen_as.group, "version": seen_as.version, "resource": seen_as.plural},
        "requestKind": _kind(asked, attempt.part),
        "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
        "operation": attempt.operation,
        "userInfo": attempt.user.info(),
        "object": obj,
        "oldObject": old,
        "dryRun": attempt.dry_run,
        "options": attempt.options or None,
    }
    if attempt.part:
        request["subResource"] = request["requestSubResource"] = attempt.part
    if attempt.name:
        request["name"] = attempt.name
    if attempt.namespace:
        request["namespace"] = attempt.namespace
    return {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request}


def _kind(resource: Resource, part: str) -> dict[str, str]:
    found = resource.subresource(part) if part else None
    if found is None:
        return {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {
        "group": found.group or resource.group,
        "version": found.version or resource.version,
        "kind": found.kind,
    }


def verdict_of(hook: Hook, body: bytes, uid: str, version: str, *, mutates: bool) -> Verdict:
    """Raises CallFailed."""
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise CallFailed(f"failed to call webhook: its answer cannot be read: {error}") from None
    answer = review.response
    if answer is None:
        raise _invalid("webhook response was absent")
    patch = _patch(answer, mutates) if version == "v1" else answer.patch if mutates else None
    if version == "v1":
        if answer.uid != uid:
            raise _invalid(f'expected response.uid="{uid}", got "{answer.uid}"')
        if (review.api_version, review.kind) != (f"{GROUP}/v1", "AdmissionReview"):
            got = f"{review.api_version or '/'}, Kind={review.kind}"
            raise _invalid(f"expected webhook response of {GROUP}/v1, Kind=AdmissionReview, got {got}")
    refusal = None if answer.allowed else denial(hook.name, answer.status or {})
    notes = {
        f"{hook.name}/{key[:_LONGEST_KEY]}": value[:_LONGEST_NOTE] for key, value in _few(answer.audit_annotations)
    }
    operations = _operations(patch) if patch and refusal is None else []
    return Verdict(refusal, operations, tuple(answer.warnings), notes)


def _few(notes: dict[str, str]) -> Iterable[tuple[str, str]]:
    return islice(notes.items(), _MOST_NOTES)


def _patch(answer: _Response, mutates: bool) -> str | None:
    if not mutates:
        for field, given in (("patch", answer.patch), ("patchType", answer.patch_type)):
            if given:
                raise _invalid(f"validating webhook may not return response.{field}")
        return None
    if answer.patch and answer.patch_type is None:
        raise _invalid("webhook returned response.patch but not response.patchType")
    if not answer.patch and answer.patch_type is not None:
        raise _invalid("webhook returned response.patchType but not response.patch")
    if answer.patch_type not in (None, "JSONPatch"):
        raise CallFailed(f'unsupported patch type "{answer.patch_type}"')
    return answer.patch


def _operations(patch: str) -> list[Any]:
    try:
        found = msgspec.json.decode(base64.b64decode(patch, validate=True))
    except (binascii.Error, ValueError) as error:
        raise CallFailed(f"received undecodable patch in webhook response: {error}") from None
    if not isinstance(found, list):
        raise CallFailed("received undecodable patch in webhook response: it is not a list of operations")
    return found


def denial(name: str, given: Mapping[str, Any]) -> ApiError:
    """What the client is told, as far as the webhook says it; never that all is well."""
    code, reason, message = given.get("code"), given.get("reason"), given.get("message")
    denied = f'admission webhook "{name}" denied the request'
    why = message if isinstance(message, str) and message else reason if isinstance(reason, str) else ""
    details = given.get("details")
    return ApiError(
        code if isinstance(code, int) and 400 <= code <= 599 else 400,
        reason if isinstance(reason, str) else "",
        f"{denied}: {why}" if why else f"{denied} without explanation",
        details if isinstance(details, dict) else None,
    )


def unfit_for_dry_run(name: str) -> ApiError:
    return status.bad_request(f'admission webhook "{name}" does not support dry run')


def failed_closed(name: str, error: CallFailed) -> ApiError:
    return status.internal(f'failed calling webhook "{name}": {error}')


def _invalid(why: str) -> CallFailed:
    return CallFailed(f"received invalid webhook response: {why}")
