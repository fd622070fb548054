"""Tokens for service accounts, as kubelets ask for them on behalf of pods: serviceaccounts/token."""

from datetime import timedelta
from typing import Any, Final

import msgspec

from pykubelet.api.field_errors import invalid
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.security.tokens import AUDIENCES, Bound, ServiceAccountTokens
from pykubelet.apiserver.verbs.bodies import read_object
from pykubelet.apiserver.verbs.handlers import Verb
from pykubelet.apiserver.writer.asking import ask
from pykubelet.apiserver.writer.author import Author

GROUP: Final = "authentication.k8s.io"
KIND: Final = "TokenRequest"
_API_VERSION: Final = f"{GROUP}/v1"
_SHORTEST: Final = 600
_LONGEST: Final = 1 << 32
_DEFAULT: Final = 3600
_MOST_AUDIENCES: Final = 1_000
_BINDABLE: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


class _Reference(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    audiences: list[str] = []
    expiration_seconds: int | None = None
    bound_object_ref: _Reference | None = None


def token_requests(tokens: ServiceAccountTokens) -> Verb:
    async def create(backend: Backend, call: Call) -> Answer:
        body = read_object(call, backend.strategy(call.resource), kind=KIND, api_version=_API_VERSION)
        spec = _spec(body)
        seconds = _DEFAULT if spec.expiration_seconds is None else spec.expiration_seconds
        account = await _account(backend, call, body)
        where = {"name": call.info.name, "namespace": call.info.namespace}
        asked = {**body, "metadata": {**(body.get("metadata") or {}), **where}}
        author = Author(call.user, "", call.info, bool(call.dry_run), call.warnings, call.notes)
        await ask(backend, author, call.resource, "token", asked)
        await backend.access.check_body(call.user, call.info, body, None)
        _check(seconds)
        audiences = spec.audiences or list(AUDIENCES)
        if len(audiences) > _MOST_AUDIENCES:  # a token that no server would take in its head
            raise status.bad_request(f"a token may be for at most {_MOST_AUDIENCES:,} audiences")
        bound, node = await _bound(backend, call, spec.bound_object_ref)
        now = backend.now()
        token = tokens.issue(account, audiences, seconds, bound=bound, node=node)
        metadata = {name: account["metadata"][name] for name in ("name", "namespace", "uid")}
        answer = {
            "apiVersion": _API_VERSION,
            "kind": KIND,
            "metadata": {**metadata, "creationTimestamp": rfc3339(now)},
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": at(body, "spec.boundObjectRef"),
            },
            "status": {"token": token, "expirationTimestamp": rfc3339(now + timedelta(seconds=seconds))},
        }
        return Answer(201, answer)

    return create


def _spec(body: Object) -> _Spec:
    try:
        return msgspec.convert(body.get("spec") or {}, _Spec)
    except msgspec.ValidationError as error:
        raise status.bad_request(f'{KIND} in version "v1" cannot be handled as a {KIND}: spec: {error}') from None


async def _account(backend: Backend, call: Call, body: Object) -> Object:
    info = call.info
    for field, wanted in (("name", info.name), ("namespace", info.namespace)):
        given = at(body, f"metadata.{field}")
        if given and given != wanted:
            text = f"must match the service account {field} if specified"
            raise status.invalid(KIND, GROUP, info.name, [invalid(f"metadata.{field}", given, text)])
    account = await backend.live(call.resource.plural, info.namespace, info.name)
    uid = at(body, "metadata.uid")
    if uid and uid != account["metadata"]["uid"]:
        ours = account["metadata"]["uid"]
        why = f"the UID in the token request ({uid}) does not match the UID of the service account ({ours})"
        raise status.conflict(KIND, info.name, why, GROUP)
    return account


def _check(seconds: int) -> None:
    if not _SHORTEST <= seconds <= _LONGEST:
        bound = "less than 10 minutes" if seconds < _SHORTEST else "larger than 2^32 seconds"
        error = invalid("spec.expirationSeconds", seconds, f"may not specify a duration {bound}")
        raise status.invalid(KIND, GROUP, "", [error])


async def _bound(backend: Backend, call: Call, asked: _Reference | None) -> tuple[Bound | None, Bound | None]:
    """-> what the token is bound to, and the node of the pod if that is what it is bound to"""
    if asked is None:
        return None, None
    plural = _BINDABLE.get(asked.kind) if asked.api_version in ("", "v1") else None
    if plural is None:
        raise status.bad_request(f"cannot bind token to object of type {asked.api_version}, Kind={asked.kind}")
    found = await backend.live(plural, "" if asked.kind == "Node" else call.info.namespace, asked.name)
    uid = found["metadata"]["uid"]
    if asked.uid and asked.uid != uid:
        why = (
            f"the UID in the bound object reference ({asked.uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise status.conflict(asked.kind, asked.name, why)
    bound = Bound(asked.kind, asked.name, uid)
    if asked.kind != "Pod":
        return bound, None
    if at(found, "spec.serviceAccountName") != call.info.name:
        raise status.bad_request(
            f'cannot bind token for serviceaccount "{call.info.name}" to pod running with different '
            "serviceaccount name."
        )
    name = at(found, "spec.nodeName", "")
    if not name:
        return bound, None
    node: dict[str, Any] | None = await backend.find("", "nodes", "", name)
    return bound, Bound("Node", name, at(node, "metadata.uid", ""))
