"""A write before it happens, as those see it who may change or refuse it. The writer asks; others decide."""

from typing import Any, Literal, Protocol

import msgspec

from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.users import User
from pykubelet.apiserver.schema.resources import Resource

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Attempt(msgspec.Struct, frozen=True):
    """To write an object, or to delete one."""

    operation: Operation
    resource: Resource
    part: str
    """The sub-resource."""
    namespace: str
    name: str
    obj: Object | None
    """As it would be; None when it is to be deleted."""
    old: Object | None
    user: User
    options: dict[str, Any]
    dry_run: bool
    warnings: list[str]
    """What the client is told besides the answer."""
    notes: dict[str, str]
    """What the audit log is told."""
    is_fixed: bool = False
    """It can be refused, and not changed."""


class Mutation(msgspec.Struct, frozen=True):
    """An object that was changed, and who wants to see it again if it changes once more."""

    obj: Object
    again: frozenset[str]


class Admission(Protocol):
    def waits(self, resource: Resource) -> bool:
        """Whether writes of it may have to wait for somebody outside."""
        ...

    def asks(self, resource: Resource, *, mutating: bool) -> bool:
        """Whether there is anybody to be asked about writes of it, by `mutate` or by `validate`."""
        ...

    async def mutate(self, attempt: Attempt) -> Mutation | None:
        """None: nobody has changed it. Raises ApiError."""
        ...

    async def mutate_again(self, attempt: Attempt, before: Mutation) -> Object:
        """After those inside have had another look at what was changed. Raises ApiError."""
        ...

    async def validate(self, attempt: Attempt) -> None:
        """Raises ApiError."""
        ...


class AdmitAll:
    """For a server that nobody has put a word in for."""

    def waits(self, resource: Resource) -> bool:
        return False

    def asks(self, resource: Resource, *, mutating: bool) -> bool:
        return False

    async def mutate(self, attempt: Attempt) -> Mutation | None:
        return None

    async def mutate_again(self, attempt: Attempt, before: Mutation) -> Object:
        return before.obj

    async def validate(self, attempt: Attempt) -> None:
        return None
