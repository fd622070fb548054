"""From what HTTP gave us, or failed to give, to one of our errors, in words that name the server and the remedy."""

import os
import ssl
from typing import Final

import aiohttp
from yarl import URL

from pykubelet.api import codec
from pykubelet.api.meta import Status
from pykubelet.api.struct import changed
from pykubelet.kube.errors import ApiError, Unreachable, Untrusted, api_error

# OpenSSL's numbers (X509_V_ERR_...), which Python passes on without names.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_UNKNOWN_ISSUER: Final = (2, 18, 19, 20, 21)
_WRONG_NAME: Final = (62, 64)


def refusal(response: aiohttp.ClientResponse, body: bytes, request: str) -> ApiError:
    """The error for an answer with a status of 300 or more."""
    after = response.headers.get("Retry-After", "")
    return api_error(_status(response, body), request, after=float(after) if after.isdecimal() else None)


def no_answer(error: Exception, server: str, request: str) -> Unreachable:
    """The error for a request that got no answer, or half of one. It takes the library's words, never its objects."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return Untrusted(f"{server}: {_distrust(error.certificate_error)}")
        case aiohttp.ClientProxyConnectionError():
            return Unreachable(
                f"{server}: its proxy {error.host}:{error.port} cannot be reached: {_words(error.os_error)}"
            )
        case aiohttp.ClientHttpProxyError():
            return Unreachable(f"{server}: its proxy refused to connect: {error.status} {error.message}")
        case aiohttp.ClientConnectorDNSError():
            return Unreachable(f"{server}: the name {error.host} cannot be resolved: {_words(error.os_error)}")
        case TimeoutError():
            return Unreachable(f"{server} took too long: no answer to {request}, or no more of it")
    if (alert := _alert(error)) is not None:
        return Untrusted(f"{server}: TLS failed: {_alert_words(alert)}")
    match error:
        case aiohttp.ClientConnectorError():
            return Unreachable(f"{server} cannot be reached: {_words(error.os_error)}")
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | OSError():
            return Unreachable(f"{server} broke the connection off during {request}")
        case _:
            return Unreachable(
                f"{server}: its answer to {request} is not HTTP as it should be ({type(error).__name__})"
            )


def _status(response: aiohttp.ClientResponse, body: bytes) -> Status:
    try:
        status = codec.decode(Status, body)
    except codec.DecodeError:
        status = Status()
    if status.kind == "Status":
        return changed(status, code=response.status)
    phrase = f"{response.status} {response.reason or ''}".strip()
    if response.status < 400:
        message = f"answers with a redirect{_elsewhere(response)}, which is not followed; the address has to be exact"
    elif _is_text(response) and (text := body.decode(errors="replace").strip()):
        message = f"{phrase}: {text.splitlines()[0][:200]}"
    else:
        message = phrase
    return Status(kind="Status", status="Failure", message=message, code=response.status)


def _is_text(response: aiohttp.ClientResponse) -> bool:
    """Go's own refusals, such as that of http:// to an https:// port, come without a type."""
    return response.headers.get("Content-Type", "text/plain").startswith("text/plain")


def _elsewhere(response: aiohttp.ClientResponse) -> str:
    try:
        place = URL(response.headers.get("Location", ""))
        return f" to {place.origin()}{place.path}" if place.absolute else ""
    except ValueError:
        return ""


def _distrust(error: Exception) -> str:
    code, message = getattr(error, "verify_code", None), getattr(error, "verify_message", str(error))
    if code in _UNKNOWN_ISSUER:
        return (
            f"its certificate does not verify ({message}); "
            "set certificate-authority in the kubeconfig to the CA that signed it"
        )
    if code in _WRONG_NAME:
        return (
            f"its certificate does not verify ({message.rstrip('.')}); "
            "use an address that it is valid for, or set tls-server-name in the kubeconfig"
        )
    if code == _EXPIRED:
        return "its certificate does not verify (it has expired); renew it, or set this machine's clock right"
    if code == _NOT_YET_VALID:
        return "its certificate does not verify (it is not valid yet); set this machine's clock right"
    return f"its certificate does not verify ({message})"


def _alert(error: BaseException | None) -> ssl.SSLError | None:
    """With TLS 1.3 a server judges our certificate after the handshake: its verdict comes wrapped in other errors."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and getattr(error, "reason", None):  # aiohttp's own have none
            return error
        error = error.__cause__ or error.__context__
    return None


def _alert_words(error: ssl.SSLError) -> str:
    reason = error.reason.replace("_", " ").lower()
    if "certificate" in reason or "unknown ca" in reason:
        return (
            f"the server does not accept our client certificate ({reason}); check client-certificate in the kubeconfig"
        )
    if "wrong version number" in reason or "packet length too long" in reason or "http request" in reason:
        return f"the server does not speak TLS ({reason}); is it http:// instead of https://?"
    return reason


def _words(error: OSError) -> str:
    if error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or type(error).__name__
