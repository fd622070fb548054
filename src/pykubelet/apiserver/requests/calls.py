"""One request about a resource, after it was let in, and the answer to it."""

from collections.abc import AsyncIterator, Mapping
from functools import cached_property

import msgspec

from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.media_types import Accept, is_for_people
from pykubelet.apiserver.requests.options import WriteOptions, write_options
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import User
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.schema.schema import Json


class Call(msgspec.Struct, frozen=True, dict=True):
    info: RequestInfo
    resource: Resource
    query: Mapping[str, str]
    dry_run: tuple[str, ...]
    body: bytes
    content_type: str
    accept: Accept
    user: User
    user_agent: str
    warnings: list[str]
    """What the client is told besides the answer."""
    notes: dict[str, str] = {}
    """What the audit log is told."""
    ahead: tuple[Json, list[str]] | None = None
    """What is in the body, and which names are in one map twice, where that was looked at before."""

    @cached_property
    def write_options(self) -> WriteOptions:
        """Raises 422."""
        return write_options(self.query, self.dry_run, self.info.verb, self.user_agent)

    @property
    def is_for_people(self) -> bool:
        return is_for_people(self.query.get("pretty"), self.user_agent)


class Answer(msgspec.Struct, frozen=True):
    """An object, or bytes that need no more work, or a stream of them."""

    code: int = 200
    obj: Object | None = None
    data: bytes | None = None
    stream: AsyncIterator[bytes] | None = None
