"""Who may come in. The server asks; others decide."""

from typing import Final, Protocol

from aiohttp import web

from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import MASTERS, User, authenticated

IDENTIFIED: Final = web.RequestKey("identified", User)
"""Who made a request, once that is known, whether he may or not."""
IMPERSONATED: Final = web.RequestKey("impersonated", User)
"""Whom it is to be taken for, where that is another."""


class AccessControl(Protocol):
    async def identify(self, request: web.Request) -> User:
        """Who it is that asks. Raises 401, and 403 for one who may not be who he wants to be."""
        ...

    async def check(self, user: User, info: RequestInfo) -> str:
        """Why the user may, for the audit log. Raises 403 when he may not."""
        ...

    async def check_body(self, user: User, info: RequestInfo, body: Object | None, live: Object | None) -> None:
        """Once it is known what would be stored, and what is there. Raises 403."""
        ...


class AllowAll:
    """Lets everybody in as the owner of the cluster: for tests only."""

    async def identify(self, request: web.Request) -> User:
        return authenticated("admin", (MASTERS,))

    async def check(self, user: User, info: RequestInfo) -> str:
        return ""

    async def check_body(self, user: User, info: RequestInfo, body: Object | None, live: Object | None) -> None:
        return None
