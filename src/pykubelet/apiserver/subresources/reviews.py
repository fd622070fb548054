"""Questions about who somebody is and what he may do: answered, and kept nowhere."""

from typing import Any, Final, TypeVar

import msgspec

from pykubelet.api.field_errors import invalid
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import User
from pykubelet.apiserver.security.cluster_access import ClusterAccess
from pykubelet.apiserver.verbs.bodies import read_object
from pykubelet.base.errors import Invalid

T = TypeVar("T")

AUTHENTICATION: Final = "authentication.k8s.io"
AUTHORIZATION: Final = "authorization.k8s.io"


class _Requirement(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] = []


class _Selector(msgspec.Struct, frozen=True, rename="camel"):
    raw_selector: str = ""
    requirements: list[_Requirement] = []


class _Resource(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: _Selector | None = None


class _Path(msgspec.Struct, frozen=True):
    path: str = ""
    verb: str = ""


class _Access(msgspec.Struct, frozen=True, rename="camel"):
    resource_attributes: _Resource | None = None
    non_resource_attributes: _Path | None = None
    user: str = ""
    groups: list[str] = []
    uid: str = ""
    extra: dict[str, list[str]] = {}


class _Token(msgspec.Struct, frozen=True):
    token: str = ""
    audiences: list[str] = []


class _Rules(msgspec.Struct, frozen=True):
    namespace: str = ""


class Reviews:
    """Each method is a verb for the server's table."""

    def __init__(self, access: ClusterAccess) -> None:
        self._control = access

    async def token(self, backend: Backend, call: Call) -> Answer:
        body = _body(backend, call)
        asked = _spec(body, _Token)
        if not asked.token:
            raise status.bad_request("token is required for TokenReview in authentication")
        try:
            user, audiences = await self._control.authenticator.token_user(asked.token, tuple(asked.audiences))
        except Invalid as error:
            return _answer(body, {"authenticated": False, "error": str(error), "user": {}})
        return _answer(body, {"authenticated": True, "user": user.info(), "audiences": audiences})

    async def myself(self, backend: Backend, call: Call) -> Answer:
        return _answer(_body(backend, call), {"userInfo": call.user.info()})

    async def access(self, backend: Backend, call: Call) -> Answer:
        """Of anybody."""
        body = _nameless(_body(backend, call))
        asked = _spec(body, _Access)
        if not asked.user and not asked.groups:
            raise status.bad_request("spec.user: at least one of user or group must be specified")
        extra = {key: tuple(values) for key, values in asked.extra.items()}
        return await self._access(body, asked, User(asked.user, tuple(asked.groups), asked.uid, extra))

    async def local_access(self, backend: Backend, call: Call) -> Answer:
        body = _body(backend, call)
        asked = _spec(body, _Access)
        resource = asked.resource_attributes
        if resource is None:
            raise status.bad_request("spec.resourceAttributes is required")
        if resource.namespace != call.info.namespace:
            raise status.bad_request("spec.resourceAttributes.namespace must match the namespace of the request")
        return await self.access(backend, call)

    async def own_access(self, backend: Backend, call: Call) -> Answer:
        body = _nameless(_body(backend, call))
        return await self._access(body, _spec(body, _Access), call.user)

    async def own_rules(self, backend: Backend, call: Call) -> Answer:
        body = _body(backend, call)
        namespace = _spec(body, _Rules).namespace
        if not namespace:
            raise status.bad_request("no namespace on request")
        return _answer({**body, "spec": {}}, self._control.authorizer.rules(call.user, namespace))

    async def _access(self, body: Object, asked: _Access, user: User) -> Answer:
        if (asked.resource_attributes is None) == (asked.non_resource_attributes is None):
            raise status.bad_request("exactly one of nonResourceAttributes or resourceAttributes must be specified")
        verdict = await self._control.authorizer.verdict(user, _info(asked))
        found: dict[str, Any] = {"allowed": verdict.is_allowed}
        return _answer(body, {**found, "reason": verdict.reason} if verdict.reason else found)


def _info(asked: _Access) -> RequestInfo:
    path, resource = asked.non_resource_attributes, asked.resource_attributes
    if path is not None:
        return RequestInfo(path.verb, path.path)
    assert resource is not None
    return RequestInfo(
        verb=resource.verb,
        path="",
        is_resource=True,
        group=resource.group,
        version=resource.version,
        resource=resource.resource,
        subresource=resource.subresource,
        namespace=resource.namespace,
        name=resource.name,
        field_selector=_selector(resource.field_selector),
    )


def _selector(asked: _Selector | None) -> str:
    """As the text of a request: only what asks for one value narrows anything down."""
    if asked is None:
        return ""
    if asked.raw_selector:
        return asked.raw_selector
    single = [each for each in asked.requirements if each.operator == "In" and len(each.values) == 1]
    return ",".join(f"{each.key}={each.values[0]}" for each in single)


def _body(backend: Backend, call: Call) -> Object:
    resource = call.resource
    return read_object(call, backend.strategy(resource), kind=resource.kind, api_version=resource.api_version)


def _nameless(body: Object) -> Object:
    """A question about rights has no name, and nothing else that objects have. Raises 422."""
    metadata = body.get("metadata") or {}
    if any(value for name, value in metadata.items() if name not in ("namespace", "managedFields")):
        group = body["apiVersion"].partition("/")[0]
        raise status.invalid(body["kind"], group, "", [invalid("metadata", metadata, "must be empty")])
    return body


def _spec(body: Object, kind: type[T]) -> T:
    try:
        return msgspec.convert(body.get("spec") or {}, kind)
    except msgspec.ValidationError as error:
        raise status.bad_request(f"{body['kind']} cannot be handled: spec: {error}") from None


def _answer(body: Object, found: dict[str, Any]) -> Answer:
    return Answer(
        201, {**body, "metadata": {"creationTimestamp": None, **(body.get("metadata") or {})}, "status": found}
    )
