"""Whether somebody may do something, as expressions ask it: of whoever makes a request, or of a service account.

Who decides may have to look things up, and expressions do not wait: a question that has no answer yet ends the
evaluation with Unanswered, and it is begun again with the answer.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import msgspec

from pykubelet.api.validation import names
from pykubelet.apiserver.cel.functions import member
from pykubelet.apiserver.cel.types import Type
from pykubelet.apiserver.cel.values import CelError, Value

_ROOT: Final = "kubernetes.authorization"
AUTHORIZER: Final = {
    "authorizer": Type(f"{_ROOT}.Authorizer"),
    "authorizer.requestResource": Type(f"{_ROOT}.ResourceCheck"),
}
"""The variables by which expressions ask."""
_COST: Final = 350_000


class Question(msgspec.Struct, frozen=True):
    account: tuple[str, str] | None = None
    """Namespace and name of the service account that is meant; None: whoever makes the request."""
    verb: str = ""
    path: str = ""
    """Where it is not about a resource."""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


class Unanswered(Exception):
    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


class Decision(msgspec.Struct, frozen=True):
    cel_name: ClassVar[str] = f"{_ROOT}.Decision"
    is_allowed: bool
    reason: str = ""
    error: str = ""


Ask = Callable[[Question], Decision]


class _Asking(msgspec.Struct, frozen=True):
    """A question in the making."""

    ask: Ask
    about: Question = Question()


class Authorizer(_Asking, frozen=True):
    cel_name: ClassVar[str] = f"{_ROOT}.Authorizer"


class PathCheck(_Asking, frozen=True):
    cel_name: ClassVar[str] = f"{_ROOT}.PathCheck"


class GroupCheck(_Asking, frozen=True):
    cel_name: ClassVar[str] = f"{_ROOT}.GroupCheck"


class ResourceCheck(_Asking, frozen=True):
    cel_name: ClassVar[str] = f"{_ROOT}.ResourceCheck"


def _about(of: _Asking, **more: object) -> Question:
    return msgspec.structs.replace(of.about, **more)


@member(f"{_ROOT}.Authorizer.path(string): {_ROOT}.PathCheck")
def _path(of: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise CelError("path must not be empty")
    return PathCheck(of.ask, _about(of, path=path))


@member(f"{_ROOT}.Authorizer.group(string): {_ROOT}.GroupCheck")
def _group(of: Authorizer, group: str) -> GroupCheck:
    return GroupCheck(of.ask, _about(of, group=group))


@member(f"{_ROOT}.Authorizer.serviceAccount(string, string): {_ROOT}.Authorizer")
def _service_account(of: Authorizer, namespace: str, name: str) -> Authorizer:
    if any(names.dns_subdomain(name)):
        raise CelError("Invalid service account name")
    if any(names.dns_label(namespace)):
        raise CelError("Invalid service account namespace")
    return Authorizer(of.ask, _about(of, account=(namespace, name)))


@member(f"{_ROOT}.GroupCheck.resource(string): {_ROOT}.ResourceCheck")
def _resource(of: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise CelError("resource must not be empty")
    return ResourceCheck(of.ask, _about(of, resource=resource))


def _enter_part(name: str, field: str) -> None:
    @member(f"{_ROOT}.ResourceCheck.{name}(string): {_ROOT}.ResourceCheck")
    def _(of: ResourceCheck, value: str) -> ResourceCheck:
        return ResourceCheck(of.ask, _about(of, **{field: value}))


for _name, _field in (
    ("subresource", "subresource"),
    ("namespace", "namespace"),
    ("name", "name"),
    ("fieldSelector", "field_selector"),
    ("labelSelector", "label_selector"),
):
    _enter_part(_name, _field)


def _of_check(args: Sequence[Value]) -> int:
    return _COST


@member(
    f"{_ROOT}.PathCheck.check(string): {_ROOT}.Decision",
    f"{_ROOT}.ResourceCheck.check(string): {_ROOT}.Decision",
    cost=_of_check,
)
def _check(of: PathCheck | ResourceCheck, verb: str) -> Decision:
    return of.ask(_about(of, verb=verb))


@member(f"{_ROOT}.Decision.allowed(): bool")
def _allowed(of: Decision) -> bool:
    return of.is_allowed


@member(f"{_ROOT}.Decision.reason(): string")
def _reason(of: Decision) -> str:
    return of.reason


@member(f"{_ROOT}.Decision.errored(): bool")
def _errored(of: Decision) -> bool:
    return bool(of.error)


@member(f"{_ROOT}.Decision.error(): string")
def _error(of: Decision) -> str:
    return of.error
