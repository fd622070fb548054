"""What an API server's refusal, or the lack of any answer, means to the caller.

Each class is one of the base errors, so that code outside of this room need not know these; `status` keeps what
the server said.
"""

from collections.abc import Mapping
from typing import Final

from pykubelet.api.meta import Status
from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError, Retry


class KubeconfigError(Invalid):
    """A kubeconfig that cannot be used: the text names the file and the remedy, and never a credential."""


class CredentialsError(Retry):
    """Credentials that are not there now, such as a token file not yet written or a plug-in that failed."""


class Unreachable(Retry):
    """No answer: the server, or the way to it, is down, slow or not understood."""


class Untrusted(Unreachable):
    """A TLS handshake that failed because one side does not accept the other's certificate."""


class BadAnswer(Retry):
    """An answer that is not what was asked for, such as the page of a proxy."""


class TooLarge(Invalid):
    """An answer, or one line of a stream, beyond the limit."""


class ApiError(PykubeletError):
    """The server answered, and the answer is an error."""

    def __init__(self, message: str, *, status: Status) -> None:
        super().__init__(message)
        self.status = status

    @property
    def code(self) -> int:
        return self.status.code or 0

    @property
    def reason(self) -> str:
        return self.status.reason


class ObjectNotFound(ApiError, NotFound):
    """404."""


class ObjectConflict(ApiError, Conflict):
    """409: a stale resource version, a uid that is not the one expected, or a name that is taken."""


class AlreadyExists(ObjectConflict):
    """409 on create: an object of this name is there."""


class Expired(ApiError, Conflict):
    """410: the resource version or the continue token is too old. List again."""


class Refused(ApiError, Invalid):
    """The request is not acceptable as it is: 400, 405, 413, 415, 422 and their like."""


class Forbidden(Refused):
    """403: known, but not allowed to."""


class _Temporary(ApiError, Retry):
    def __init__(self, message: str, *, status: Status, after: float | None = None) -> None:
        super().__init__(message, status=status)
        self.after = after


class Unauthorized(_Temporary):
    """401, also with renewed credentials. The rotation of a token or certificate may cure it, so it is not for ever."""


class Unavailable(_Temporary):
    """429 or 5xx: the server has too much to do, or does not work at the moment."""


_BY_CODE: Final[Mapping[int, type[ApiError]]] = {403: Forbidden, 404: ObjectNotFound, 409: ObjectConflict, 410: Expired}


def api_error(status: Status, request: str = "", *, after: float | None = None) -> ApiError:
    """The exception for a Status: the body of an answer, or the object of a watch's ERROR event."""
    code = status.code or 0
    what = status.message or status.reason or f"answered with code {code}"
    message = f"{request}: {what}" if request else what
    if after is None and status.details is not None and status.details.retry_after_seconds:
        after = float(status.details.retry_after_seconds)
    if code in (408, 429) or code >= 500:
        return Unavailable(message, status=status, after=after)
    if code == 401:
        return Unauthorized(message, status=status, after=after)
    if code == 409 and status.reason == "AlreadyExists":
        return AlreadyExists(message, status=status)
    return _BY_CODE.get(code, Refused)(message, status=status)
