"""Every answer that is not an object: the Status that says what went wrong, in the words clients of Kubernetes know."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from pykubelet.api.field_errors import FieldError

_TITLES: Final = {
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotFound": "Not found",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueRequired": "Required value",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
}
_WITHOUT_VALUE: Final = ("FieldValueForbidden", "FieldValueRequired", "FieldValueTooLong")
_CHOICES: Final = "must be one of "
MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"


class ApiError(Exception):
    """A request that ends with a Status instead of an object."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def status(self) -> dict[str, Any]:
        return status_object("Failure", self.code, self.reason, self.message, self.details)


def status_object(
    status: str, code: int = 0, reason: str = "", message: str = "", details: dict[str, Any] | None = None
) -> dict[str, Any]:
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status}
    if message:
        body["message"] = message
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = details
    if code:
        body["code"] = code
    return body


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unfit(kind: str, version: str, why: str) -> ApiError:
    """What was sent is not an object of this kind."""
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized", headers={"WWW-Authenticate": "Bearer"})


def not_found(resource: str, name: str, group: str = "") -> ApiError:
    details = _details(name, group, resource)
    return ApiError(404, "NotFound", f'{_qualified(resource, group)} "{name}" not found', details)


def unknown_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: str, name: str, group: str = "") -> ApiError:
    details = _details(name, group, resource)
    return ApiError(409, "AlreadyExists", f'{_qualified(resource, group)} "{name}" already exists', details)


def conflict(resource: str, name: str, why: str = MODIFIED, group: str = "") -> ApiError:
    message = f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(name, group, resource))


def apply_conflict(message: str, causes: Sequence[tuple[str, str]]) -> ApiError:
    """`causes`: the field, and whom it conflicts with."""
    found = [{"reason": "FieldManagerConflict", "message": text, "field": field} for field, text in causes]
    return ApiError(409, "Conflict", message, {"causes": found})


def forbidden(resource: str, name: str, why: str, group: str = "", causes: Iterable[dict[str, str]] = ()) -> ApiError:
    subject = f'{_qualified(resource, group)} "{name}"' if name else _qualified(resource, group)
    details = _details(name, group, resource)
    if found := list(causes):
        details["causes"] = found
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", details)


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    causes = [{"reason": error.type, "message": field_message(error), "field": error.field} for error in errors]
    parts = list(dict.fromkeys(f"{error.field}: {field_message(error)}" for error in errors))
    listed = parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]"
    details = {**_details(name, group, kind), "causes": causes}
    return ApiError(422, "Invalid", f'{_qualified(kind, group)} "{name}" is invalid: {listed}', details)


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def not_acceptable(accepted: Sequence[str]) -> ApiError:
    message = f"only the following media types are accepted: {', '.join(accepted)}"
    return ApiError(406, "NotAcceptable", message)


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, "UnsupportedMediaType", message)


def too_large(limit: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}", {})


def gone_410(message: str = "") -> ApiError:
    """What was asked for goes on from a moment that is forgotten: the client lists again."""
    text = message or "The provided continue parameter is too old to display a consistent list result."
    return ApiError(410, "Expired", text)


def too_large_version(wanted: int, current: int) -> ApiError:
    message = f"Too large resource version: {wanted}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1}, {"Retry-After": "1"})


def unavailable(message: str, after: int = 1) -> ApiError:
    """`after`: seconds after which it may work; 0: it takes more than time."""
    if not after:
        return ApiError(503, "ServiceUnavailable", message)
    details = {"retryAfterSeconds": after}
    return ApiError(503, "ServiceUnavailable", message, details, {"Retry-After": str(after)})


def internal(message: str) -> ApiError:
    causes = {"causes": [{"message": message}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", causes)


def unprocessable() -> ApiError:
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def field_message(error: FieldError) -> str:
    """`Invalid value: "x": why`, as upstream writes the fault of one field."""
    title = _TITLES[error.type]
    if error.type not in _WITHOUT_VALUE and error.value is not None:
        title = f"{title}: {msgspec.json.encode(error.value, enc_hook=str).decode()}"
    if error.detail in ("", "is required", "is used more than once"):
        return title
    if error.type == "FieldValueNotSupported" and error.detail.startswith(_CHOICES):
        choices = ", ".join(f'"{each}"' for each in error.detail.removeprefix(_CHOICES).split(", "))
        return f"{title}: supported values: {choices}"
    return f"{title}: {error.detail}"


def _details(name: str, group: str, kind: str) -> dict[str, Any]:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource
